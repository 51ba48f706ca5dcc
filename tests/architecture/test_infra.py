"""What infra/ describes fits its schemas, holds no secret, and says what the local stack does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.platform.environment import SECRET_NAMES, SECRETS_OF, is_secret, write_files_of
from tasks.platform.readiness import NEEDS
from tasks.platform.supervise import read_procfile
from tasks.settings import Settings

HOST = re.compile(
    r"pypi|pythonhosted|index-url|https?://(?!127\.0\.0\.1|localhost|s3:|mlflow:|prefect:|prefect-server:)"
)

JUDGE_KEYS = {"ASSAY_JUDGE_API_KEY", "OPENAI_API_KEY"}


@pytest.fixture(scope="module")
def infra(project: Path) -> Path:
    return project / "infra"


@pytest.fixture(scope="module")
def compose(infra: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((infra / "compose.yaml").read_text())
    return found


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name(name)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def manifests(infra: Path) -> list[Path]:
    return [file for file in sorted((infra / "kubernetes").glob("*.yaml")) if not file.name.endswith(".values.yaml")]


def containers(infra: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every container of the manifests: name, its pod's spec, its own."""
    for file in manifests(infra):
        for document in yaml.safe_load_all(file.read_text()):
            if document["kind"] in ("Deployment", "Job", "StatefulSet"):
                pod = document["spec"]["template"]["spec"]
                for container in pod["containers"]:
                    yield f"{file.name}: {container['name']}", pod, container


def test_the_compose_file_fits_its_schema_and_a_broken_one_does_not(infra: Path, tmp_path: Path) -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    good = tool("check-jsonschema", *schema, infra / "compose.yaml")
    assert good.returncode == 0, good.stdout
    broken = tmp_path / "compose.yaml"
    broken.write_text((infra / "compose.yaml").read_text().replace("healthcheck:", "healthchekc:", 1))
    assert tool("check-jsonschema", *schema, broken).returncode != 0


def test_the_manifests_fit_their_schemas_and_a_broken_one_does_not(infra: Path, tmp_path: Path) -> None:
    good = tool("kubernetes-validate", "--strict", "--quiet", *manifests(infra))
    assert good.returncode == 0, good.stdout + good.stderr
    broken = tmp_path / "worker.yaml"
    broken.write_text((infra / "kubernetes" / "worker.yaml").read_text().replace("livenessProbe:", "livenesProbe:", 1))
    assert tool("kubernetes-validate", "--strict", "--quiet", broken).returncode != 0


def test_the_yaml_is_well_formed_and_a_key_that_comes_twice_is_seen(infra: Path, tmp_path: Path) -> None:
    settings = ("--strict", "-c", infra / ".yamllint")
    good = tool("yamllint", *settings, infra)
    assert good.returncode == 0, good.stdout
    broken = tmp_path / "x.yaml"
    broken.write_text("a: 1\na: 2\n")
    assert tool("yamllint", *settings, broken).returncode != 0


def test_lint_runs_these_checks(project: Path) -> None:
    """The commands of the tests above are those of `make check`."""
    told = subprocess.run(["make", "-n", "lint"], cwd=project, capture_output=True, text=True, timeout=60).stdout
    assert "check-jsonschema --builtin-schema vendor.compose-spec infra/compose.yaml" in told
    assert "yamllint --strict -c infra/.yamllint infra" in told
    assert all(str(file.relative_to(project)) in told for file in manifests(project / "infra"))


def test_every_secret_of_the_compose_file_stops_it_when_it_is_not_set(compose: dict[str, Any], infra: Path) -> None:
    text = (infra / "compose.yaml").read_text()
    used = re.findall(r"\$\{([A-Z0-9_]+)(:\?|:-|\})", text)
    secret = {name for name, _ in used if name in SECRET_NAMES}
    assert {name for name, how in used if name in SECRET_NAMES and how != ":?"} == set()
    assert secret == set(SECRET_NAMES)
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|_KEY|AUTH_STRING", name):
                asked = ":-" if name in JUDGE_KEYS else r":\?.+"
                assert re.fullmatch(rf"\$\{{[A-Z0-9_]+{asked}\}}", str(value)), name


def test_no_read_only_service_has_a_config_or_secret_that_is_no_file(compose: dict[str, Any]) -> None:
    """Compose refuses to create one: it would have to write into the container."""
    inline = {
        (kind, name)
        for kind in ("configs", "secrets")
        for name, found in compose.get(kind, {}).items()
        if "file" not in found
    }
    assert "read_only" in compose["x-assay"]
    for name, service in compose["services"].items():
        for kind in ("configs", "secrets"):
            used = {item if isinstance(item, str) else item["source"] for item in service.get(kind, [])}
            assert not (service.get("read_only") and {(kind, item) for item in used} & inline), name


