"""What `assay doctor` looks at: each check answers with findings, and none of them changes anything that stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.platform.checks import databases, machine, mlflow, objects, prefect
from tasks.platform.checks.finding import Finding, Status, masked

__all__ = ["Examination", "Finding", "Status", "examine"]

Environment = Mapping[str, str]

_CHECKS: Sequence[Callable[[Environment], Iterator[Finding]]] = (
    machine.versions,
    machine.folders,
    machine.waiting,
    machine.telemetry,
    prefect.look,
    mlflow.look,
    objects.look,
    databases.look,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All findings.

    Attributes
    ----------
    findings : tuple of Finding
    """

    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Status:
        """The worst of the findings: ``fail``, ``warn`` or ``ok``."""
        found = {item.status for item in self.findings}
        return "fail" if "fail" in found else "warn" if "warn" in found else "ok"

    @property
    def exit_code(self) -> Literal[0, 2, 4]:
        """2 when something is set wrongly, else 4 when a service cannot be reached, else 0."""
        failed = [item for item in self.findings if item.status == "fail"]
        if any(not item.is_outage for item in failed):
            return 2
        return 4 if failed else 0


def examine(environment: Environment) -> Examination:
    """Look at everything; a check that breaks is a finding, and the others still run.

    Parameters
    ----------
    environment : mapping of str to str
        Variables as commands see them; a stack's own file adds the databases.
    """
    findings: list[Finding] = []
    for check in _CHECKS:
        try:
            findings += check(environment)
        except Exception as error:  # noqa: BLE001 (whatever is wrong here, the other checks are wanted all the more)
            where = check.__module__.rpartition(".")[2]
            findings.append(
                Finding.fail(where, f"could not be looked at: {type(error).__name__}: {error}", "please report this")
            )
    return Examination(findings=tuple(masked(item, environment) for item in findings))
