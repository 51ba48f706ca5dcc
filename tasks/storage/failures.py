"""What object storage answers when it does not do what it was asked, as errors that say what to do.

No message repeats a key, a token or a header.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from botocore import exceptions as boto

from core.errors import AssayError, InputError, UnreachableError
from tasks.storage.address import S3Url

_NO_KEYS = (
    boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError, boto.ProfileNotFound,
    boto.TokenRetrievalError, boto.SSOError,
)  # fmt: skip
_KEYS_REFUSED = {
    "AccessDenied", "AuthorizationHeaderMalformed", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken",
    "RequestTimeTooSkewed", "SignatureDoesNotMatch",
}  # fmt: skip


class NotThereError(InputError):
    """There is no such object or bucket."""


class ChangedError(InputError):
    """An object is no longer the one that was named, listed or recorded."""


class BrokenOffError(UnreachableError):
    """A download ended too early."""


class DamagedError(BrokenOffError):
    """What was downloaded does not have the checksum that the service keeps."""


@contextlib.contextmanager
def told(url: S3Url | str, endpoint: str = "") -> Iterator[None]:
    """Turn the errors of boto3 into those of assay."""
    try:
        yield
    except boto.ClientError as error:
        raise _refused(url, error) from None
    except (boto.BotoCoreError, ValueError) as error:
        raise _failed(url, error, endpoint) from None


def _refused(url: S3Url | str, error: boto.ClientError) -> AssayError:
    answer = error.response.get("Error", {})
    code, status = str(answer.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    shown = f"{status} {code}" if code != str(status) else code
    if code == "NoSuchBucket":
        return NotThereError.of(str(url), "there is no such bucket")
    if status == 404:
        return NotThereError.of(str(url), "there is no such object")
    if status == 412:
        return ChangedError.of(str(url), "has changed since it was found; nothing was read of it, run again")
    if status in (401, 403) or code in _KEYS_REFUSED:
        return InputError.of(str(url), (
            f"access was refused ({shown}): wrong or expired keys, or no permission for this; boto3 takes keys from "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or from a profile (AWS_PROFILE)"
        ))  # fmt: skip
    if status in (409, 429) or (status >= 500 and status != 501):
        attempts = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0) + 1
        return UnreachableError(f"{url}: the service answers {shown}, asked {attempts} time(s); try again later")
    return InputError.of(str(url), f"the service refused the request ({shown}): {answer.get('Message', '')}")


def _failed(url: S3Url | str, error: Exception, endpoint: str) -> AssayError:
    where = f" at {host_of(endpoint)}" if endpoint else ""
    if isinstance(error, _NO_KEYS):
        return InputError.of(str(url), (
            "no usable keys for object storage: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE "
            f"({type(error).__name__})"
        ))  # fmt: skip
    if isinstance(error, boto.ReadTimeoutError | boto.ConnectTimeoutError):
        return UnreachableError(f"{url}: the service{where} did not answer in time; see ASSAY_S3_TIMEOUT")
    if isinstance(error, boto.FlexibleChecksumError):
        return DamagedError(f"{url}: arrived damaged from the service{where} (checksum)")
    if isinstance(error, boto.ResponseStreamingError | boto.IncompleteReadError):
        return BrokenOffError(f"{url}: the service{where} broke off before the object's end")
    if isinstance(error, boto.HTTPClientError | boto.ConnectionError):
        return UnreachableError(
            f"{url}: the service{where} cannot be reached ({type(error).__name__}); is it running, and is "
            "AWS_ENDPOINT_URL its address?"
        )
    if isinstance(error, ValueError) and not isinstance(error, boto.BotoCoreError):
        return InputError.of(str(url), "boto3 cannot work with this set-up: is AWS_ENDPOINT_URL a URL?")
    reason = re.sub(r"//[^/@\s]*@", "//", str(error))
    return InputError.of(str(url), f"boto3 cannot work with this set-up ({type(error).__name__}: {reason})")


def host_of(endpoint: str) -> str:
    """Return host and port of an endpoint, without what may stand before them."""
    return urlsplit(endpoint).netloc.rpartition("@")[2]
