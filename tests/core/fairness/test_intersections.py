"""Intersections: two masks with their interaction, and any number of columns."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.errors import UndefinedError
from core.fairness.intersections import intersectional_audit, intersectional_report
from core.fairness.significance import significance_report


def rows(cells: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcome and both masks from (a, b, n, events) of each cell."""
    parts = [np.column_stack([np.arange(n) < k, np.full(n, a), np.full(n, b)]) for a, b, n, k in cells]
    return tuple(np.concatenate(parts).T)  # type: ignore[return-value]


def same(ours: Any, theirs: Any) -> bool:
    return ours is None if theirs == "nan" else ours == pytest.approx(theirs, abs=1e-9)


def test_arguments_are_the_published_ones_in_their_order() -> None:
    names = ["outcome", "mask_a", "mask_b", "n_resamples", "n_permutations", "confidence", "random_state"]
    assert list(inspect.signature(intersectional_report).parameters)[:7] == names


def test_every_case_of_the_oracle(shared: Path) -> None:
    text = (shared / "oracles" / "fairness" / "significance_seed001.json").read_text(encoding="utf-8")
    cases = json.loads(text)["intersectional"]
    assert len(cases) == 5
    for case in cases:
        report, seed = intersectional_report(*rows(case["cells(a,b,n,k)"])), case["seed_verbatim"]
        for key in ("gap_a_alone", "gap_b_alone"):
            assert same(report[key], seed[key]), (case["case"], key)
        assert report["superadditive"] == seed["superadditive"], case["case"]
        assert report["cell_sizes"] == seed["cell_sizes"]
        assert all(same(report["cell_rates"][name], rate) for name, rate in seed["cell_rates"].items())
        assert same(report["intersectional"]["gap"], seed["intersectional"]["gap"])
        wanted, interaction = case["recommended_interaction_contrast"], report["interaction"]
        if isinstance(wanted, str):
            assert (interaction["status"], interaction["reason"]) == ("not_evaluable", "empty_cell")
        else:
            assert interaction["contrast"] == pytest.approx(wanted["interaction_contrast"], abs=1e-12)
            assert interaction["se"] == pytest.approx(wanted["se"], abs=1e-12)
            assert [interaction["ci_low"], interaction["ci_high"]] == pytest.approx(
                wanted["wald95"],
                abs=4e-6,  # the oracle has z = 1.96
            )


def test_an_empty_cell_is_not_evaluable_and_never_significant() -> None:
    # Fair-Code #413: the seed gives p = 0 and significant.
    report = intersectional_report(*rows([[0, 0, 20, 10], [1, 0, 10, 5], [0, 1, 10, 5]]))
    both = report["intersectional"]
    assert (both["status"], both["reason"], both["significant"], both["p_value"]) == (
        "not_evaluable", "empty_group", False, None,
    )  # fmt: skip
    assert report["cell_rates"]["both"] is None
    assert report["superadditive"] is False
    assert report["interaction"]["verdict"] == "not_evaluable"
    assert report["p_adjusted"]["interaction"] is None


def test_the_contrast_sees_what_the_flag_misses() -> None:
    # FAIRNESS 4: rates .2, .05, .35, .5.
    report = intersectional_report(*rows([[0, 0, 100, 20], [1, 0, 100, 5], [0, 1, 100, 35], [1, 1, 100, 50]]))
    assert report["superadditive"] is False
    assert report["interaction"]["verdict"] == "superadditive"
    assert report["interaction"]["ratio"] == pytest.approx(0.5 * 0.2 / (0.05 * 0.35))
    assert report["interaction"]["ratio_low"] > 1.0


def test_additive_cells_have_no_evidence_of_interaction_and_thin_cells_warn() -> None:
    report = intersectional_report(*rows([[0, 0, 400, 80], [1, 0, 400, 140], [0, 1, 400, 140], [1, 1, 20, 10]]))
    assert report["interaction"]["verdict"] == "no_evidence"
    assert report["intersectional"]["small_sample_warning"]


def test_the_four_questions_are_one_family() -> None:
    report = intersectional_report(*rows([[0, 0, 100, 20], [1, 0, 100, 33], [0, 1, 100, 30], [1, 1, 100, 36]]))
    raw, adjusted = report["p_values"], report["p_adjusted"]
    assert min(adjusted.values()) == pytest.approx(4 * min(raw.values()))
    assert all(adjusted[name] >= raw[name] for name in raw)
    free = intersectional_report(*rows([[0, 0, 10, 2], [1, 0, 10, 3], [0, 1, 10, 3], [1, 1, 10, 4]]), family="none")
    assert free["p_values"] == free["p_adjusted"]


