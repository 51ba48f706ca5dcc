"""One service over HTTP: where it is, with which key, how patiently and how fast it is asked.

The key is held as a `SecretStr`, travels in one header of requests to one address, and is taken out of whatever the
service sends back. No message quotes the service: only its status, and its own error code where that is a plain word.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx
from pydantic import SecretStr
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from core.errors import AssayError, InputError, UnreachableError
from tasks.judges import Traffic
from tasks.settings import Settings

OPENAI = "https://api.openai.com/v1"
MAX_BODY_BYTES = 1_000_000
MAX_ERROR_BYTES = 64_000
MIN_SECRET = 12
JITTER_SEED = 20261130

BASE_URL, MODEL, KEY, OPENAI_KEY = "ASSAY_JUDGE_BASE_URL", "ASSAY_JUDGE_MODEL", "ASSAY_JUDGE_API_KEY", "OPENAI_API_KEY"

PASSING = frozenset({408, 409, 425, 429})
"""Statuses that may be gone in a moment, besides 5xx."""

OF_THE_REQUEST = frozenset({400, 413, 415, 422})
"""Statuses that are about one request: another text may well be taken."""

_PLAIN_WORD = re.compile(r"[a-z][a-z0-9_.-]{0,60}")
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+")
_KEY = re.compile(r"[!-~]+")
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")

Sleep = Callable[[float], Awaitable[None]]
Whose = Literal["service", "request"]


class PassingError(Exception):
    """An attempt that failed in a way that may pass.

    Attributes
    ----------
    reason : str
    wait : float or None
        Seconds that the service asks for.
    whose : {'service', 'request'}
        Whether it says that the service is not there, or may be about this request alone.
    """

    def __init__(self, reason: str, *, wait: float | None = None, whose: Whose = "request") -> None:
        super().__init__(reason)
        self.reason, self.wait, self.whose = reason, wait, whose


class RefusedError(Exception):
    """A request that the service does not take, and would not take again.

    Attributes
    ----------
    reason : str
    of_the_form : bool
        It is the ``response_format`` that the service does not know.
    of_the_content : bool
        Its filter does not let the text through.
    """

    def __init__(self, reason: str, *, of_the_form: bool = False, of_the_content: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.of_the_form, self.of_the_content = reason, of_the_form, of_the_content


class UnusableError(Exception):
    """An answer that is there and cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service and how it is asked.

    Attributes
    ----------
    url : str
        The full address, without credentials.
    key : SecretStr or None
    concurrency : int
        Requests at a time.
    requests_per_minute : float or None
    attempts : int
        For each request.
    timeout : float
        Seconds for one attempt as a whole, from connecting to the last byte.
    backoff : float
        Seconds before the second attempt; each further wait is twice as long, times a factor in [0.5, 1) that is drawn
        from a seed, the request and the attempt.
    max_wait : float
        Seconds that a wait may last at most.
    """

    url: str
    key: SecretStr | None = None
    concurrency: int = 8
    requests_per_minute: float | None = None
    attempts: int = 8
    timeout: float = 60.0
    backoff: float = 1.0
    max_wait: float = 60.0

    @classmethod
    def of(cls, settings: Settings, path: str, *, default: str | None = None) -> Service:
        """Find the service that the environment names.

        Parameters
        ----------
        settings : Settings
        path : str
            What to ask below the base address, such as ``chat/completions``.
        default : str, optional
            The base address if none is named.

        Raises
        ------
        InputError
            No address, or one that a key must not be sent to; see `checked_address`.
        """
        base = settings.judge_base_url or default
        if not base:
            raise InputError.of(BASE_URL, "is not set; name the service that is to judge, such as https://HOST/v1")
        url = checked_address(base, allow_http=settings.judge_allow_http)
        return cls(
            url=f"{str(url).rstrip('/')}/{path}",
            key=key_for(url, settings),
            concurrency=settings.judge_concurrency,
            requests_per_minute=settings.judge_requests_per_minute,
            attempts=settings.judge_attempts,
            timeout=settings.judge_timeout,
            backoff=settings.judge_backoff,
            max_wait=settings.judge_max_wait,
        )

    @property
    def host(self) -> str:
        """Host and port, for messages."""
        return httpx.URL(self.url).netloc.decode()

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine."""
        return is_loopback(httpx.URL(self.url).host)

    def without_key(self, text: str) -> str:
        """Take the key out of a text that came from the service.

        A short one is a placeholder, such as ``none``, for a service that wants no key; texts may well hold the word.
        """
        secret = "" if self.key is None else self.key.get_secret_value()
        return text.replace(secret, "[key]") if len(secret) >= MIN_SECRET else text

    def check_key(self) -> None:
        """See that there is a key, or need be none, before anything is sent.

        Raises
        ------
        InputError
            No key for a service that is not on this machine, or one that cannot stand in a header.
        """
        if self.key is None and not self.is_local:
            raise InputError.of(
                KEY, f"is not set: {self.host} wants a key ({OPENAI_KEY} goes to OpenAI's service only)"
            )
        if self.key is not None and not _KEY.fullmatch(self.key.get_secret_value()):
            raise InputError.of(KEY, "holds spaces, line breaks or other characters that no key has; set it again")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine.

    Examples
    --------
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "10.0.0.1", "localhost.example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked_address(base: str, *, allow_http: bool = False) -> httpx.URL:
    """Read a base address; messages never repeat it, since it may hold a password.

    Raises
    ------
    InputError
        It is not http(s), holds a user, password, query or fragment, or would send the key and the texts without TLS
        to another machine.
    """
    try:
        url = httpx.URL(base.strip())
    except (httpx.InvalidURL, ValueError, UnicodeError):
        raise InputError.of(BASE_URL, "is not an address; https://HOST/v1 is expected") from None
    if url.scheme not in ("http", "https") or not url.host or not _HOST.fullmatch(url.host):
        raise InputError.of(BASE_URL, "is not an address; https://HOST/v1 is expected")
    if url.userinfo or url.query or url.fragment:
        raise InputError.of(BASE_URL, f"holds a user, a query or a fragment; an address only, and the key in {KEY}")
    if url.scheme == "http" and not is_loopback(url.host) and not allow_http:
        raise InputError.of(
            BASE_URL, "has no TLS and is not on this machine: use https://, or set ASSAY_JUDGE_ALLOW_HTTP=true"
        )
    return url


