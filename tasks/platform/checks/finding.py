"""One line of `assay doctor`, and the marks that keep secrets out of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tasks.tracking.uris import without_credentials

Status = Literal["ok", "warn", "fail", "off"]

_SECRET = re.compile(r"PASSWORD|SECRET|ACCESS_KEY|API_KEY|TOKEN|AUTH_STRING|SIGNING|PASSWD|CREDENTIAL", re.IGNORECASE)
_LEAST = 4
"""Shorter values of secret variables are not replaced: they would be found in any text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found.

    Attributes
    ----------
    check : str
        What was looked at.
    status : {'ok', 'warn', 'fail', 'off'}
        ``off``: it is not configured, and nothing is wrong with that.
    detail : str
    todo : str
        What to do about it, or nothing.
    is_outage : bool
        Whether a failure is a service that cannot be reached, and not a wrong setting.
    """

    check: str
    status: Status
    detail: str
    todo: str = ""
    is_outage: bool = False

    @classmethod
    def ok(cls, check: str, detail: str) -> Finding:
        """All is well."""
        return cls(check=check, status="ok", detail=detail)

    @classmethod
    def off(cls, check: str, detail: str, todo: str = "") -> Finding:
        """Not configured."""
        return cls(check=check, status="off", detail=detail, todo=todo)

    @classmethod
    def warn(cls, check: str, detail: str, todo: str) -> Finding:
        """It works, and should be looked after."""
        return cls(check=check, status="warn", detail=detail, todo=todo)

    @classmethod
    def fail(cls, check: str, detail: str, todo: str) -> Finding:
        """It is set wrongly."""
        return cls(check=check, status="fail", detail=detail, todo=todo)

    @classmethod
    def outage(cls, check: str, detail: str, todo: str) -> Finding:
        """It is configured and cannot be reached."""
        return cls(check=check, status="fail", detail=detail, todo=todo, is_outage=True)


def masked(finding: Finding, environment: Mapping[str, str]) -> Finding:
    """Take out whatever is a secret of the environment, or a password in an address.

    Examples
    --------
    >>> masked(Finding.ok("x", "said hunter2"), {"MLFLOW_TRACKING_PASSWORD": "hunter2"}).detail
    'said ***'
    """
    secrets = {value for name, value in environment.items() if _SECRET.search(name)}
    secrets |= {value.partition(":")[2] for value in secrets}  # of user:password, the password alone
    ordered = sorted((value for value in secrets if len(value) >= _LEAST), key=len, reverse=True)

    def clean(text: str) -> str:
        for value in ordered:
            text = text.replace(value, "***")
        return without_credentials(text)

    return replace(finding, detail=clean(finding.detail), todo=clean(finding.todo))
