"""A gate as JUnit XML, which CI systems read.

One test case a figure. A failure is a ``failure``; insufficient evidence is an ``error``, so that the build is red for
both and people can tell them apart. What counts as passed with a review is a passed case that says so in its output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def gate_junit(document: Mapping[str, Any]) -> str:
    """Write a gate as JUnit XML.

    A gate without a single figure cannot be: every rule has at least one case.
    """
    result = document["result"]
    counts = {"tests": len(result["rules"]), "failures": result["n_fail"], "errors": result["n_insufficient"]}
    attributes = {name: str(count) for name, count in counts.items()} | {"skipped": "0", "time": "0"}
    suites = Element("testsuites", {"name": "assay gate", **attributes})
    suite = SubElement(
        suites, "testsuite",
        {"name": _text(result["policy"]), **attributes, "timestamp": _text(document["created"]).removesuffix("Z")},
    )  # fmt: skip
    properties = SubElement(suite, "properties")
    told = {
        "verdict": result["verdict"],
        "review_required": str(result["review_required"]).lower(),
        "record.id": document["id"],
    }
    for name, value in told.items():
        SubElement(properties, "property", {"name": name, "value": _text(value)})
    for row in result["rules"]:
        _add_case(suite, result["policy"], row)
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _add_case(suite: Element, policy: str, row: Mapping[str, Any]) -> None:
    record = f" [{row['record'][:12]}]" if row["record"] else ""
    case = SubElement(
        suite, "testcase",
        {"classname": _text(f"{policy}.{row['rule']}"), "name": _text(f"{row['metric']}{record}"), "time": "0"},
    )  # fmt: skip
    needed = f"\nneeded: {row['needed']['says']}" if row["needed"] else ""
    asked = f"{row['bound']} {row['op']} {row['threshold']:g}, {_found(row)}"
    if row["counts_as"] == "fail":
        SubElement(case, "failure", {"message": _text(row["reason"]), "type": "fail"}).text = _text(asked + needed)
    elif row["counts_as"] == "insufficient_evidence":
        found = SubElement(case, "error", {"message": _text(row["reason"]), "type": "insufficient_evidence"})
        found.text = _text(asked + needed)
    elif row["verdict"] == "fail":
        how = "a review is required" if row["review"] else "excepted"
        SubElement(case, "system-out").text = _text(f"fails, and counts as passed ({how}): {row['reason']}")


def _found(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return "no value"
    ends = ["open" if row[end] is None else str(row[end]) for end in ("low", "high")]
    return f"value {row['value']}" + ("" if ends == ["open", "open"] else f", [{', '.join(ends)}]")


def _text(value: object) -> str:
    return _UNWRITABLE.sub("�", str(value))
