"""Markdown of records: untrusted names stay text, and what has no rate says so."""

from __future__ import annotations

import string
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tasks.reporting.markdown import calibration_markdown, category_rows, measurement_markdown, plain_text
from tasks.reporting.terminal import STATUS_MEANING

NASTY = [
    "[click](https://example.org)", "![x](https://example.org/x.png)", "<script>alert(1)</script>", "<b>", "&lt;b&gt;",
    "`code`", "**bold**", "_emphasis_", "# heading", "a\n\n# heading\n\n- item", "| a | b |", "1. item", "- item",
    "---", "===", "> quote", "\\[x](y)", "<https://example.org>", "$x$", "~~gone~~",
]  # fmt: skip
PREVALENCE = {"status": "measured", "value": 0.125, "interval": {"low": 0.1, "high": 0.15, "confidence_level": 0.9}}


def measurement(**changed: Any) -> dict[str, Any]:
    composite = {"n_units": 40, "n_flagged": 6, "observed_rate": 0.15, "prevalence": {**PREVALENCE, "notes": []}}
    result = {
        "target": "guard-x@1.2", "composite": composite, "categories": {"hate": composite}, "notes": [],
        "accounting": {"attempted": 50, "scored": 40}, "judge": {"name": "guard", "version": "1"},
        "calibration": {"id": "c" * 64},
    }  # fmt: skip
    return {"id": "a" * 64, "schema": "assay.measurement/1", "result": result | changed}


def without_rate(status: str, observed: float | None = 0.15) -> dict[str, Any]:
    nothing = {"status": status, "value": None, "interval": None, "notes": []}
    composite = {"n_units": 40, "n_flagged": 6, "observed_rate": observed, "prevalence": nothing}
    return measurement(composite=composite, categories={"hate": composite})


def calibration(**changed: Any) -> dict[str, Any]:
    rates = {
        "threshold": 0.5, "sensitivity": 0.9, "specificity": 0.8, "youden_j": 0.7, "youden_j_low": 0.6,
        "status": "measured", "notes": [],
    }  # fmt: skip
    result = {
        "instrument": "safety", "judge": {"name": "guard", "version": "1"}, "composite": rates,
        "categories": {"hate": rates}, "notes": [], "golden": {"n_traces": 50, "n_clusters": 10},
    }  # fmt: skip
    return {"id": "b" * 64, "schema": "assay.calibration/1", "result": result | changed}


def html(text: str) -> str:
    return str(MarkdownIt("commonmark").render(text))


@pytest.mark.parametrize("name", NASTY)
def test_an_untrusted_name_stays_the_text_that_it_is(name: str) -> None:
    from html import unescape

    rendered = html(f"# {plain_text(name)}")
    assert rendered.startswith("<h1>")
    inside = rendered.removeprefix("<h1>").removesuffix("</h1>\n")
    assert "<" not in inside
    assert unescape(inside) == name.replace("\n", "\\n")


@pytest.mark.parametrize("address", ["https://example.org/x", "www.example.org", "mail@example.org", "http://a.b"])
def test_an_address_in_a_name_does_not_become_a_link_by_itself(address: str) -> None:
    # Renderers link https://..., www.... and mail addresses that stand in the text.
    assert not any(sign in plain_text(address) for sign in ("https:/", "http:/", "www.e", "mail@"))


@pytest.mark.parametrize("name", NASTY)
def test_no_part_of_a_record_adds_markup(name: str) -> None:
    plain = [html(measurement_markdown(measurement(notes=["note"]))), html(calibration_markdown(calibration()))]
    nasty = [
        html(measurement_markdown(measurement(target=name, notes=[name]))),
        html(calibration_markdown(calibration(instrument=name, judge={"name": name, "version": name}))),
    ]

    def tags(rendered: str) -> list[str]:
        return [part.partition(">")[0] for part in rendered.split("<")[1:]]

    assert [tags(text) for text in nasty] == [tags(text) for text in plain]


def test_control_characters_do_not_reach_the_page() -> None:
    assert "\x1b" not in plain_text("a\x1b[31mb")
    assert all(ord(c) >= 32 for c in plain_text("".join(map(chr, range(32)))))


def test_letters_digits_and_other_scripts_stay_as_they_are() -> None:
    name = string.ascii_letters + string.digits + " ,;/%'\"?" + "äöü漢字"
    assert plain_text(name) == name


def test_a_measurement_tells_headline_interval_status_and_record() -> None:
    text = measurement_markdown(measurement(), ["record: /x.json", "MLflow run: 1"])
    assert "**Corrected rate 12.5%**, 90% interval" in text
    assert "10.0%" in text
    assert "15.0%" in text
    assert "status `measured`" in text
    assert "Observed rate (the judge's own, uncorrected): 15.0% of 40 fully scored units." in text
    assert "Scored 40 of 50 units." in text
    assert text.endswith(f"Record `{'a' * 64}`\n- record: /x.json\n- MLflow run: 1\n")


@pytest.mark.parametrize("status", sorted(set(STATUS_MEANING) - {"inconclusive"}))
def test_a_status_without_a_rate_says_so_and_what_it_means(status: str) -> None:
    text = measurement_markdown(without_rate(status))
    assert f"**No corrected rate**, status `{status}`: {STATUS_MEANING[status]}." in text
    assert "(the judge's own, uncorrected): 15.0%" in text
    assert "Corrected rate" not in text
    (composite, hate) = category_rows(without_rate(status))
    assert (composite["category"], hate["category"]) == ("composite", "hate")
    assert composite["status"] == hate["status"] == status
    assert "%" not in f"{hate['corrected']}{hate['interval']}"


def test_nothing_scored_has_no_observed_rate_either() -> None:
    assert "%" not in measurement_markdown(without_rate("insufficient_data", observed=None))


def test_a_calibration_tells_j_its_bound_and_its_status() -> None:
    text = calibration_markdown(calibration())
    assert "# safety with guard\\@1" in text
    assert "**Composite J 0.700** (lower bound 0.600), status `measured`" in text
    assert "Golden set: 50 traces, 10 clusters." in text
    assert category_rows(calibration())[1] == {
        "category": "hate", "threshold": "0.500000", "sensitivity": "0.900", "specificity": "0.800", "J": "0.700",
        "J low": "0.600",
        "status": "measured",
    }  # fmt: skip


def test_a_calibration_without_j_or_golden_set_says_only_its_status() -> None:
    composite = {**calibration()["result"]["composite"], "youden_j": None, "status": "not_calibrated"}
    text = calibration_markdown(calibration(composite=composite, golden=None))
    assert "**Composite `not_calibrated`.**" in text
    assert "Golden set" not in text
    assert "None" not in text


def test_notes_are_told_once_each() -> None:
    document = measurement(notes=["one", "two"])
    document["result"]["composite"] = {
        **document["result"]["composite"],
        "prevalence": {**PREVALENCE, "notes": ["two"]},
    }
    assert measurement_markdown(document).count("- two\n") == 1


def test_the_attributes_of_detections_stand_in_the_table() -> None:
    document = without_rate("not_calibrated")
    del document["result"]["categories"]
    document["result"]["attributes"] = {"race": {"n_units": 40, "n_flagged": 4, "rate": 0.1}}
    assert category_rows(document)[1:] == [{"category": "race", "units": 40, "flagged": 4, "observed": "10.0%"}]