def key_for(url: httpx.URL, settings: Settings) -> SecretStr | None:
    """Choose the key for an address: the judge's own; OpenAI's goes to OpenAI or this machine alone."""
    own = settings.judge_api_key
    if own is None and (url.host == httpx.URL(OPENAI).host or is_loopback(url.host)):
        own = settings.openai_api_key
    stripped = "" if own is None else own.get_secret_value().strip()
    return SecretStr(stripped) if stripped else None


def asked_wait(value: str | None, now: float) -> float | None:
    """Read a ``Retry-After``: seconds, or an HTTP date.

    Parameters
    ----------
    value : str or None
    now : float
        Seconds since the epoch.

    Returns
    -------
    float or None
        Seconds from now, at least 0; None where nothing usable is said.

    Examples
    --------
    >>> asked_wait("7", now=0.0), asked_wait("Thu, 01 Jan 1970 00:01:00 GMT", now=20.0), asked_wait("soon", now=0.0)
    (7.0, 40.0, None)
    """
    if value is None:
        return None
    if _SECONDS.fullmatch(value.strip()):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)


def plain_data(content: bytes | str) -> Any:
    """Read JSON strictly.

    Raises
    ------
    UnusableError
        It is not JSON, is nested too deep, holds NaN or Infinity, or a key that stands twice.
    """
    try:
        return json.loads(content, parse_constant=_no_constant, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise UnusableError("is not JSON") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


class Pace:
    """Lets requests begin one after another, no faster than asked, and none while the service wants quiet."""

    def __init__(self, per_minute: float | None, sleep: Sleep) -> None:
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = self._quiet_until = 0.0
        self._sleep = sleep

    async def turn(self) -> None:
        """Wait for the next place."""
        while True:
            now = asyncio.get_running_loop().time()
            start = max(now, self._next)
            self._next = start + self._gap
            if start > now:
                await self._sleep(start - now)
            if start >= self._quiet_until:  # else the service has asked for quiet meanwhile
                return

    def hold(self, seconds: float) -> None:
        """Begin nothing for some time."""
        self._quiet_until = max(self._quiet_until, asyncio.get_running_loop().time() + seconds)
        self._next = max(self._next, self._quiet_until)


class Connection:
    """A service while it is being asked; belongs to one event loop.

    Attributes
    ----------
    sending : set of tasks
        Those that have a request on its way: what they get is paid for.
    closing : bool
        Nothing more is to be sent.
    """

    def __init__(self, service: Service, traffic: Traffic, client: httpx.AsyncClient, sleep: Sleep) -> None:
        self.service, self.traffic = service, traffic
        self.sending: set[asyncio.Task[Any]] = set()
        self.closing = False
        self._client, self._sleep = client, sleep
        self._pace = Pace(service.requests_per_minute, sleep)

    @classmethod
    @asynccontextmanager
    async def opened(cls, service: Service, traffic: Traffic, sleep: Sleep) -> AsyncIterator[Connection]:
        """Connect for the length of a block."""
        service.check_key()
        # identity: a body that unpacks to gigabytes cannot come.
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if service.key is not None:
            headers["Authorization"] = f"Bearer {service.key.get_secret_value()}"
        async with httpx.AsyncClient(
            headers=headers,
            follow_redirects=False,
            timeout=service.timeout,
            limits=httpx.Limits(max_connections=service.concurrency),
            trust_env=not service.is_local,  # a proxy would take the key off this machine
        ) as client:
            yield cls(service, traffic, client, sleep)

    async def post(self, body: Mapping[str, Any], request: str) -> Any:
        """Make a request, and make it again while that may help.

        Parameters
        ----------
        body : Mapping
            Plain data.
        request : str
            What tells it from others, for the jitter.

        Returns
        -------
        Any
            The answer as plain data.

        Raises
        ------
        PassingError
            The last attempt failed too.
        RefusedError, UnusableError
            The service does not take the request, or what it answers is not JSON.
        InputError
            It does not take the key, or the address or model is wrong.
        UnreachableError
            It wants money first, or its certificate is not in order.
        """
        content = json.dumps(body).encode()
        retrying = AsyncRetrying(
            sleep=self._rest,
            stop=stop_after_attempt(self.service.attempts),
            wait=lambda state: self._wait(state, request),
            retry=retry_if_exception_type(PassingError),
            before_sleep=self._count_retry,
            reraise=True,
        )
        received: bytes = await retrying(self._attempt, content)
        return plain_data(received)

    def _wait(self, state: RetryCallState, request: str) -> float:
        error = None if state.outcome is None else state.outcome.exception()
        if isinstance(error, PassingError) and error.wait:  # 0 says nothing: at once is what has just failed
            return min(error.wait, self.service.max_wait)
        drawn = random.Random(f"{JITTER_SEED}:{request}:{state.attempt_number}").random()  # noqa: S311 (no secret)
        longest = min(self.service.max_wait, self.service.backoff * 2.0 ** (state.attempt_number - 1))
        return longest * (0.5 + drawn / 2)

    def _count_retry(self, _: RetryCallState) -> None:
        self.traffic.retries += 1

    async def _rest(self, seconds: float) -> None:
        if self.closing:
            raise asyncio.CancelledError
        await self._sleep(seconds)

    async def _attempt(self, content: bytes) -> bytes:
        await self._pace.turn()
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 (a coroutine that runs has one)
        self.sending.add(task)
        self.traffic.requests += 1
        try:
            async with asyncio.timeout(self.service.timeout):
                return await self._sent(content)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout):
            raise PassingError(f"no answer within {self.service.timeout:g} s") from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise UnreachableError(
                    f"{self.service.host} does not prove who it is (its certificate is not in order)"
                ) from None
            raise PassingError("no connection", whose="service") from None
        except httpx.TransportError:
            raise PassingError("the connection broke off in the middle of the answer") from None
        finally:
            self.sending.discard(task)

    async def _sent(self, content: bytes) -> bytes:
        async with self._client.stream("POST", self.service.url, content=content) as response:
            if response.status_code != httpx.codes.OK:
                raise self._failure(response, await _start(response, MAX_ERROR_BYTES))
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise UnusableError("is packed in a way that was not asked for")
            received = await _start(response, MAX_BODY_BYTES + 1)
        if len(received) > MAX_BODY_BYTES:
            raise UnusableError(f"is longer than {MAX_BODY_BYTES:,} bytes")
        return received

    def _failure(self, response: httpx.Response, content: bytes) -> Exception:
        """Tell what a status other than 200 means."""
        status, host = response.status_code, self.service.host
        codes = self._words(content, "code", "type")
        told = ", ".join([f"HTTP {status}", *codes[:1], *self._words(content, "param")])
        if status == httpx.codes.TOO_MANY_REQUESTS and "insufficient_quota" in codes:
            return UnreachableError(f"the quota at {host} is used up ({told})")
        if status in PASSING or status >= 500:
            wait = asked_wait(response.headers.get("Retry-After"), time.time())
            if wait is not None:
                self._pace.hold(min(wait, self.service.max_wait))
            limited = status == httpx.codes.TOO_MANY_REQUESTS
            return PassingError(told, wait=wait, whose="service" if limited else "request")
        return _final(status, told, codes, content, self.service)

    def _words(self, content: bytes, *names: str) -> list[str]:
        """Find the words by which the service calls its error, or what it is about."""
        try:
            error = plain_data(content)["error"]
            words = [error.get(name) for name in names]
        except (UnusableError, KeyError, TypeError, AttributeError, IndexError):
            return []
        return [
            word
            for word in words
            if isinstance(word, str) and _PLAIN_WORD.fullmatch(word) and self.service.without_key(word) == word
        ]


