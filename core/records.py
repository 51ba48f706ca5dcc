"""The archive format: every result is one JSON document whose id is the digest of what it says (SPEC 12).

A record is plain data. `plain` turns results into it, `build` reads it back into frozen dataclasses, `seal` adds
the id. Nothing here knows files, clocks or hosts; `created` and `software` are given by the caller and are
outside the id.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from core.errors import RecordError

SIGNIFICANT_DIGITS = 12
MANIFEST_FROM = 100  # more inputs than this are hashed as one manifest
_ROLE = re.compile(r"[a-z][a-z_]*")
"""Roles of outputs are parts of file names."""

TOLERANCE = 1e-9
"""Relative difference that another processor or library version may make in a re-derived figure."""

SCHEMA_VERSIONS = {
    "assay.audit": 1,
    "assay.calibration": 1,
    "assay.gate": 1,
    "assay.measurement": 1,
    "assay.comparison": 1,
    "assay.series": 1,
    "assay.simulation": 1,
    "assay.plan": 1,
    "assay.watch": 1,
}

UNSAID: Mapping[str, bool] = types.MappingProxyType({"unsaid": True})
"""Metadata of a field that came later: while it has its default it is not written, so that ids stay what they were."""

T = TypeVar("T")
Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReference:
    """A data file or record that a result was made from, or that was written beside it.

    Attributes
    ----------
    role : str
        What it is for: ``golden``, ``scores``, ``calibration``, ``decisions``, ...
    uri : str
        Where it was found. A hint for people and for `verify`, never part of the id.
    sha256 : str
        Digest of the bytes; for an input that is itself a record, its id.
    rows : int or None
        Rows read; None for a record.
    """

    role: str
    sha256: str
    rows: int | None = None
    uri: str = ""


def plain(value: Any) -> Any:
    """Turn results (dataclasses, mappings, sequences, numpy scalars) into JSON data.

    Floats are rounded to 12 significant digits and -0 becomes 0, so that a stored figure and a hashed one are
    the same. NaN and infinity have no place in a record. A field marked `UNSAID` is left out while it has its default.

    Raises
    ------
    RecordError
        For NaN, infinity, or a type that JSON does not have.

    Examples
    --------
    >>> plain({"rate": -0.0, "third": 1 / 3})
    {'rate': 0.0, 'third': 0.333333333333}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value) if not _unsaid(field, value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return _rounded(float(value))
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [plain(item) for item in value]
    raise RecordError(f"a record cannot hold a {type(value).__name__}")


def _unsaid(field: Field[Any], value: Any) -> bool:
    return bool(field.metadata.get("unsaid")) and getattr(value, field.name) == field.default


def _rounded(value: float) -> float:
    if not math.isfinite(value):
        raise RecordError(f"a record cannot hold {value}: what is not measurable has a status, not a number")
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") + 0.0


def canonical(value: Any) -> str:
    """Write JSON data in the one form that is hashed: sorted keys, no spaces, UTF-8, 12 significant digits."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def record_id(document: Mapping[str, Any]) -> str:
    """Return the id of a record: the digest over schema, spec, seed, result and the inputs' content.

    Time, host, paths, file names, outputs and software are outside (SPEC 12).
    """
    inputs = sorted(
        ({key: item.get(key) for key in ("role", "sha256", "rows")} for item in document["inputs"]),
        key=lambda item: (item["role"], item["sha256"], item["rows"] or 0),
    )
    content: Document = {key: document[key] for key in ("schema", "spec", "seed", "result")}
    content["inputs"] = {"manifest": digest(inputs)} if len(inputs) > MANIFEST_FROM else inputs
    return digest(content)


def seal(
    schema: str,
    *,
    spec: Any,
    seed: int,
    inputs: Iterable[FileReference],
    result: Any,
    created: str,
    software: Mapping[str, str],
) -> Document:
    """Assemble a record and give it its id.

    Parameters
    ----------
    schema : str
        Name without version, such as ``assay.measurement``.
    spec, result
        Anything that `plain` takes.
    seed : int
        The seed of every random number behind the result.
    inputs : iterable of FileReference
    created : str
        UTC time, ISO 8601 with ``Z``.
    software : mapping
        Package versions.
    """
    document: Document = {
        "schema": f"{schema}/{SCHEMA_VERSIONS[schema]}",
        "created": created,
        "software": dict(software),
        "spec": plain(spec),
        "seed": int(seed),
        "inputs": [plain(item) for item in sorted(inputs, key=lambda item: (item.role, item.sha256, item.uri))],
        "outputs": [],
        "result": plain(result),
    }
    return {"id": record_id(document), **document}


def parse(text: str, *, source: str = "record", check_id: bool = True) -> Document:
    """Read a record and check that it is one, of a version that is known here, and (by its id) unaltered.

    Raises
    ------
    RecordError
        Not JSON, not a record, a future schema version, or an id that does not fit the content.
    """
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{source}: not a record (JSON expected): {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
        raise RecordError(f'{source}: not a record: it has no "schema"')
    _check_schema(document["schema"], source)
    wanted = {"id": str, "spec": dict, "seed": int, "inputs": list, "result": dict}
    wrong = [key for key, kind in wanted.items() if not isinstance(document.get(key), kind)]
    outputs = document.get("outputs", [])
    if not isinstance(outputs, list) or not all(
        _is_reference(item) and _ROLE.fullmatch(item["role"]) for item in outputs
    ):
        wrong.append("outputs")
    if wrong or not all(map(_is_reference, document["inputs"])):
        raise RecordError(f"{source}: not a whole record; missing or of the wrong kind: {wrong or ['inputs']}")
    if check_id and record_id(document) != document["id"]:
        raise RecordError(f"{source}: its id does not fit its content; the file was changed after it was written")
    return document


def _is_reference(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and all(isinstance(item.get(key), str) for key in ("role", "sha256", "uri"))
        and (item.get("rows") is None or isinstance(item["rows"], int))
    )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _check_schema(schema: str, source: str) -> None:
    name, _, version = schema.partition("/")
    if name not in SCHEMA_VERSIONS:
        raise RecordError(f"{source}: schema {schema!r} is not one of assay's ({', '.join(SCHEMA_VERSIONS)})")
    if not version.isdigit():
        raise RecordError(f"{source}: schema {schema!r} has no version number")
    if int(version) > SCHEMA_VERSIONS[name]:
        raise RecordError(
            f"{source}: schema {schema!r} is newer than this assay reads ({name}/{SCHEMA_VERSIONS[name]}); update assay"
        )


def build(kind: type[T], data: Any, *, where: str = "record") -> T:
    """Read plain data back into a frozen dataclass, field by field; unknown keys are ignored.

    Raises
    ------
    RecordError
        A field is missing or of the wrong type; the message names it.
    """
    if not isinstance(data, Mapping):
        raise RecordError(f"{where}: an object is expected, not {type(data).__name__}")
    hints = typing.get_type_hints(kind)
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in data:
            values[field.name] = _typed(hints[field.name], data[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise RecordError(f"{where}.{field.name} is missing")
    return kind(**values)


def _typed(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return _one_of([item for item in arguments if item is not type(None)], value, where)
    if origin is typing.Literal:
        if value not in arguments:
            raise RecordError(f"{where}: {value!r} is not one of {list(arguments)}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise RecordError(f"{where}: a list is expected")
        return tuple(_typed(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise RecordError(f"{where}: an object is expected")
        return {key: _typed(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if is_dataclass(hint):
        return build(typing.cast(type, hint), value, where=where)
    return _scalar(hint, value, where)


def _one_of(hints: Sequence[Any], value: Any, where: str) -> Any:
    for hint in hints[:-1]:
        try:
            return _typed(hint, value, where)
        except RecordError:
            continue
    return _typed(hints[-1], value, where)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, bool) is not (hint is bool) or not isinstance(value, hint):
        raise RecordError(f"{where}: {value!r} is not of type {hint.__name__}")
    return value


def differences_of(recorded: Any, derived: Any, where: str) -> Iterator[str]:
    """Name the figures in which what was derived again differs from a record, beyond rounding.

    A field that has a default and that the record lacks is no difference: the record was made before there was such a
    field. An entry of a mapping, such as a category, never goes missing unnoticed.

    Parameters
    ----------
    recorded : JSON data
    derived : Any
        Frozen records, or the JSON data of them.
    where : str
        Name of the whole, for the messages.
    """
    if isinstance(derived, Mapping) or (is_dataclass(derived) and not isinstance(derived, type)):
        yield from _differences_of_parts(recorded, derived, where)
    elif isinstance(recorded, list) and isinstance(derived, (list, tuple)) and len(recorded) == len(derived):
        for i, (a, b) in enumerate(zip(recorded, derived, strict=True)):
            yield from differences_of(a, b, f"{where}[{i}]")
    elif not _equal(recorded, plain(derived)):
        yield f"{where}: recorded {recorded!r}, re-derived {plain(derived)!r}"


def _differences_of_parts(recorded: Any, derived: Any, where: str) -> Iterator[str]:
    if not isinstance(recorded, dict):
        yield f"{where}: recorded {recorded!r}, re-derived {plain(derived)!r}"
        return
    parts, later = _parts_of(derived)
    for key in sorted({*recorded, *parts}):
        if key in recorded and key in parts:
            yield from differences_of(recorded[key], parts[key], f"{where}.{key}")
        elif key in recorded:
            yield f"{where}.{key} is only in the record"
        elif key not in later:
            yield f"{where}.{key} is only in the re-derived one"


def _parts_of(derived: Any) -> tuple[dict[str, Any], set[str]]:
    """Return the parts by name, and the names of those that records of an earlier version may lack."""
    if isinstance(derived, Mapping):
        return {str(key): value for key, value in derived.items()}, set()
    known = fields(derived)
    later = {field.name for field in known if field.default is not MISSING or field.default_factory is not MISSING}
    return {field.name: getattr(derived, field.name) for field in known}, later


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, (int, float)) and not isinstance(b, bool):
        return abs(a - b) <= TOLERANCE * max(1.0, abs(a))
    return type(a) is type(b) and bool(a == b)
