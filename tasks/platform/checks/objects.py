"""Object storage: whether the keys work, records can be written, and strangers are kept out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from core.errors import AssayError, UnreachableError
from tasks.platform.checks import web
from tasks.platform.checks.finding import Finding
from tasks.tracking.uris import without_credentials


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the configured service and the place of the records."""
    from tasks.storage import S3Url, is_s3, place_of

    keys_endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    records = environment.get("ASSAY_RECORDS", "")
    if not keys_endpoint and not is_s3(records):
        yield Finding.off("object storage", "not configured: records stay on this machine", (
            "set ASSAY_RECORDS=s3://BUCKET/PREFIX to share them; `assay up` does"
        ))  # fmt: skip
        return
    if keys_endpoint:
        shown = without_credentials(keys_endpoint)
        try:
            answer = web.ask("GET", keys_endpoint)
        except UnreachableError as error:
            yield Finding.outage("object storage", f"{shown} does not answer ({error})", (
                "start it, or correct AWS_ENDPOINT_URL"
            ))  # fmt: skip
            return
        yield from web.clock("object storage clock", answer.headers.get("date"))
        yield web.auth_finding("object storage access", keys_endpoint, answer.status_code, "give it keys: no anonymous")
    if is_s3(records):
        place = place_of(records)
        if isinstance(place, S3Url):
            yield _records(place, environment)


def _records(place: object, environment: Mapping[str, str]) -> Finding:
    from tasks.storage import S3Url, buckets

    if not isinstance(place, S3Url):
        raise TypeError(place)
    try:
        client = buckets.connect(buckets.Keys.of(environment), attempts=2)
        buckets.try_writing(client, place.bucket, place.key)
    except UnreachableError as error:
        return Finding.outage("records", str(error), "start object storage, or correct AWS_ENDPOINT_URL")
    except AssayError as error:
        return Finding.fail("records", str(error), "keys need to read, write and list there: infra/s3-policy.json")
    return Finding.ok("records", f"{place} can be written and read")
