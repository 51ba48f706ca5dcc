from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.fairness.bands import BANDS, Bands

# Seed 003: upper ends of pass, watch and flag belong to them; for ODE the lower ends do.
EDGES = [
    ("ode", 0.75, "pass", "watch"),
    ("ode", 0.50, "watch", "flag"),
    ("ode", 0.25, "flag", "fail"),
    ("sar", 0.80, "pass", "under_representation"),
]
UPPER = {
    "rsi": (0.2164, 0.3607, 0.5771),
    "cds": (0.10, 0.25, 0.40),
    "hsi": (0.05, 0.10, 0.20),
    "dsi": (0.05, 0.15, 0.25),
}


@pytest.mark.parametrize(("metric", "edge", "at", "below"), EDGES)
def test_a_lower_edge_belongs_to_the_band_above_it(metric: str, edge: float, at: str, below: str) -> None:
    assert (BANDS[metric].of(edge), BANDS[metric].of(edge - 1e-9)) == (at, below)


@pytest.mark.parametrize(("metric", "edges"), UPPER.items())
def test_an_upper_edge_belongs_to_the_band_below_it(metric: str, edges: tuple[float, ...]) -> None:
    bands = BANDS[metric]
    assert bands.edges == pytest.approx(edges, abs=5e-5)
    for edge, name, above in zip(bands.edges, bands.names, bands.names[1:], strict=False):
        assert (bands.of(edge), bands.of(edge + 1e-9)) == (name, above)


def test_rounding_of_the_last_digit_moves_no_value_over_an_edge() -> None:
    assert BANDS["hsi"].of(0.1 + 0.1 + 1e-17) == "flag"
    assert BANDS["cds"].of(0.30000000000000004 - 0.2) == "pass"


@given(st.sampled_from(sorted(BANDS)), st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_probabilities_of_bands_are_shares_of_one(metric: str, confidence: list[float]) -> None:
    bands = BANDS[metric]
    found = bands.probabilities(sorted(confidence)[: len(bands.edges)])
    assert list(found) == list(bands.names)
    assert all(0.0 <= share <= 1.0 for share in found.values())
    assert sum(found.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"edges": (0.1,)},
        {"edges": (0.2, 0.1), "names": ("a", "b", "c"), "closed": ("below", "below")},
        {"edges": (float("nan"), 0.1), "names": ("a", "b", "c"), "closed": ("below", "below")},
        {"names": ("a", "a")},
    ],
)
def test_bands_that_do_not_fit_together_are_refused(changes: dict[str, object]) -> None:
    given = {"names": ("a", "b"), "edges": (0.5,), "closed": ("below",)} | changes
    if changes == {"edges": (0.1,)}:
        given["names"] = ("a", "b", "c")
    with pytest.raises(UndefinedError):
        Bands(metric_version="x/1", scale="x", **given)  # type: ignore[arg-type]
