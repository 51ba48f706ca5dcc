"""Two releases in all six metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.fairness.scenario_bootstrap import Sampling
from core.fairness.text_comparison import OutputsComparison, compare_outputs
from core.records import build, canonical, plain
from tests.core.fairness.outputs import columns, spec, table

FEW: dict[str, Any] = {"resamples": 200}


def compared(before: dict[str, list[Any]], after: dict[str, list[Any]], **changes: Any) -> OutputsComparison:
    return compare_outputs(spec(**(FEW | changes)), table(before), table(after))


def test_a_release_compared_with_itself_has_not_moved() -> None:
    found = compared(columns(), columns())
    assert set(found.metrics) == {"rsi.gender", "ode.gender", "sar.gender", "cds", "hsi", "dsi"}
    for change in found.metrics.values():
        assert (change.difference, change.p_value, change.verdict) == (0.0, 1.0, "within_noise")
        assert change.direction is None
        assert change.replicate_noise is not None


def test_a_release_that_refuses_one_group_is_worse_in_service_and_only_there() -> None:
    before = columns(1, scenarios=40, refused_base=0.0, refused_variant=0.0)
    after = columns(2, scenarios=40, refused_base=0.0, refused_variant=0.7)
    found = compared(before, after, resamples=2000)
    service = found.metrics["dsi"]
    assert (service.verdict, service.direction) == ("increase", "worse")
    assert service.interval is not None
    assert service.interval.low > 0.0
    assert service.p_value is not None
    assert 0.0 < service.p_value <= service.p_adjusted <= 0.05  # type: ignore[operator]
    assert all(
        change.verdict in ("within_noise", "no_evidence_of_change")
        for name, change in found.metrics.items()
        if name != "dsi"
    )


def test_less_diversity_is_worse_though_the_value_falls() -> None:
    found = compared(columns(1, scenarios=60), columns(2, scenarios=60, male=0.97), resamples=2000)
    assert (found.metrics["ode.gender"].verdict, found.metrics["ode.gender"].direction) == ("decrease", "worse")
    assert (found.metrics["rsi.gender"].verdict, found.metrics["rsi.gender"].direction) == ("increase", "worse")


def test_a_difference_up_to_the_noise_floor_is_no_movement_whatever_its_p() -> None:
    before = columns(1, scenarios=40, refused_base=0.0, refused_variant=0.0)
    after = columns(2, scenarios=40, refused_base=0.0, refused_variant=0.7)
    found = compared(before, after, noise_floor=0.9).metrics["dsi"]
    assert found.p_value is not None
    assert found.p_value < 0.05
    assert found.verdict == "within_noise"


def test_what_one_release_lacks_is_named_and_too_little_in_common_is_not_compared() -> None:
    before, after = columns(scenarios=8), columns(scenarios=12)
    found = compared(before, after)
    assert (found.n_scenarios, found.only_candidate) == (8, ("s08", "s09", "s10", "s11"))
    assert found.n_only_baseline == 0
    few = compared(columns(scenarios=4), after)
    assert {change.verdict for change in few.metrics.values()} == {"not_comparable"}
    assert all(change.reason for change in few.metrics.values())
    none = compared({name: [f"x{x}" if name == "scenario_id" else x for x in v] for name, v in before.items()}, after)
    assert {change.verdict for change in none.metrics.values()} == {"not_comparable"}


def test_a_metric_that_one_release_cannot_show_is_not_compared() -> None:
    after = {name: values for name, values in columns().items() if name != "embedding"}
    found = compared(columns(), after)
    assert found.metrics["cds"].verdict == "not_comparable"
    assert "candidate" in found.metrics["cds"].reason
    assert found.metrics["dsi"].verdict == "within_noise"


def test_without_replicates_there_is_no_replicate_noise() -> None:
    found = compared(columns(replicates=1), columns(replicates=1))
    assert {change.replicate_noise for change in found.metrics.values()} == {None}
    assert {change.noise_floor for change in found.metrics.values()} == {0.02}


def test_the_order_of_rows_changes_nothing_and_the_record_reads_back() -> None:
    data = columns(2)
    order = np.random.default_rng(3).permutation(120)
    turned = {name: [values[i] for i in order] for name, values in data.items()}
    one, other = compared(columns(1), data), compared(columns(1), turned)
    assert canonical(one) == canonical(other)
    assert plain(build(OutputsComparison, plain(one))) == plain(one)


@pytest.mark.slow
def test_two_equal_models_are_seldom_called_different() -> None:
    called = 0
    for seed in range(150):
        found = compared(columns(2 * seed), columns(2 * seed + 1), seed=seed, noise_floor=0.0)
        called += any(change.verdict in ("increase", "decrease") for change in found.metrics.values())
    assert called <= 150 * 0.05 + 2 * np.sqrt(150 * 0.05 * 0.95)


def test_sampling_of_the_spec_decides() -> None:
    assert spec(confidence_level=0.9, resamples=300, seed=5).sampling() == Sampling(
        confidence_level=0.9, resamples=300, seed=5
    )