def test_cells_where_all_agree_are_not_taken_as_known() -> None:
    report = intersectional_report(*rows([[0, 0, 20, 0], [1, 0, 20, 0], [0, 1, 20, 0], [1, 1, 20, 20]]))
    interaction = report["interaction"]
    assert (interaction["contrast"], interaction["se"], interaction["method"]) == (1.0, 0.0, "mover_wilson")
    assert 0.4 < interaction["ci_low"] < 1.0
    assert 0.0 < interaction["p_value"] < 1e-3


def test_rows_of_which_an_attribute_is_unknown_are_counted_and_in_no_cell() -> None:
    y, a, b = rows([[0, 0, 30, 10], [1, 0, 30, 10], [0, 1, 30, 10], [1, 1, 30, 10]])
    masks = pd.Series(a.astype(bool), dtype="boolean"), pd.Series(b.astype(bool), dtype="boolean")
    masks[0][:5] = pd.NA
    report = intersectional_report(y, *masks)
    assert report["n_left_out"] == 5
    assert report["cell_sizes"]["neither"] == 25


def test_continuous_outcomes_and_clusters() -> None:
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(40), 10)
    a, b = np.tile([0, 1], 200), np.repeat([0, 1, 0, 1], 100)
    y = rng.normal(size=40)[clusters] + rng.normal(size=400)
    naive, report = intersectional_report(y, a, b), intersectional_report(y, a, b, 500, 500, clusters=clusters)
    assert naive["interaction"]["method"] == "wald"
    assert report["interaction"]["method"] == "cluster_t"
    assert report["interaction"]["contrast"] == naive["interaction"]["contrast"]
    assert report["intersectional"]["n_clusters"] == (20, 20)


def test_masks_of_another_length_are_refused() -> None:
    with pytest.raises(UndefinedError, match="one length"):
        intersectional_report([1, 0], [True], [False, True])


def people() -> tuple[list[int], list[int], dict[str, list[str]]]:
    """Seed 004's: a woman of colour at 65%, the others at 80%."""
    cells = {("f", "c"): 0.65, ("f", "w"): 0.80, ("m", "c"): 0.80, ("m", "w"): 0.80}
    truth, said, sex, race = [], [], [], []
    for (s, r), accuracy in cells.items():
        right = round(2_000 * accuracy)
        truth += [1, 0] * 1_000
        said += [(i % 2 == 0) is (i < right) for i in range(2_000)]
        sex, race = sex + [s] * 2_000, race + [r] * 2_000
    return truth, [int(x) for x in said], {"sex": sex, "race": race}


def test_worst_and_best_cell_with_a_gap_that_each_attribute_alone_hides() -> None:
    truth, said, groups = people()
    audit = intersectional_audit(truth, said, groups)
    assert audit.worst == "f & c"
    assert audit.gap.value == pytest.approx(0.15)
    assert audit.by_column["sex"].value == pytest.approx(0.075)
    assert (audit.passes_at_point, audit.verdict) == (False, "fail")
    assert audit.disparity.omnibus is not None
    assert audit.disparity.omnibus.significant
    assert intersectional_audit(truth, said, groups, max_gap=0.25).verdict == "pass"
    assert intersectional_audit(truth, said, groups, preset="lenient").verdict == "insufficient_evidence"


def test_small_and_empty_cells_are_named_and_do_not_decide() -> None:
    truth, said, groups = people()
    groups = {name: [*values, "x"] for name, values in groups.items()}
    audit = intersectional_audit([*truth, 1], [*said, 0], groups)
    assert audit.cells["x & x"] == 0.0
    assert audit.disparity.left_out == {"x & x": "small_group"}
    assert (audit.worst, audit.n_empty) == ("f & c", 4)


def test_any_rate_can_be_audited_and_no_other() -> None:
    truth, said, groups = people()
    assert intersectional_audit(truth, said, groups, rate="selection_rate").gap.scale == "difference"
    with pytest.raises(UndefinedError, match="is one of selection_rate"):
        intersectional_audit(truth, said, groups, rate="auc")


def test_the_report_of_both_against_neither_is_a_significance_report() -> None:
    y, a, b = rows([[0, 0, 50, 10], [1, 0, 40, 12], [0, 1, 60, 12], [1, 1, 45, 30]])
    both = (a == 1) & (b == 1)
    neither = (a == 0) & (b == 0)
    assert intersectional_report(y, a, b)["intersectional"] == significance_report(y[both], y[neither])
