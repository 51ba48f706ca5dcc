"""MLflow: whether it answers, whom it lets in, whether champions can be read and are of the judges of here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from core.errors import AssayError, InputError, UnknownJudgeError, UnreachableError
from tasks.platform.checks import web
from tasks.platform.checks.finding import Finding
from tasks.tracking.uris import database_file, is_server, tracking_uri, without_credentials

CHAMPIONS = 20
"""So many instruments are looked at; each champion's record is fetched."""


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the configured server or database."""
    try:
        uri = tracking_uri()
    except InputError as error:
        yield Finding.fail("mlflow", str(error), "correct ASSAY_TRACKING_URI or MLFLOW_TRACKING_URI")
        return
    if uri is None:
        yield Finding.off("mlflow", "switched off")
        return
    if not is_server(uri):
        file = database_file(uri)
        there = "a database" if file is None else str(file) if file.exists() else f"{file} (made on first use)"
        yield Finding.off("mlflow", f"no server: {there}", "set ASSAY_TRACKING_URI for one; `assay up` does")
        if file is None or file.exists():
            yield from champions_in(uri)
        return
    yield from _server(uri.rstrip("/"), environment)


def _server(uri: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    shown = without_credentials(uri)
    try:
        health = web.ask("GET", f"{uri}/health")
    except UnreachableError as error:
        yield Finding.outage("mlflow", f"{shown} does not answer ({error})", (
            "start it; records are kept meanwhile, and `assay sync` uploads them"
        ))  # fmt: skip
        return
    if health.status_code >= 500:
        yield Finding.outage("mlflow", f"{shown} answers {health.status_code}", "see the server's log")
        return
    yield from web.clock("mlflow clock", health.headers.get("date"))
    search = f"{uri}/api/2.0/mlflow/registered-models/search?max_results={CHAMPIONS}"
    without = web.ask("GET", _without_user(uri, search)).status_code
    yield web.auth_finding("mlflow access", uri, without, "start it with --app-name basic-auth: see infra/README.md")
    user = environment.get("MLFLOW_TRACKING_USERNAME")
    auth = (user, environment.get("MLFLOW_TRACKING_PASSWORD", "")) if user else None
    ours = web.ask("GET", search, **({"auth": auth} if auth else {}))
    if ours.status_code in (401, 403):
        yield Finding.fail("mlflow", f"{shown} refuses this environment's user, or its absence", (
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; the stack's client.env holds them"
        ))  # fmt: skip
        return
    said = web.ask("GET", f"{uri}/version", **({"auth": auth} if auth else {}))
    here, there = version("mlflow"), said.text.strip() if said.status_code == 200 else "unknown"
    if there in (here, "unknown"):
        yield Finding.ok("mlflow", f"{shown} answers, version {there}")
    else:
        yield Finding.warn("mlflow", f"{shown} answers, version {there}, and {here} is installed here", (
            "bring both to one version, the server first"
        ))  # fmt: skip
    yield from champions_in(uri, ours)


def champions_in(uri: str, found: Any = None) -> Iterator[Finding]:
    """Fetch each champion's record, as a measurement does, and hold its judge against the one that is installed."""
    names = _registered(uri) if found is None else _with_champion(found)
    if not names:
        yield Finding.off("champions", "no instrument has one", "assay calibrate ... --promote --because REASON")
    for name in names:
        yield _champion(name, uri)


def _champion(name: str, uri: str) -> Finding:
    from tasks.archive import find_calibration

    try:
        found = find_calibration(f"models:/{name}@champion", uri)
    except UnreachableError as error:
        return Finding.outage(f"champion {name}", f"its record cannot be fetched: {error}", (
            "MLflow hands out addresses of object storage: both have to be reachable from here"
        ))  # fmt: skip
    except AssayError as error:
        return Finding.warn(f"champion {name}", str(error), "promote a calibration, or remove the alias")
    return _same_judge(name, found)


def _same_judge(name: str, found: Any) -> Finding:
    from tasks.judges import load_judge

    judge = found.calibration.judge
    told = f"{found.reference.uri}, {judge}"
    try:
        here = load_judge(judge.name)
    except UnknownJudgeError:
        return Finding.ok(f"champion {name}", f"{told}; this judge is not installed here")
    except AssayError as error:
        return Finding.warn(f"champion {name}", f"{told}; this judge cannot run here: {error}", (
            "set what is missing where the judge runs; `assay watch` asks it every night"
        ))  # fmt: skip
    if judge.fingerprint in (here.fingerprint, "unknown"):
        return Finding.ok(f"champion {name}", f"{told}; the judge installed here is the same")
    return Finding.warn(f"champion {name}", f"{told}; the judge installed here has another fingerprint", (
        "calibrate it: assay event judge-changed, or assay calibrate"
    ))  # fmt: skip


def _with_champion(answer: Any) -> list[str]:
    rows = answer.json().get("registered_models", []) if answer.is_success else []
    return [row["name"] for row in rows if any(item.get("alias") == "champion" for item in row.get("aliases", []))]


def _registered(uri: str) -> list[str]:
    from tasks.tracking.connection import connected

    try:
        with connected(uri) as client:
            return [item.name for item in client.search_registered_models() if "champion" in item.aliases][:CHAMPIONS]
    except UnreachableError:
        return []


def _without_user(uri: str, url: str) -> str:
    """Leave out a user that stands in the address: the question is what strangers may see."""
    return url.replace(uri, without_credentials(uri), 1)
