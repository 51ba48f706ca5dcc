"""The Prefect server: whether it answers, whom it lets in, whether pool, worker and deployments are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core.errors import UnreachableError
from tasks.platform.checks import web
from tasks.platform.checks.finding import Finding
from tasks.platform.environment import POOL
from tasks.platform.readiness import prefect_auth
from tasks.tracking.uris import without_credentials

PREFECT_FILE = Path(__file__).resolve().parents[3] / "deployments" / "prefect.yaml"


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the configured server."""
    api = environment.get("PREFECT_API_URL", "").rstrip("/")
    if not api:
        yield Finding.off(
            "prefect",
            "not configured: commands run without a server",
            "set PREFECT_API_URL to use one; `assay up` does",
        )
        return
    shown, auth = without_credentials(api), prefect_auth(environment)
    try:
        health = web.ask("GET", f"{api}/health")
    except UnreachableError as error:
        yield Finding.outage("prefect", f"{shown} does not answer ({error})", "start it, or unset PREFECT_API_URL")
        return
    if health.status_code != 200:
        yield Finding.outage("prefect", f"{shown} answers {health.status_code} when asked for its health", (
            "see the server's log; is the address right, with /api at its end?"
        ))  # fmt: skip
        return
    yield from web.clock("prefect clock", health.headers.get("date"))
    without = web.ask("POST", f"{api}/work_pools/filter", json={}).status_code
    yield web.auth_finding("prefect access", api, without, "start the server with PREFECT_SERVER_API_AUTH_STRING")
    ours = web.ask("POST", f"{api}/work_pools/filter", json={}, auth=auth)
    if ours.status_code in (401, 403):
        yield Finding.fail("prefect", f"{shown} refuses this environment's password, or its absence", (
            "set PREFECT_API_AUTH_STRING to what the server has; the stack's client.env holds it"
        ))  # fmt: skip
        return
    yield _versions(web.ask("GET", f"{api}/admin/version", auth=auth), shown)
    yield from _settings(web.ask("GET", f"{api}/admin/settings", auth=auth))
    yield _pool(api, auth, ours)
    yield _deployments(web.ask("POST", f"{api}/deployments/filter", json={}, auth=auth))
    yield _automations(web.ask("POST", f"{api}/automations/filter", json={}, auth=auth))


def _versions(answer: Any, shown: str) -> Finding:
    here = version("prefect")
    there = answer.text.strip().strip('"') if answer.is_success else "unknown"
    if there == here:
        return Finding.ok("prefect", f"{shown} answers, version {there}")
    return Finding.warn("prefect", f"{shown} answers, version {there}, and {here} is installed here", (
        "bring both to one version, the server first"
    ))  # fmt: skip


def _settings(answer: Any) -> Iterator[Finding]:
    found = answer.json() if answer.is_success else {}
    analytics = found.get("server", {}).get("analytics_enabled") if isinstance(found, dict) else None
    if analytics is True:
        yield Finding.warn(
            "prefect telemetry", "the server reports its use", "start it with PREFECT_SERVER_ANALYTICS_ENABLED=false"
        )
    elif analytics is False:
        yield Finding.ok("prefect telemetry", "off at the server")


def _pool(api: str, auth: Any, pools: Any) -> Finding:
    if POOL not in {item.get("name") for item in pools.json()}:
        return Finding.warn("worker", f"there is no work pool {POOL}", "see deployments/README.md, or use `assay up`")
    answer = web.ask("POST", f"{api}/work_pools/{POOL}/workers/filter", json={}, auth=auth)
    workers = answer.json() if answer.is_success else []
    alive = [item["name"] for item in workers if item.get("status") == "ONLINE"]
    if not alive:
        return Finding.warn("worker", f"none is alive in the pool {POOL}: runs wait", (
            f"prefect worker start --pool {POOL}"
        ))  # fmt: skip
    return Finding.ok("worker", f"{len(alive)} alive in the pool {POOL}")


def _deployments(answer: Any) -> Finding:
    import yaml

    there = {item["name"] for item in answer.json()} if answer.is_success else set()
    described = yaml.safe_load(PREFECT_FILE.read_text(encoding="utf-8")) if PREFECT_FILE.is_file() else {}
    wanted = {item["name"] for item in described.get("deployments", [])}
    if missing := sorted(wanted - there):
        return Finding.warn("deployments", f"{', '.join(missing)} are missing", "deploy: see deployments/README.md")
    return Finding.ok("deployments", ", ".join(sorted(there)) or "none")


def _automations(answer: Any) -> Finding:
    on = {item["name"]: item.get("enabled", True) for item in answer.json()} if answer.is_success else {}
    if not any(name.startswith("assay: runs that fell silent") for name in on):
        return Finding.warn("automations", "runs that fall silent are not marked Crashed, and keep their place", (
            "python deployments/automations.py"
        ))  # fmt: skip
    if off := sorted(name for name, enabled in on.items() if name.startswith("assay: ") and not enabled):
        return Finding.warn("automations", f"switched off: {', '.join(off)}", "switch them on in Prefect's UI")
    return Finding.ok("automations", f"{sum(name.startswith('assay: ') for name in on)} of assay's are on")