async def _start(response: httpx.Response, limit: int) -> bytes:
    """Read a body up to a limit."""
    received = bytearray()
    async for piece in response.aiter_raw():
        received += piece
        if len(received) >= limit:
            break
    return bytes(received[:limit])


def _final(status: int, told: str, codes: list[str], content: bytes, service: Service) -> Exception:
    """Tell what a status means that will not pass."""
    if status in OF_THE_REQUEST:
        filtered = bool({"content_filter", "content_policy_violation"} & set(codes))
        formed = status != httpx.codes.REQUEST_ENTITY_TOO_LARGE and _is_of_the_form(content)
        return RefusedError(told, of_the_form=formed, of_the_content=filtered)
    error: AssayError
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        error = InputError.of(_key_name(service), f"{service.host} refuses the key ({told})")
    elif status == httpx.codes.NOT_FOUND:
        error = InputError.of(BASE_URL, f"{service.host} has no such path or model ({told}); see also {MODEL}")
    elif status == httpx.codes.PAYMENT_REQUIRED:
        error = UnreachableError(f"{service.host} wants to be paid first ({told})")
    elif 300 <= status < 400:
        error = InputError.of(
            BASE_URL,
            f"{service.host} sends the request elsewhere ({told}), where the key does not go; name that address",
        )
    else:
        error = InputError.of(BASE_URL, f"{service.host} does not answer as such a service does ({told})")
    return error


def _is_of_the_form(content: bytes) -> bool:
    return b"response_format" in content or b"json_schema" in content


def _key_name(service: Service) -> str:
    """Name the variables that the key can have come from."""
    return f"{KEY} or {OPENAI_KEY}" if service.is_local or service.url.startswith(OPENAI) else KEY