@pytest.mark.parametrize(("service", "file"), [("s3", "s3.json"), ("mlflow", "mlflow-auth.ini")])
def test_a_container_writes_the_file_that_its_program_reads(
    service: str, file: str, compose: dict[str, Any], infra: Path, tmp_path: Path
) -> None:
    described = compose["services"][service]
    folder = described["environment"]["ASSAY_STACK_FOLDER"]
    assert [item.partition(":")[0] for item in described["tmpfs"]] == [folder]
    environment = {**filled(described["environment"]), "ASSAY_STACK_FOLDER": str(tmp_path)}
    write_files_of(service, environment)
    assert [item.name for item in tmp_path.iterdir()] == [file]
    assert set(SECRETS_OF[service].values()) <= set(environment)
    told = " ".join(described["command"])
    assert told.startswith(f"python -m tasks.platform run {service} -- ")
    assert f"={file}" in told or environment["MLFLOW_AUTH_CONFIG_PATH"] == f"{folder}/{file}"
    if service == "mlflow":  # in Kubernetes it is a ConfigMap, since it holds no secret
        config, *_ = yaml.safe_load_all((infra / "kubernetes" / "mlflow.yaml").read_text())
        assert config["data"][file] == (tmp_path / file).read_text()


def filled(environment: dict[str, str]) -> dict[str, str]:
    """What a container gets where each variable's value is its own name."""
    return {name: re.sub(r"\$\{([A-Z0-9_]+):[?-][^}]*\}", r"\1", str(value)) for name, value in environment.items()}


