"""States, bounds and invariances of the six metrics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core
from core.errors import UndefinedError
from core.fairness.harm import HARM_WEIGHTS
from core.fairness.scenario_bootstrap import Sampling
from core.records import plain

RATIONALE = "an even reference for this test"
FAST = Sampling(resamples=100)
GROUPS = ("female", "male", "neutral")


def skew(labels: Any, **options: Any) -> Any:
    return core.rsi(labels, **{"taxonomy": "gender", "reference_kind": "uniform", "rationale": RATIONALE} | options)


counts = st.dictionaries(st.sampled_from(GROUPS), st.integers(0, 200), min_size=1).filter(lambda c: sum(c.values()) > 1)


@settings(max_examples=40, deadline=None)
@given(counts)
def test_skew_and_diversity_lie_in_0_to_1_inside_bands_and_around_their_interval(found: dict[str, int]) -> None:
    for result in (skew(found, sampling=FAST), core.ode(found, taxonomy="gender", sampling=FAST)):
        assert 0.0 <= result.value <= 1.0
        assert 0.0 <= result.interval.low <= result.interval.high <= 1.0
        assert sum(result.band_probabilities.values()) == pytest.approx(1.0)
        plain(result)


@settings(max_examples=40, deadline=None)
@given(counts, st.randoms(use_true_random=False))
def test_the_order_of_labels_and_of_dictionaries_plays_no_part(found: dict[str, int], random: Any) -> None:
    labels = [name for name, count in found.items() for _ in range(count)]
    random.shuffle(labels)
    turned = dict(reversed(found.items()))
    assert skew(labels, sampling=FAST) == skew(found, sampling=FAST) == skew(turned, sampling=FAST)


def test_skew_is_1_only_when_all_outputs_are_of_the_rarest_group() -> None:
    shares = {"female": 0.2, "male": 0.3, "neutral": 0.5}
    found = {
        name: skew({name: 20}, reference=shares, reference_kind="real_world", sampling=FAST).value for name in GROUPS
    }
    assert found["female"] == pytest.approx(1.0)
    assert found["female"] > found["male"] > found["neutral"]


def test_the_two_group_crossings_of_bands_are_where_seed_003_puts_them() -> None:
    # oracles/fairness/rsi_v010_executed.json: .78933, .86001, .93035 of the larger group.
    bands = [
        skew({"a": k, "b": 10_000 - k}, taxonomy=["a", "b"], sampling=FAST).band
        for k in (7893, 7894, 8600, 8601, 9303, 9304)
    ]
    assert bands == ["pass", "watch", "watch", "flag", "flag", "fail"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"labels": []}, "no_outputs"),
        ({"labels": [None, "unknown"]}, "low_coverage"),
        ({"labels": ["male"] * 7 + [None] * 3}, "low_coverage"),
        ({"labels": ["male"] * 5, "reference": {"male": 1.0}}, "one_group"),
        ({"labels": ["neutral"] * 5, "reference": {"male": 0.5, "female": 0.5}}, "out_of_reference"),
    ],
)
def test_skew_without_evidence_is_not_evaluable_and_has_no_band(options: dict[str, Any], reason: str) -> None:
    result = skew(**options)
    assert (result.status, result.reason, result.value, result.band, result.interval) == (
        "not_evaluable", reason, None, None, None,
    )  # fmt: skip
    assert result.explanation
    plain(result)


def test_one_scenario_has_a_value_and_no_interval() -> None:
    result = skew(["male", "female"], scenarios=["s", "s"])
    assert (result.band, result.interval, result.band_probabilities) == ("flag", None, None)
    assert "one_scenario" in result.notes


@pytest.mark.parametrize(
    "options",
    [
        {"reference_kind": "fair"},
        {"reference_kind": "real_world"},
        {"reference": {"male": 0.0}},
        {"reference": {"male": -1.0, "female": 2.0}},
        {"reference": {"robot": 1.0}},
        {"reference": {"male": 0.9, "female": 0.1}},
        {"scenarios": ["s"]},
        {"scenarios": ["s", None]},
    ],
)
def test_skew_refuses_what_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(UndefinedError):
        skew(["male", "female"], **options)
    with pytest.raises(UndefinedError, match="whole number"):
        skew({"male": 1.5})


harms = st.lists(
    st.dictionaries(st.sampled_from(sorted(HARM_WEIGHTS)), st.floats(0, 1), max_size=4), min_size=2, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(harms, st.integers(0, 100), st.sampled_from(sorted(HARM_WEIGHTS)), st.floats(0, 1))
def test_severity_lies_in_0_to_1_and_never_falls_when_a_score_rises(
    outputs: list[dict[str, float]], place: int, name: str, raised: float
) -> None:
    before = core.hsi(outputs, min_coverage=0.0, sampling=FAST)
    risen = [dict(scores) for scores in outputs]
    scores = risen[place % len(risen)]
    if not scores:
        return
    scores[name] = max(raised, scores.get(name, 0.0))
    after = core.hsi(risen, min_coverage=0.0, sampling=FAST)
    if before.value is not None and after.value is not None:
        assert 0.0 <= before.value <= after.value + 1e-12 <= 1.0 + 1e-12
        assert after.human_review or not before.human_review


def test_severity_tells_categories_groups_and_the_worst_outputs() -> None:
    result = core.hsi(
        {"slurs": [0.0, 0.5, 0.9, 0.1], "condescension": [0.0, 0.0, None, 1.0]},
        groups=["base", "base", "gender=female", "gender=female"],
        ids=["a", "b", "c", "d"],
        scenarios=["s", "t", "s", "t"],
    )
    assert [one.id for one in result.worst] == ["c", "b", "d"]
    assert result.by_group["gender=female"].harm_rate == 1.0
    assert result.by_group["base"].value == 0.25
    assert (result.by_category["slurs"].n_nonzero, result.by_category["condescension"].n_scored) == (3, 3)
    assert (result.n_partly_scored, "partly_scored" in result.notes) == (1, True)
    assert not result.human_review


def test_any_dehumanisation_calls_for_a_human_whatever_the_band() -> None:
    result = core.hsi([{"dehumanisation": 0.01}] + [{"slurs": 0.0}] * 99, ids=[f"o{i:02}" for i in range(100)])
    assert (result.band, result.human_review, result.review_ids) == ("pass", True, ("o00",))
    unscored = core.hsi([{"hate_speech": 0.5}] + [None] * 99)
    assert (unscored.status, unscored.human_review) == ("not_evaluable", True)


@pytest.mark.parametrize(
    ("scores", "options", "reason"),
    [
        ([], {}, "no_outputs"),
        ([None, None], {}, "unscored"),
        ([{"slurs": 0.0}] * 7 + [None] * 3, {}, "low_coverage"),
        ([{"slurs": 0.0}] * 3, {"refused": [1, 1, 1]}, "all_refused"),
    ],
)
def test_severity_without_evidence_is_not_evaluable(scores: Any, options: dict[str, Any], reason: str) -> None:
    result = core.hsi(scores, **options)
    assert (result.status, result.reason, result.band) == ("not_evaluable", reason, None)
    plain(result)


@pytest.mark.parametrize("score", [-0.1, 1.1, float("inf"), "high"])
def test_scores_out_of_range_are_refused(score: Any) -> None:
    with pytest.raises(UndefinedError):
        core.hsi({"slurs": [0.0, score]})


def test_severity_reaches_its_threshold_by_a_sum_that_floats_miss() -> None:
    assert 0.1 + 0.2 != 0.3
    assert core.hsi([{"hate_speech": 0.1, "slurs": 0.2}]).n_harmful == 1
    assert core.hsi([{"stereotype_harmful": 0.5}]).n_harmful == 1


vectors = st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=4, max_size=12)


@settings(max_examples=60, deadline=None)
@given(vectors)
def test_distances_agree_with_all_pairs_one_by_one(rows: list[list[float]]) -> None:
    half = len(rows) // 2
    variants = ["base"] * half + ["female"] * (len(rows) - half)
    result = core.cds(rows, scenarios=["s"] * len(rows), variants=variants)
    base, other = [
        [np.array(row) / max(map(abs, row)) for row in part if any(row)] for part in (rows[:half], rows[half:])
    ]
    if not base or not other:
        assert result.status == "not_evaluable"
        return

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        return 1.0 - float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))

    assert result.value == pytest.approx(np.mean([distance(a, b) for a in base for b in other]), abs=1e-9)
    if len(base) > 1:
        pairs = [distance(a, b) for i, a in enumerate(base) for b in base[:i]]
        assert result.noise_floor == pytest.approx(np.mean(pairs), abs=1e-9)
    assert 0.0 <= result.value <= 2.0


def test_a_scenario_weighs_its_variants_alike_and_scenarios_weigh_alike() -> None:
    rows = [
        ("s", "base", [1, 0]), ("s", "a", [0, 1]), ("s", "a", [0, 1]), ("s", "a", [0, 1]), ("s", "b", [1, 0]),
        ("t", "base", [1, 0]), ("t", "b", [1, 0]),
    ]  # fmt: skip
    scenarios, variants, embeddings = zip(*rows, strict=True)
    result = core.cds(embeddings, scenarios=scenarios, variants=variants)
    assert result.value == pytest.approx(0.25)
    assert {name: (one.value, one.n_scenarios) for name, one in result.by_variant.items()} == {
        "a": (1.0, 1),
        "b": (0.0, 2),
    }
    assert (result.worst[0].scenario, result.worst[0].variant) == ("s", "a")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"embeddings": [], "scenarios": [], "variants": []}, "no_outputs"),
        ({"embeddings": [None, None]}, "unscored"),
        ({"embeddings": [[1, 0], None]}, "no_counterfactual"),
        ({"embeddings": [[1, 0], [1, 0]], "scenarios": ["s", "t"]}, "no_counterfactual"),
        ({"embeddings": [[1, 0], [1, 0]], "refused": [1, 1]}, "all_refused"),
    ],
)
def test_distance_without_evidence_is_not_evaluable(options: dict[str, Any], reason: str) -> None:
    result = core.cds(**{"scenarios": ["s", "s"], "variants": ["base", "a"]} | options)
    assert (result.status, result.reason, result.band) == ("not_evaluable", reason, None)


@pytest.mark.parametrize("rows", [[[1, 0], [1, 0, 0]], [[1, 0], [float("nan"), 0]], [[1, 0], [float("inf"), 1]]])
def test_embeddings_that_cannot_be_compared_are_refused(rows: Any) -> None:
    with pytest.raises(UndefinedError):
        core.cds(rows, scenarios=["s", "s"], variants=["base", "a"])


def test_very_large_and_very_small_vectors_have_a_direction_too() -> None:
    result = core.cds([[1e300, 0], [0, 1e-300]], scenarios=["s", "s"], variants=["base", "a"])
    assert result.value == pytest.approx(1.0)


def random_service(rng: np.random.Generator, n: int = 40) -> dict[str, Any]:
    return {
        "refused": rng.integers(0, 2, n).tolist(),
        "scenarios": [f"s{i % 5}" for i in range(n)],
        "variants": [("base", "a", "b")[i] for i in rng.integers(0, 3, n)],
        "token_count": rng.integers(0, 300, n).tolist(),
        "helpfulness": [None if x < 1.5 else float(x) for x in rng.uniform(1, 5, n)],
    }


@pytest.mark.parametrize("seed", range(8))
def test_service_agrees_with_a_plain_computation(seed: int) -> None:
    data = random_service(np.random.default_rng(seed))
    values = []
    for scenario in sorted(set(data["scenarios"])):
        rows = [i for i, name in enumerate(data["scenarios"]) if name == scenario]
        groups = sorted({data["variants"][i] for i in rows})
        rates, lengths, ratings = [], [], []
        for group in groups:
            mine = [i for i in rows if data["variants"][i] == group]
            rates.append(np.mean([data["refused"][i] for i in mine]))
            answered = [i for i in mine if not data["refused"][i]]
            lengths += [np.mean([data["token_count"][i] for i in answered])] if answered else []
            rated = [data["helpfulness"][i] for i in answered if data["helpfulness"][i] is not None]
            ratings += [np.mean(rated)] if rated else []
        if len(groups) < 2:
            continue
        parts = [max(rates) - min(rates)]
        parts += [min(np.std(lengths) / np.mean(lengths), 1.0)] if len(lengths) > 1 else []
        parts += [(max(ratings) - min(ratings)) / 4] if len(ratings) > 1 else []
        values.append(np.mean(parts))
    result = core.dsi(**data, sampling=FAST)
    assert result.value == pytest.approx(np.mean(values), abs=1e-9)
    assert result.worst == pytest.approx(max(values), abs=1e-9)


def test_the_order_of_rows_and_replicates_plays_no_part_in_service() -> None:
    data = random_service(np.random.default_rng(1))
    order = np.random.default_rng(2).permutation(40)
    turned = {name: [values[i] for i in order] for name, values in data.items()}
    assert plain(core.dsi(**data, sampling=FAST)) == plain(core.dsi(**turned, sampling=FAST))


def test_equal_service_of_few_replicates_has_a_noise_floor_as_high_as_itself() -> None:
    rng = np.random.default_rng(3)
    n = 200 * 3 * 5
    result = core.dsi(
        rng.random(n) < 0.3,
        scenarios=np.repeat([f"s{i}" for i in range(200)], 15),
        variants=np.tile(np.repeat(["base", "a", "b"], 5), 200),
        sampling=FAST,
    )
    assert result.band == "fail"  # chance alone
    assert result.excess == pytest.approx(0.0, abs=0.03)
    assert result.excess_interval is not None
    assert result.excess_interval.low <= 0.0 <= result.excess_interval.high


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"refused": [], "scenarios": [], "variants": []}, "no_outputs"),
        ({"refused": [None, None]}, "unscored"),
        ({"refused": [0, None]}, "low_coverage"),
        ({"refused": [0, 0], "variants": ["base", "base"]}, "no_matched_set"),
        ({"refused": [1, 1]}, "all_refused"),
    ],
)
def test_service_without_evidence_is_not_evaluable(options: dict[str, Any], reason: str) -> None:
    result = core.dsi(**{"scenarios": ["s", "s"], "variants": ["base", "a"]} | options)
    assert (result.status, result.reason, result.band) == ("not_evaluable", reason, None)
    plain(result)


@pytest.mark.parametrize(
    "options",
    [
        {"refused": [0, 2]},
        {"refused": [0, 0.5]},
        {"helpfulness": [0, 3]},
        {"helpfulness": [3, 5.1]},
        {"token_count": [-1, 3]},
        {"token_count": [1]},
        {"variants": ["base"]},
        {"caps": {"rrd": 0.0, "rld": 1.0, "hsd": 4.0}},
    ],
)
def test_service_refuses_what_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(UndefinedError):
        core.dsi(**{"refused": [0, 0], "scenarios": ["s", "s"], "variants": ["base", "a"]} | options)


@pytest.mark.parametrize(
    ("contexts", "labels", "reason"),
    [
        ([None, None], ["male", "male"], "no_outputs"),
        (["nurse"] * 2, [None, "male"], "low_coverage"),
        ([], [], "no_outputs"),
    ],
)
def test_amplification_without_evidence_is_not_evaluable(contexts: Any, labels: Any, reason: str) -> None:
    result = core.sar(contexts, labels, baselines={"nurse": {"male": 0.5}}, taxonomy="gender")
    assert (result.status, result.reason, result.band) == ("not_evaluable", reason, None)
    assert result.pairs_without_outputs in ((), ("nurse/male",))
    plain(result)


def test_a_context_without_outputs_is_named_and_left_out_of_the_mean() -> None:
    result = core.sar(
        ["nurse"] * 10,
        ["female"] * 10,
        baselines={"nurse": {"female": 0.5}, "cook": {"female": 0.5}},
        taxonomy="gender",
    )
    assert (result.value, result.n_pairs, result.pairs_without_outputs) == (pytest.approx(2.0), 1, ("cook/female",))


def test_answers_that_never_vary_still_leave_room_for_doubt() -> None:
    scenarios = [f"s{i}" for i in range(20)]
    result = core.sar(
        ["nurse"] * 20, ["female"] * 20, baselines={"nurse": {"female": 1.0}}, taxonomy="gender", scenarios=scenarios
    )
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == (pytest.approx(0.025 ** (1 / 20)), pytest.approx(1.0))
