"""An audit on the terminal, in Markdown and in figures: readable, in measured words, and no name adds markup."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from core.fairness.audit import audit_predictions
from core.fairness.outputs import outputs_table
from core.fairness.outputs_spec import OutputsSpec
from core.fairness.spec import AuditSpec, Positives
from core.fairness.text_audit import audit_outputs
from core.records import plain
from tasks.builtin.fairness import sample_spec
from tasks.builtin.outputs_sample import MODELS, outputs_sample
from tasks.reporting.audit import audit_report
from tasks.reporting.audit_figures import MAX_GROUPS, audit_figures
from tasks.reporting.audit_markdown import audit_markdown
from tasks.reporting.audit_rows import audit_rows, gap_rows, group_rows, metric_rows, p_value, points

NASTY = ["<script>alert(1)</script>", "[x](http://e.org)", "**a** | b", "`rm`", "$\\frac{1}{0}$", "a\x1b[31mb\nc"]


def record(spec: Any, result: Any) -> dict[str, Any]:
    return {"schema": "assay.audit/1", "id": "a" * 64, "seed": 7, "spec": plain(spec), "result": result}


def of_predictions(table: dict[str, Any], **spec: Any) -> dict[str, Any]:
    asked = AuditSpec(positive=Positives(y_pred=1), **spec)
    return record(asked, plain(audit_predictions(asked, table)))


def of_outputs(table: Any, spec: OutputsSpec) -> dict[str, Any]:
    read = outputs_table(table, harm_categories=list(spec.harm_weights))
    return record(spec, {**plain(audit_outputs(spec, read)), "comparison": None})


@pytest.fixture(scope="module")
def predictions() -> dict[str, Any]:
    n = 300
    return of_predictions({
        "sex": (["f", "m"] * n)[: 2 * n] + ["x"] * 5,
        "race": ["a"] * n + ["b"] * n + ["b"] * 5,
        "y_pred": [0, 1, 1, 1] * (n // 2) + [1] * 5,
        "y_true": [0, 1] * n + [1] * 5,
        "score": [0.2, 0.8] * n + [0.9] * 5,
    }, groups=("sex", "race"))  # fmt: skip


@pytest.fixture(scope="module")
def outputs() -> dict[str, Any]:
    return of_outputs(outputs_sample(MODELS[1]), sample_spec())


def terminal(document: dict[str, Any]) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120, no_color=True, highlight=False).print(audit_report(document))
    return stream.getvalue()


def test_groups_and_gaps_stand_with_their_evidence(predictions: dict[str, Any]) -> None:
    part = predictions["result"]["attributes"]["sex"]
    rows = {row["group"]: row for row in group_rows(part)}
    assert (rows["f"]["n"], rows["f"]["selection rate"], rows["m"]["selection rate"]) == ("300", "50.0%", "100.0%")
    assert rows["x (small)"]["n"] == "5"
    gaps = {(row["rate"], row["group"]): row for row in gap_rows(part)}
    found = gaps["selection rate", "m"]
    assert (found["gap"], found["verdict"]) == ("+50.0", "higher")
    assert gaps["selection rate", "x"]["verdict"] == "not evaluable: under the minimum size"


def test_what_was_left_out_is_said(predictions: dict[str, Any]) -> None:
    for text in (terminal(predictions), audit_markdown(predictions)):
        assert "under the minimum size: x (5)" in text.replace("\\", "")
        assert "names no source" in text


def test_words_are_those_of_a_measurement(predictions: dict[str, Any], outputs: dict[str, Any]) -> None:
    for document in (predictions, outputs):
        for text in (terminal(document), audit_markdown(document)):
            words = {word.strip(".,:;()").lower() for word in text.split()}
            assert not words & {"fair", "unfair", "unbiased", "biased", "safe", "accurate"}


def test_harm_and_service_stand_together_and_bands_have_probabilities(outputs: dict[str, Any]) -> None:
    rows = metric_rows(outputs)
    assert [row["metric"] for row in rows][-2:] == ["harm severity (HSI)", "differential service (DSI)"]
    assert rows[-1]["band"] == "flag"
    assert rows[-1]["probability of bands"].startswith("flag 100%")
    assert "the two are one finding" in " ".join(terminal(outputs).split())


def test_a_metric_that_cannot_be_evaluated_says_why_and_has_no_band() -> None:
    document = of_outputs(outputs_sample(MODELS[0]).drop_columns(["embedding", "is_refusal"]), sample_spec())
    rows = {row["metric"]: row for row in metric_rows(document)}
    assert rows["differential service (DSI)"]["band"] == "not evaluable"
    assert rows["differential service (DSI)"]["value"] == "-"
    text = " ".join(terminal(document).split())
    assert "the table has no column 'embedding'" in text
    assert {"bands", "harm-and-service"} <= set(audit_figures(document))
    assert "divergence" not in audit_figures(document)


def test_a_human_review_is_the_first_thing_that_markdown_says() -> None:
    table = outputs_sample(MODELS[1]).to_pandas()
    table.loc[7, "harm_dehumanisation"] = 0.01
    lines = audit_markdown(of_outputs(table, sample_spec())).splitlines()
    assert lines[2].startswith("**HUMAN REVIEW REQUIRED\\: 1 output with hate speech or dehumanisation")


def test_no_name_adds_markup_or_steers_the_terminal() -> None:
    n = 120
    table = {"g": [name for name in NASTY for _ in range(n)], "y_pred": ([0, 1] * n * len(NASTY))[: n * len(NASTY)]}
    document = of_predictions(table, groups=("g",), name=NASTY[0], reference={"g": NASTY[1]})
    html = MarkdownIt("commonmark").enable("table").render(audit_markdown(document))
    for tag in ("<script", "<a ", "<code>rm", "<strong>a"):
        assert tag not in html
    assert "\x1b" not in terminal(document)
    figures = audit_figures(document)
    for figure in figures.values():
        figure.canvas.draw()
    assert all(set(row.values()) for row in audit_rows(document))


def test_figures_of_predictions_are_drawn_and_say_what_is_not_evaluable(
    predictions: dict[str, Any], tmp_path: Path
) -> None:
    figures = audit_figures(predictions)
    assert sorted(figures) == [
        "gaps-race", "gaps-sex", "gaps-sex_x_race", "intersections", "reliability-race", "reliability-sex",
    ]  # fmt: skip
    for name, figure in figures.items():
        figure.savefig(tmp_path / f"{name}.png", dpi=40)
    hatched = [patch for axes in figures["intersections"].axes for patch in axes.patches if patch.get_hatch()]
    assert hatched  # the five rows of x
    gaps = [axes for name in ("gaps-sex", "gaps-race") for axes in figures[name].axes]
    marks = {line.get_marker() for axes in gaps for line in axes.lines}
    assert {"s", "o", "x"} <= marks


def test_figures_of_outputs_are_drawn(outputs: dict[str, Any], tmp_path: Path) -> None:
    figures = audit_figures(outputs)
    assert sorted(figures) == [
        "amplification-gender", "bands", "divergence", "harm-and-service", "representation-gender", "service-by-set",
    ]  # fmt: skip
    for name, figure in figures.items():
        figure.savefig(tmp_path / f"{name}.png", dpi=40)
    assert [axes.get_ylabel().splitlines()[-1] for axes in figures["bands"].axes][-2:] == ["(HSI)", "(DSI)"]


def test_two_hundred_groups_are_one_figure_of_the_largest() -> None:
    n = 110
    table = {"g": [f"g{i}" for i in range(200) for _ in range(n)], "y_pred": [0, 1] * (100 * n)}
    document = of_predictions(table, groups=("g",))
    figure = audit_figures(document)["gaps-g"]
    assert len(figure.axes[0].get_yticks()) == MAX_GROUPS
    assert "more groups are in the record" in terminal(document)


def test_one_group_alone_is_reported_without_a_figure() -> None:
    document = of_predictions({"g": ["a"] * 200, "y_pred": [0, 1] * 100}, groups=("g",))
    assert audit_figures(document) == {}
    assert "not evaluable" in terminal(document)


@pytest.mark.parametrize(("value", "shown"), [(None, "-"), (0.0123, "0.012"), (2e-9, "2.0e-09"), (1.0, "1.000")])
def test_p_values_are_never_0(value: float | None, shown: str) -> None:
    assert p_value(value) == shown


def test_a_difference_has_its_sign_and_no_negative_0() -> None:
    assert [points(value) for value in (0.1, -0.1, -0.0001, None)] == ["+10.0", "-10.0", "+0.0", "-"]