def test_what_programs_write_is_where_a_container_may_write(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        if not service.get("read_only"):
            continue
        writable = [item.partition(":")[0] for item in service["tmpfs"]]
        writable += [item.partition(":")[2] for item in service.get("volumes", [])]
        named = {"PREFECT_HOME": "/var/lib/assay/prefect"} | service["environment"]  # else it is as in the image
        places = [named[item] for item in ("PREFECT_SERVER_UI_STATIC_DIRECTORY", "ASSAY_STACK_FOLDER") if item in named]
        if "prefect" in service["command"] or name == "setup":
            places.append(named["PREFECT_HOME"])
        assert [place for place in places if not place.startswith(tuple(writable))] == [], name
    assert "PREFECT_SERVER_UI_STATIC_DIRECTORY" in compose["services"]["prefect"]["environment"]


def test_postgresql_is_healthy_when_its_roles_are_made(compose: dict[str, Any]) -> None:
    """While the image runs roles.sql, the server answers on its socket, and not over TCP."""
    assert "--host 127.0.0.1" in compose["services"]["postgres"]["healthcheck"]["test"][1]


def test_one_service_of_the_compose_file_builds_the_image(compose: dict[str, Any]) -> None:
    """Two builds of one name that end at the same time can fail."""
    ours = {name: item for name, item in compose["services"].items() if item["image"].startswith("assay:")}
    assert [name for name, item in ours.items() if "build" in item] == ["s3"]
    assert {item["pull_policy"] for item in ours.values()} == {"never"}


def test_the_worker_may_be_given_every_setting(compose: dict[str, Any], infra: Path) -> None:
    wanted = {alias for name in Settings.model_fields for alias in named(name)}
    of_the_image = set(re.findall(r"(ASSAY_\w+)=", (infra / "Dockerfile").read_text()))
    worker, setup = (set(compose["services"][name]["environment"]) for name in ("worker", "setup"))
    assert wanted - worker - of_the_image == {"ASSAY_NOTIFICATION_BLOCK"}
    assert "ASSAY_NOTIFICATION_BLOCK" in setup


def named(setting: str) -> list[str]:
    """The variables that a setting is read from."""
    aliases = Settings.model_fields[setting].validation_alias
    return [f"ASSAY_{setting.upper()}"] if aliases is None else [str(item) for item in aliases.choices]  # type: ignore[union-attr]


def test_judges_keys_are_optional_and_reach_the_worker_alone(compose: dict[str, Any], infra: Path) -> None:
    having = {name for name, item in compose["services"].items() if set(item["environment"]) & JUDGE_KEYS}
    assert having == {"worker"}
    for name, _, container in containers(infra):
        found = {item["name"]: item for item in container["env"] if item["name"] in JUDGE_KEYS}
        assert set(found) == (JUDGE_KEYS if name == "worker.yaml: worker" else set()), name
        assert all(item["valueFrom"]["secretKeyRef"]["optional"] for item in found.values()), name


def test_every_secret_among_the_settings_is_one_of_the_stack() -> None:
    secret = {name for name, item in Settings.model_fields.items() if "SecretStr" in str(item.annotation)}
    found = {alias for name in secret - {"tracking_uri"} for alias in named(name)}
    assert found == JUDGE_KEYS
    assert all(map(is_secret, found))


def test_compose_publishes_ports_on_this_machine_alone(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert all(str(port).startswith("127.0.0.1:") for port in ports)


def test_every_lasting_service_of_the_compose_file_has_a_health_check(compose: dict[str, Any]) -> None:
    assert {name for name, service in compose["services"].items() if "healthcheck" not in service} == {"setup"}
    assert set(NEEDS) <= set(compose["services"])


def test_pods_are_not_root_have_limits_and_probes_and_take_secrets_by_reference(infra: Path) -> None:
    found = list(containers(infra))
    assert {name for name, _, _ in found} == {"mlflow.yaml: mlflow", "worker.yaml: worker", "worker.yaml: setup"}
    for name, pod, container in found:
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
        assert container["securityContext"]["readOnlyRootFilesystem"] is True, name
        assert {"requests", "limits"} <= set(container["resources"]), name
        assert pod["restartPolicy"] == "OnFailure" if "setup" in name else "livenessProbe" in container, name
        for variable in container["env"]:
            if variable["name"] in SECRET_NAMES or "PASSWORD" in variable["name"]:
                assert "secretKeyRef" in variable["valueFrom"], (name, variable["name"])


def test_the_charts_take_secrets_by_name_and_bring_no_database(infra: Path) -> None:
    server = yaml.safe_load((infra / "kubernetes" / "prefect-server.values.yaml").read_text())
    worker = yaml.safe_load((infra / "kubernetes" / "prefect-worker.values.yaml").read_text())
    assert server["postgresql"]["enabled"] is False
    assert server["secret"]["create"] is False
    for auth in (server["server"]["basicAuth"], worker["worker"]["selfHostedServerApiConfig"]["basicAuth"]):
        assert auth["enabled"] is True
        assert set(auth) == {"enabled", "existingSecret"}


def test_the_charts_run_the_locked_version_of_prefect(infra: Path, project: Path) -> None:
    locked = re.search(r"^prefect==(\S+)", (project / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None
    for file in sorted((infra / "kubernetes").glob("*.values.yaml")):
        assert f"prefectTag: {locked[1]}-" in file.read_text(), file.name


def test_the_image_is_installed_by_hash_and_runs_as_nobody_in_particular(infra: Path) -> None:
    text = (infra / "Dockerfile").read_text()
    assert "--require-hashes --no-deps -r /build/requirements.lock" in text
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert text.index("useradd --uid 10001") < text.index("USER 10001")


def test_nothing_names_a_registry_of_packages_or_somebody_elses_host(infra: Path) -> None:
    hits = []
    for file in infra.rglob("*"):
        if file.is_file() and file.suffix not in (".md", ".json", ".png") and not file.name.startswith("prefect-"):
            text = file.read_text(encoding="utf-8").replace("https://s3.example.org", "")
            hits += [f"{file.name}: {line}" for line in text.splitlines() if HOST.search(line)]
    assert hits == []


def test_the_procfile_holds_the_services_and_no_secret_in_an_argument(infra: Path) -> None:
    commands = read_procfile(infra / "Procfile")
    assert list(commands) == list(NEEDS)
    assert not [name for name in SECRET_NAMES for command in commands.values() if name in command]


def test_honcho_finds_the_same_processes(infra: Path, project: Path, tmp_path: Path) -> None:
    environment = tmp_path / ".env"
    environment.write_text("A=1\n")
    told = subprocess.run(
        [str(Path(sys.executable).with_name("honcho")), "-e", str(environment), "-f", "infra/Procfile", "check"],
        cwd=project, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert ", ".join(NEEDS) in told.stdout + told.stderr


def test_the_example_policy_writes_records_alone(infra: Path) -> None:
    policy = json.loads((infra / "s3-policy.json").read_text())
    allowed = [item for item in policy["Statement"] if item["Effect"] == "Allow"]
    writing = {
        resource
        for item in allowed
        for action in ([item["Action"]] if isinstance(item["Action"], str) else item["Action"])
        if re.search(r"Put|Delete", action)
        for resource in [item["Resource"]]
    }
    assert all(resource.startswith("arn:aws:s3:::assay/records/") for resource in writing)
    assert not [item for item in allowed if "*" in item["Action"]]
