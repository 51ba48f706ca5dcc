"""The machine: versions, folders, disk, files with passwords, what waits, and the telemetry switches."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from core.errors import InputError
from tasks.platform.checks.finding import Finding
from tasks.platform.environment import CLIENT_FILE, ENV_FILE
from tasks.settings import Settings, settings

PACKAGES = ("assay", "prefect", "mlflow", "pyarrow", "numpy", "scipy", "pandas", "scikit-learn", "boto3")
LOW_BYTES, TOO_FEW_BYTES = 5_000_000_000, 200_000_000
_ON = {"1", "true", "yes", "on"}


def versions(_environment: Mapping[str, str]) -> Iterator[Finding]:
    """Name the versions of Python and of what figures depend on."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield Finding.fail("versions", f"{name} is not installed", "run `make setup`")
    yield Finding.ok("versions", ", ".join([f"python {platform.python_version()}", *found]))


def folders(environment: Mapping[str, str]) -> Iterator[Finding]:
    """See that records and copies can be written, that there is room, and that nobody else reads passwords."""
    try:
        current = settings()
    except InputError as error:
        yield Finding.fail("settings", "; ".join(f"{item.source}: {item.message}" for item in error.problems), (
            "correct the variable"
        ))  # fmt: skip
        return
    for name, folder in (("data folder", current.data_dir), ("cache folder", current.cache_dir)):
        yield _writable(name, folder)
    yield from _room(current)
    stack = environment.get("ASSAY_STACK_FOLDER") or str(current.data_dir / "stack")
    for file in (Path(stack) / ENV_FILE, Path(stack) / CLIENT_FILE):
        if file.exists():
            yield _private(file)


def waiting(_environment: Mapping[str, str]) -> Iterator[Finding]:
    """Count records that object storage or MLflow could not take when they were made."""
    from tasks.archive import undelivered
    from tasks.tracking import outbox

    counts = {"object storage": len(undelivered()), "MLflow": len(outbox.pending())}
    told = [f"{count} are not in {name} yet" for name, count in counts.items() if count]
    if told:
        yield Finding.warn("waiting records", ", ".join(told), "run `assay sync`")
    else:
        yield Finding.ok("waiting records", "none")


def telemetry(environment: Mapping[str, str]) -> Iterator[Finding]:
    """See that nothing which is started from here reports to anybody."""
    wanted = {
        "DO_NOT_TRACK": True,
        "MLFLOW_DISABLE_TELEMETRY": True,
        "PREFECT_SERVER_ANALYTICS_ENABLED": False,
    }
    wrong = [
        name
        for name, on in wanted.items()
        if name in environment and (environment[name].strip().lower() in _ON) is not on
    ]
    if wrong:
        told = " ".join(f"{name}={str(wanted[name]).lower()}" for name in wrong)
        yield Finding.warn("telemetry", f"switched on by {', '.join(wrong)}", f"set {told}")
    else:
        yield Finding.ok("telemetry", "off in this environment")


def _writable(name: str, folder: Path) -> Finding:
    place = next(item for item in (folder, *folder.parents) if item.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding.fail(name, f"{folder} cannot be written to: {error.strerror}", (
            f"give yourself access, or name another in ASSAY_{name.partition(' ')[0].upper()}_DIR"
        ))  # fmt: skip
    return Finding.ok(name, str(folder) if place == folder else f"{folder} (made on first use)")


def _room(current: Settings) -> Iterator[Finding]:
    for name, folder in (("data folder", current.data_dir), ("cache folder", current.cache_dir)):
        place = next(item for item in (folder, *folder.parents) if item.exists())
        free = shutil.disk_usage(place).free
        told = f"{free / 1e9:.1f} GB free for the {name}"
        if free < TOO_FEW_BYTES:
            yield Finding.fail("disk", told, "make room: records could be lost")
        elif free < LOW_BYTES:
            yield Finding.warn("disk", told, f"make room; the cache may take {current.cache_bytes / 1e9:.0f} GB")
        else:
            yield Finding.ok("disk", told)


def _private(file: Path) -> Finding:
    state = file.stat()
    mode = stat.S_IMODE(state.st_mode)
    if mode & 0o077:
        return Finding.fail("passwords", f"others may read {file} (mode {mode:o})", f"chmod 600 {file}")
    if state.st_uid != os.geteuid():
        return Finding.warn("passwords", f"{file} belongs to another account", "use a file of your own")
    return Finding.ok("passwords", f"{file}: only its owner may read it")
