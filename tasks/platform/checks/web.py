"""Asking a server over HTTP: whether it answers, whom it lets in, whether its clock is right."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from core.errors import UnreachableError
from tasks.platform.checks.finding import Finding

SECONDS = 10.0
SKEW_WARN, SKEW_FAIL = 5.0, 600.0
"""Seconds. Object storage refuses requests that are 15 minutes off; events and schedules suffer earlier."""


def ask(method: str, url: str, **given: Any) -> Any:
    """Return an answer, whatever its status.

    Raises
    ------
    UnreachableError
        There is none.
    """
    import httpx

    try:
        return httpx.request(method, url, timeout=SECONDS, **given)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnreachableError(f"{type(error).__name__}") from None


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def auth_finding(check: str, url: str, status: int, how: str) -> Finding:
    """Judge a server by its answer to somebody without a password."""
    if status in (401, 403):
        return Finding.ok(check, "asks for a password")
    if status >= 400:
        return Finding.warn(check, f"answers {status} to a request without a password", "see the server's log")
    if is_loopback(url):
        return Finding.ok(check, "asks for no password, and is reached from this machine alone")
    return Finding.warn(check, "lets anybody in, and is not on this machine", how)


def clock(check: str, date: str | None) -> Iterator[Finding]:
    """Hold a server's clock against this machine's."""
    if not date:
        return
    try:
        theirs = parsedate_to_datetime(date)
    except ValueError:
        return
    yield skew(check, theirs)


def skew(check: str, theirs: datetime) -> Finding:
    """Judge the distance of two clocks; a header has whole seconds."""
    seconds = abs((datetime.now(UTC) - theirs.astimezone(UTC)).total_seconds())
    if seconds <= SKEW_WARN:
        return Finding.ok(check, "agrees with this machine's")
    todo = "set both clocks by NTP"
    if seconds <= SKEW_FAIL:
        return Finding.warn(check, f"is {seconds:.0f} s from this machine's", todo)
    return Finding.fail(check, f"is {seconds:.0f} s from this machine's; object storage refuses that", todo)
