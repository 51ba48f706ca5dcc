"""YAML files to frozen specs: unknown keys are errors that suggest the nearest key."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import yaml
from pydantic import TypeAdapter, ValidationError

from core.errors import InputError, Problem, UndefinedError
from core.gates.policy import Policy
from core.instrument.planned import PlanSpec
from core.instrument.spec import DeclaredSpec, InstrumentSpec
from core.simulation.spec import CertificateSpec, ChainSpec, CorrectionSpec, ObservedRateSpec, SimulationSpec

MAX_SPEC_BYTES = 1_000_000

T = TypeVar("T")


class _PlainLoader(yaml.SafeLoader):
    """Safe YAML without aliases (a few lines can expand to gigabytes) and without keys that stand twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not allowed",
                problem_mark=self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, (str, int, float, bool)):
                raise yaml.MarkedYAMLError(problem="a key must be plain text", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} stands twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Read a small YAML file as plain data.

    Raises
    ------
    InputError
        No such file, too large, not YAML, aliases, or a key that stands twice.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SPEC_BYTES + 1)  # a device has no size, and no end
        if len(content) > MAX_SPEC_BYTES:
            raise InputError.of(name, f"is larger than {MAX_SPEC_BYTES} bytes; is this a spec?")
        text = content.decode()
    except FileNotFoundError:
        raise InputError.of(name, "there is no such file") from None
    except UnicodeDecodeError:
        raise InputError.of(name, "is not UTF-8 text") from None
    except OSError as error:
        raise InputError.of(name, f"cannot be read: {error.strerror}") from None
    try:
        return yaml.load(text, Loader=_PlainLoader)  # noqa: S506 (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise InputError.of(name, f"is not a spec: {error.problem}", line=line) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError.of(name, f"is not YAML: {error}") from None


def load_instrument(path: Path) -> InstrumentSpec:
    """Read an instrument."""
    return load_spec(path, InstrumentSpec)


def load_declared(path: Path) -> DeclaredSpec:
    """Read a declared calibration."""
    return load_spec(path, DeclaredSpec)


def load_policy(path: Path) -> Policy:
    """Read a policy."""
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError.of(str(path), "a policy is a mapping of keys to values")
    return build_spec(_dates_as_text(data), Policy, str(path))


def _dates_as_text(data: Any) -> Any:
    """Write dates, which YAML reads as such, as the text that a record holds; a time of day is left, and refused."""
    if isinstance(data, dict):
        return {key: _dates_as_text(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_dates_as_text(item) for item in data]
    return data.isoformat() if isinstance(data, date) and not isinstance(data, datetime) else data


_SIMULATIONS: Mapping[Any, type[SimulationSpec]] = {
    1: ObservedRateSpec,
    2: CorrectionSpec,
    3: ChainSpec,
    "certificate": CertificateSpec,
}


def build_simulation(data: Any, source: str) -> SimulationSpec:
    """Build the spec of a simulation from plain data, of the kind that its `stage` says; see `load_spec`."""
    stage = data.get("stage") if isinstance(data, dict) else None
    kind = _SIMULATIONS.get(stage) if isinstance(stage, (int, str)) else None
    if kind is None:
        raise InputError.of(source, f"stage {stage!r} is not one of {', '.join(map(str, _SIMULATIONS))}")
    return build_spec(data, kind, source)


GOALS = {"half-width": "half_width", "lod": "limit_of_detection", "difference": "difference"}
"""The goals of a plan, as people write them."""


def build_plan(goal: str, asked: Mapping[str, Any]) -> PlanSpec:
    """Build the spec of a plan from its goal, as people write it, and other fields as plain data.

    Raises
    ------
    InputError
        The goal is not one of `GOALS` with a number, or a field is unknown, out of range or means nothing for it.
    """
    name, _, number = goal.partition("=")
    try:
        target = float(number)
    except ValueError:
        target = math.nan
    if name.strip() not in GOALS or not math.isfinite(target):
        raise InputError.of("goal", f"{goal!r} is not one of {', '.join(f'{known}=NUMBER' for known in GOALS)}")
    if abs(target) > 1:
        raise InputError.of("goal", f"{number} is outside [-1, 1]: rates are shares, so 2 points are 0.02")
    return build_spec({"goal": GOALS[name.strip()], "target": target, **asked}, PlanSpec, "plan")


def load_spec(path: Path, kind: type[T]) -> T:
    """Read a spec of a kind.

    Raises
    ------
    InputError
        All keys that are unknown, missing, or of the wrong type or range.
    """
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError.of(str(path), "a spec is a mapping of keys to values")
    return build_spec(data, kind, str(path))


def build_spec(data: Any, kind: type[T], source: str) -> T:
    """Build a spec from plain data; see `load_spec`."""
    odd = [Problem(source=source, message=message) for message in _odd_values(data, _switches(kind), "")]
    try:
        spec = TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        known = sorted(set(_keys(kind)))
        told = {problem.message.partition(":")[0] for problem in odd}
        wrong = [_message(item, known) for item in error.errors() if item["loc"] or not odd]
        odd += [Problem(source=source, message=text) for text in wrong if text.partition(":")[0] not in told]
        raise InputError(odd) from None
    except UndefinedError as error:
        raise InputError(odd or [Problem(source=source, message=str(error))]) from None
    if odd:
        raise InputError(odd)
    return spec


def _odd_values(data: Any, switches: set[str], where: str) -> Iterator[str]:
    """Name what pydantic would take: true for 1, and halves of characters, which no record can hold."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _odd_values(key, switches, where)
            if key not in switches or not isinstance(value, bool):
                yield from _odd_values(value, switches, f"{where}.{key}" if where else str(key))
    elif isinstance(data, list):
        for i, item in enumerate(data):
            yield from _odd_values(item, switches, f"{where}.{i}")
    elif isinstance(data, bool):
        yield f"{where}: {str(data).lower()} is neither a number nor a text; put a text in quotes"
    elif isinstance(data, str) and any("\ud800" <= character <= "\udfff" for character in data):
        yield f"{where or 'spec'}: holds half a character (a lone surrogate)"


def _switches(kind: Any) -> set[str]:
    """Names of the keys that are true or false, in a spec and the specs within it."""
    hints = get_type_hints(kind)
    inside = (inner for hint in hints.values() for inner in (hint, *get_args(hint)) if is_dataclass(inner))
    own = {name for name, hint in hints.items() if bool in (hint, *get_args(hint))}
    return own.union(*map(_switches, inside))


def _message(item: Any, known: list[str]) -> str:
    path = ".".join(str(part) for part in item["loc"]) or "spec"
    if item["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        near = difflib.get_close_matches(str(item["loc"][-1]), known, n=1)
        return f"unknown key {path!r}" + (f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}")
    if item["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return f"key {path!r} is missing"
    return f"{path}: {item['msg'].removeprefix('Value error, ')}"


def _keys(kind: Any) -> Iterator[str]:
    """All key names of a spec and the specs within it."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        yield field.name
        for inner in (hints[field.name], *get_args(hints[field.name])):
            if is_dataclass(inner):
                yield from _keys(inner)
