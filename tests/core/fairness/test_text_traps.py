"""The traps of FAIRNESS.md 1.10: what public code does there, and what is done here instead."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import core
from core.errors import InputError, UndefinedError
from core.fairness.bands import BANDS
from core.fairness.outputs import outputs_table
from core.fairness.representation import RsiResult, convert_legacy_rsi
from core.gates.evaluation import evaluate
from core.gates.policy import Policy, Rule
from core.records import plain

RATIONALE = "an even reference for this test"
EVEN = {"male": 0.5, "female": 0.5}


def skew(counts: dict[str, int], reference: dict[str, float] | None = None, **options: object) -> RsiResult:
    kind = "uniform" if reference in (None, EVEN) else "real_world"
    arguments = {"taxonomy": "gender", "reference_kind": kind, "rationale": RATIONALE, **options}
    return core.rsi(counts, reference=reference, **arguments)


def test_1_one_output_outside_the_reference_moves_neither_ceiling_nor_band() -> None:
    inside, outside = skew({"male": 19, "female": 1}, EVEN), skew({"male": 18, "female": 1, "neutral": 1}, EVEN)
    assert inside.max_attainable == outside.max_attainable
    assert (inside.band, outside.band) == ("fail", "fail")
    assert outside.out_of_reference_share == 0.05
    # By hand, the ceiling over all observed categories would be 1 and the verdict watch.
    assert outside.value == pytest.approx(0.6478, abs=1e-4)


def test_1_too_much_outside_the_reference_is_no_value() -> None:
    result = skew({"male": 5, "female": 5, "neutral": 10}, EVEN)
    assert (result.status, result.reason, result.value, result.band) == (
        "not_evaluable",
        "out_of_reference",
        None,
        None,
    )
    assert result.out_of_reference_share == 0.5


def test_2_references_and_baselines_go_through_the_labels_taxonomy() -> None:
    counts = {"male": 5, "female": 5, "neutral": 5}
    assert skew(counts, {"man": 1, "woman": 1, "non-binary": 1}).value == pytest.approx(0.0, abs=1e-12)
    result = core.sar(["clerk"] * 10, ["nonbinary"] * 10, baselines={"clerk": {"non-binary": 1.0}}, taxonomy="gender")
    assert [(pair.group, pair.ratio) for pair in result.by_pair] == [("neutral", 1.0)]


def test_3_a_low_skew_with_everything_in_one_group_shows_the_erased_group() -> None:
    result = skew({"male": 100}, {"male": 0.9, "female": 0.1})
    assert result.band == "pass"
    assert (result.largest_group, result.erased) == ("male", ("female",))
    assert "erasure" in result.notes
    assert result.by_group["male"].share == 1.0


def test_4_the_uniform_default_reference_names_every_declared_category() -> None:
    result = skew({"male": 5, "female": 5})
    assert result.value == pytest.approx(0.415714626034, abs=1e-9)
    assert {name: group.reference_share for name, group in result.by_group.items()} == {
        "female": pytest.approx(1 / 3),
        "male": pytest.approx(1 / 3),
        "neutral": pytest.approx(1 / 3),
    }
    assert result.erased == ("neutral",)
    with pytest.raises(UndefinedError, match="rationale"):
        skew({"male": 5, "female": 5}, rationale="because")


def test_5_a_bound_on_another_scale_or_version_is_refused() -> None:
    result = plain(skew({"male": 19, "female": 1}))
    audit = {"id": "a" * 64, "schema": "assay.audit/1", "spec": {}, "result": {"rsi": {"gender": result}}}

    def verdict(version: str, scale: str) -> tuple[str, str]:
        bound = Rule(
            rule="skew", metric="rsi.gender", bound="point", op="<=", threshold=0.2, metric_version=version, scale=scale
        )
        (row,) = evaluate(Policy(name="p", rules=(bound,)), [audit]).rules
        return row.verdict, row.reason

    assert verdict("rsi/1", "jsd_base2_normalised")[0] == "fail"
    for version, scale in (("rsi/1", "jsd_natural_log"), ("rsi/0", "jsd_base2_normalised"), ("rsi/1", "raw")):
        said, reason = verdict(version, scale)
        assert (said, "refused" in reason) == ("insufficient_evidence", True)


def test_6_a_stored_value_is_converted_only_when_said_to_be_in_natural_logarithms() -> None:
    nats = 0.14233756531240505  # 95 to 5, in oracles/fairness/rsi_head.json
    legacy = convert_legacy_rsi(nats, log_base="e", reference=EVEN)
    assert legacy.raw_divergence == pytest.approx(nats / math.log(2))
    assert BANDS["rsi"].of(legacy.value or 0.0) == "fail"
    assert convert_legacy_rsi(nats, log_base="e").scale == "jsd_base2_raw"
    with pytest.raises(UndefinedError, match="log_base"):
        convert_legacy_rsi(nats, log_base=2)  # type: ignore[arg-type]
    with pytest.raises(UndefinedError, match="stored_value"):
        convert_legacy_rsi(0.9, log_base="e")


def test_7_results_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import json, core\nfrom core.records import canonical\n"
        "r = core.rsi({'neutral': 3, 'man': 9, 'woman': 2}, taxonomy='gender', reference_kind='uniform',"
        " rationale='an even reference for this test')\n"
        "s = core.sar(['b', 'a', 'c'] * 4, ['man', 'woman', 'man', 'man', 'woman', 'woman'] * 2,"
        " baselines={c: {'man': .5, 'woman': .5} for c in 'cab'}, taxonomy='gender')\n"
        "print(canonical([r, s]))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("0", "4242")
    }
    assert len(texts) == 1
    assert list(json.loads(texts.pop())[0]["by_group"]) == ["female", "male", "neutral"]


def test_8_one_classified_output_in_a_thousand_is_no_pass() -> None:
    labels = ["male"] + [None] * 999
    for result in (
        core.rsi(labels, taxonomy="gender", reference_kind="uniform", rationale=RATIONALE),
        core.ode(labels, taxonomy="gender"),
    ):
        assert (result.status, result.reason, result.band) == ("not_evaluable", "low_coverage", None)
        assert (result.n, result.n_classified, result.coverage) == (1000, 1, 0.001)


def test_9_there_is_no_measure_that_forgets_which_share_is_whose() -> None:
    one = skew({"male": 9, "female": 1}, {"male": 0.9, "female": 0.1})
    other = skew({"male": 1, "female": 9}, {"male": 0.9, "female": 0.1})
    assert one.value == pytest.approx(0.0, abs=1e-12)
    assert other.band == "fail"


def test_10_diversity_reads_labels_and_declared_categories_only() -> None:
    result = core.ode({"white_western": 1, "east_asian": 1}, taxonomy="ethnicity")
    assert result.value == pytest.approx(math.log2(2) / math.log2(6), abs=1e-12)
    with pytest.raises(UndefinedError, match="at least 2"):
        core.ode(["a"], taxonomy=["a"])


def test_11_every_base_replicate_counts_and_chance_stands_beside() -> None:
    # In oracles/fairness/cds.json only the first base replicate is compared, which gives 1.
    vectors = [[1, 0], [0, 1], [0, 1]]
    result = core.cds(vectors, scenarios=["s"] * 3, variants=["base", "base", "female"])
    assert result.value == pytest.approx(0.5, abs=1e-12)
    assert (result.noise_floor, result.excess) == (pytest.approx(1.0), pytest.approx(-0.5))
    assert [(pair.scenario, pair.variant) for pair in result.worst] == [("s", "female")]


def test_11_a_zero_vector_is_unscored_and_not_a_distance_of_one() -> None:
    result = core.cds([[1, 0], [0, 0]], scenarios=["s"] * 2, variants=["base", "female"])
    assert (result.status, result.reason, result.n_scored) == ("not_evaluable", "no_counterfactual", 1)


def test_12_severity_is_bounded_and_no_score_lowers_it_by_rising() -> None:
    alone = core.hsi([{"hate_speech": 0.95}])
    more = core.hsi([{"hate_speech": 0.95, "microaggression": 0.35, "condescension": 0.35}])
    assert alone.value is not None
    assert more.value is not None
    assert alone.value <= more.value <= 1.0
    assert core.hsi([{"hate_speech": 0.95}] + [{"hate_speech": 0.0}] * 39).band == "pass"


def test_12_unscored_outputs_do_not_dilute() -> None:
    result = core.hsi([{"slurs": 1.0}, {"slurs": 0.0}, None, None], min_coverage=0.5)
    assert (result.value, result.n_scored, result.n_unscored) == (0.5, 2, 2)


def test_13_cancelling_pairs_are_seen_and_order_plays_no_part() -> None:
    contexts = ["nurse"] * 10 + ["driver"] * 10
    labels = ["female"] * 2 + ["male"] * 8 + ["female"] * 8 + ["male"] * 2
    baselines = {"nurse": {"female": 0.4}, "driver": {"female": 0.4}}
    result = core.sar(contexts, labels, baselines=baselines)
    assert (result.value, result.band) == (pytest.approx(1.0), "pass")
    assert result.max_abs_log_ratio == pytest.approx(math.log(2))
    assert result.pairs_by_band["under_representation"] == 1
    assert result.pairs_by_band["watch"] + result.pairs_by_band["flag"] + result.pairs_by_band["fail"] == 1
    turned = core.sar(contexts[::-1], labels[::-1], baselines=dict(reversed(baselines.items())))
    assert turned == result


def test_13_erasure_is_scored_and_named() -> None:
    result = core.sar(["nurse"] * 50, ["female"] * 50, baselines={"nurse": {"male": 0.1, "female": 0.9}})
    assert result.erased == ("nurse/male",)
    assert {pair.group: pair.ratio for pair in result.by_pair} == {"female": pytest.approx(1 / 0.9), "male": 0.0}
    assert result.value == pytest.approx(math.sqrt(0.5 / 51 / 0.1 / 0.9))


def test_13_a_missing_baseline_is_an_error_and_never_a_half() -> None:
    with pytest.raises(UndefinedError, match="baseline"):
        core.sar(["nurse", "cook"], ["male", "male"], baselines={"nurse": {"male": 0.5}})
    with pytest.raises(UndefinedError, match="baseline"):
        core.sar(["nurse"], ["male"], baselines={"nurse": {"male": 0.5}}, pairs=[("nurse", "female")])
    for share in (0.0, 1.5, -0.1, float("nan")):
        with pytest.raises(UndefinedError):
            core.sar(["nurse"], ["male"], baselines={"nurse": {"male": share}})
    result = core.sar(["nurse"] * 2, ["male", "neutral"], baselines={"nurse": {"male": 0.5}}, taxonomy="gender")
    assert result.groups_without_baseline == ("nurse/neutral",)


def test_14_a_group_that_is_refused_altogether_counts_once() -> None:
    result = core.dsi(
        [0, 0, 1, 1],
        scenarios=["s"] * 4,
        variants=["base", "base", "a", "a"],
        token_count=[100, 100, 12, 12],
        helpfulness=[4, 4, 1, 1],
    )
    one = result.by_set[0]
    assert (one.rrd, one.rld, one.hsd, one.components) == (1.0, None, None, ("rrd",))
    assert one.groups_without_answers == ("a",)
    assert "groups_without_answers" in result.notes


def test_14_a_short_answer_is_no_refusal() -> None:
    result = core.dsi([0, 0], scenarios=["s", "s"], variants=["base", "a"], token_count=[2, 2])
    assert (result.rrd, result.value) == (0.0, 0.0)
    assert result.by_group["a"].n_refused == 0


def test_14_a_large_variation_of_length_is_capped_and_the_worst_set_stands_beside_the_mean() -> None:
    rows = [("good", "base", 100), ("good", "a", 100)] + [
        ("bad", g, t) for g, t in (("base", 1000), ("a", 1), ("b", 1))
    ]
    scenarios, variants, tokens = zip(*rows, strict=True)
    result = core.dsi([0] * 5, scenarios=scenarios, variants=variants, token_count=tokens)
    bad = result.by_set[0]
    assert bad.length_variation is not None
    assert bad.length_variation > 1.4
    assert bad.rld == 1.0
    assert bad.value == pytest.approx(0.5)
    assert (result.value, result.worst, result.worst_set) == (pytest.approx(0.25), pytest.approx(0.5), "bad")


def test_14_two_tasks_of_different_length_are_no_disparity() -> None:
    # oracles/fairness/dsi.json: pooled over tasks the same outputs give .387.
    rows = [(task, group, tokens) for task, tokens in (("short", 130), ("long", 1170)) for group in ("base", "a", "b")]
    scenarios, variants, tokens = zip(*rows, strict=True)
    assert core.dsi([0] * 6, scenarios=scenarios, variants=variants, token_count=tokens).value == 0.0


def test_15_refusals_are_given_and_never_read_off_other_columns() -> None:
    result = core.dsi([None, None], scenarios=["s", "s"], variants=["base", "a"], token_count=[5, 500])
    assert (result.status, result.reason) == ("not_evaluable", "unscored")


def test_16_what_has_no_value_has_no_band_and_nan_is_never_banded() -> None:
    for bands in BANDS.values():
        for value in (float("nan"), float("inf")):
            with pytest.raises(UndefinedError):
                bands.of(value)
    empty = core.hsi([])
    assert (empty.status, empty.band, empty.band_probabilities) == ("not_evaluable", None, None)


def test_16_a_band_is_never_that_of_a_rounded_value() -> None:
    assert BANDS["hsi"].of(0.2049) == "fail"
    assert BANDS["rsi"].of(0.2049) == "pass"


def test_17_few_outputs_are_told_by_the_interval_and_the_probability_of_bands() -> None:
    few, many = skew({"male": 3, "female": 1}, EVEN), skew({"male": 3000, "female": 1000}, EVEN)
    assert few.value == pytest.approx(many.value)
    assert few.interval is not None
    assert many.interval is not None
    assert few.interval.high - few.interval.low > 10 * (many.interval.high - many.interval.low)
    assert few.interval.low == 0.0
    assert many.band_probabilities is not None
    assert many.band_probabilities["pass"] == 1.0
    assert few.band_probabilities is not None
    assert 0.1 < few.band_probabilities["pass"] < 0.9
    assert "few_scenarios" in few.notes


def test_unknown_harms_are_refused_and_not_given_a_middle_weight() -> None:
    with pytest.raises(UndefinedError, match="weight"):
        core.hsi([{"toxicity": 0.4}])
    data = {"id": ["a"], "scenario_id": ["s"], "variant": ["base"], "harm_toxicity": [0.4]}
    with pytest.raises(InputError, match="harm_toxicity"):
        outputs_table(data, harm_categories=["slurs"])


def test_labels_are_those_of_the_output_and_the_first_that_resolves_counts() -> None:
    labels = np.array(["unknown|masculine", "woman|man", "robot", ""], dtype=object)
    result = core.ode(labels, taxonomy="gender", min_coverage=0.5)
    assert {name: group.count for name, group in result.by_group.items()} == {"female": 1, "male": 1, "neutral": 0}
    assert result.coverage == 0.5
