"""The guarantee itself: how often the interval of each metric holds the truth, at 50 prompts of 5 replicates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.fairness.counterfactual import cds
from core.fairness.harm import hsi
from core.fairness.representation import ode, rsi
from core.fairness.scenario_bootstrap import Sampling
from core.fairness.service import dsi
from core.fairness.stereotype import sar

PROMPTS, REPLICATES, REPETITIONS = 50, 5, 1000
RATIONALE = "a reference that the simulation knows"
Case = tuple[float, Callable[[np.random.Generator, Sampling], Any]]

pytestmark = pytest.mark.slow


def prompts(n: int = PROMPTS, replicates: int = REPLICATES) -> np.ndarray:
    return np.repeat(np.char.add("p", np.arange(n).astype(str)), replicates)


def shares_of_prompts(rng: np.random.Generator, mean: np.ndarray, correlation: float, n: int) -> np.ndarray:
    """Each prompt's own distribution, around the population's."""
    drawn = rng.dirichlet(mean * (1.0 / correlation - 1.0), size=n)
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))


def labels(rng: np.random.Generator, mean: np.ndarray, correlation: float) -> np.ndarray:
    shares = shares_of_prompts(rng, mean, correlation, PROMPTS)
    codes = (rng.random((PROMPTS, REPLICATES, 1)) > np.cumsum(shares, axis=1)[:, None, :]).sum(axis=2)
    return np.array([f"g{i}" for i in range(len(mean))])[np.minimum(codes, len(mean) - 1)].ravel()


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    m = (p + q) / 2
    return sum(0.5 * a * math.log2(a / c) for x in (p, q) for a, c in zip(x, m, strict=True) if a > 0)


def skew(mean: list[float], reference: list[float] | None, correlation: float) -> Case:
    p = np.array(mean)
    q = np.full(len(p), 1 / len(p)) if reference is None else np.array(reference)
    names = [f"g{i}" for i in range(len(p))]
    truth = divergence(p, q) / max(divergence(one, q) for one in np.eye(len(p)))
    shares = dict(zip(names, q.tolist(), strict=True))

    def run(rng: np.random.Generator, sampling: Sampling) -> Any:
        return rsi(
            labels(rng, p, correlation),
            reference=shares,
            reference_kind="real_world",
            rationale=RATIONALE,
            taxonomy=names,
            scenarios=prompts(),
            sampling=sampling,
        )

    return truth, run


def diversity(mean: list[float], correlation: float) -> Case:
    p = np.array(mean)
    truth = -sum(x * math.log2(x) for x in mean) / math.log2(len(mean))
    names = [f"g{i}" for i in range(len(mean))]

    def run(rng: np.random.Generator, sampling: Sampling) -> Any:
        return ode(labels(rng, p, correlation), taxonomy=names, scenarios=prompts(), sampling=sampling)

    return truth, run


def embedded(rng: np.random.Generator, n: int, angle: float, noise: float) -> np.ndarray:
    """Base and counterfactual vectors, turned apart by an angle of each prompt's own."""
    turned = np.abs(rng.normal(angle, angle / 2, n))
    directions = np.zeros((n, 2, 1, 6))
    directions[:, 0, 0, 0] = 1.0
    directions[:, 1, 0, 0], directions[:, 1, 0, 1] = np.cos(turned), np.sin(turned)
    return np.asarray((directions + rng.normal(0, noise, (n, 2, REPLICATES, 6))).reshape(-1, 6))


def distance(angle: float, noise: float) -> Case:
    def run(rng: np.random.Generator, sampling: Sampling, n: int = PROMPTS) -> Any:
        vectors = embedded(rng, n, angle, noise)
        variants = np.tile(np.repeat(["base", "female"], REPLICATES), n)
        return cds(vectors, scenarios=prompts(n, 2 * REPLICATES), variants=variants, sampling=sampling)

    many = run(np.random.default_rng(1), Sampling(resamples=100), n=100_000)
    return many.value, run


def harm(rate: float, correlation: float) -> Case:
    def run(rng: np.random.Generator, sampling: Sampling) -> Any:
        of_prompt = shares_of_prompts(rng, np.array([rate, 1 - rate]), correlation, PROMPTS)[:, :1]
        harmful = rng.random((PROMPTS, REPLICATES)) < of_prompt
        scores = np.where(harmful, rng.uniform(0.3, 0.9, harmful.shape), 0.0).ravel()
        return hsi({"hate_speech": scores}, scenarios=prompts(), sampling=sampling)

    return rate * 0.6, run


def amplification(shares: list[float], baselines: list[float], correlation: float) -> Case:
    truth = math.exp(np.mean(np.log(np.array(shares) / np.array(baselines))))
    names = [f"c{i}" for i in range(len(shares))]
    contexts = np.repeat(np.resize(names, PROMPTS), REPLICATES)
    declared = {name: {"female": share} for name, share in zip(names, baselines, strict=True)}

    def run(rng: np.random.Generator, sampling: Sampling) -> Any:
        mean = np.resize(shares, PROMPTS)
        c = 1.0 / correlation - 1.0
        of_prompt = rng.beta(mean * c, (1 - mean) * c)[:, None]
        female = rng.random((PROMPTS, REPLICATES)) < of_prompt
        found = np.where(female, "female", "male").ravel()
        return sar(contexts, found, baselines=declared, scenarios=prompts(), sampling=sampling)

    return truth, run


def service(refusals: tuple[float, float], lengths: tuple[float, float]) -> Case:
    def run(rng: np.random.Generator, sampling: Sampling, n: int = PROMPTS) -> Any:
        mean = rng.uniform(80, 300, (n, 1, 1)) * np.array(lengths)[None, :, None]
        refused = rng.random((n, 2, REPLICATES)) < np.array(refusals)[None, :, None]
        tokens = np.maximum(rng.normal(mean, 30, refused.shape), 1.0)
        helpful = np.clip(np.rint(rng.normal(4, 0.7, refused.shape)), 1, 5)
        return dsi(
            refused.ravel(),
            scenarios=prompts(n, 2 * REPLICATES),
            variants=np.tile(np.repeat(["base", "female"], REPLICATES), n),
            token_count=tokens.ravel(),
            helpfulness=helpful.ravel(),
            sampling=sampling,
        )

    many = run(np.random.default_rng(1), Sampling(resamples=100), n=100_000)
    return many.value, run


CASES: dict[str, Callable[[], Case]] = {
    "rsi, two groups, mild": lambda: skew([0.6, 0.4], None, 0.3),
    "rsi, two groups, strong": lambda: skew([0.8, 0.2], None, 0.3),
    "rsi, three groups": lambda: skew([0.6, 0.3, 0.1], None, 0.05),
    "rsi, three groups, own reference": lambda: skew([0.6, 0.3, 0.1], [0.5, 0.3, 0.2], 0.3),
    "rsi, six groups": lambda: skew([0.25, 0.2, 0.2, 0.15, 0.1, 0.1], None, 0.3),
    "ode, two groups": lambda: diversity([0.8, 0.2], 0.3),
    "ode, three groups": lambda: diversity([0.6, 0.3, 0.1], 0.05),
    "ode, six groups": lambda: diversity([0.25, 0.2, 0.2, 0.15, 0.1, 0.1], 0.3),
    "ode, six groups, strong": lambda: diversity([0.7, 0.1, 0.1, 0.05, 0.03, 0.02], 0.3),
    "cds, small": lambda: distance(0.4, 0.05),
    "cds, large": lambda: distance(0.9, 0.2),
    "hsi, rare": lambda: harm(0.05, 0.1),
    "hsi, clustered": lambda: harm(0.1, 0.4),
    "hsi, frequent": lambda: harm(0.3, 0.1),
    "sar, even": lambda: amplification([0.5] * 5, [0.5] * 5, 0.2),
    "sar, amplified": lambda: amplification([0.9, 0.8, 0.3, 0.6, 0.2], [0.7, 0.5, 0.4, 0.5, 0.3], 0.2),
    "dsi, equal": lambda: service((0.1, 0.1), (1.0, 1.0)),
    "dsi, unequal": lambda: service((0.05, 0.4), (1.0, 0.6)),
}


def coverage(case: Case, repetitions: int) -> float:
    truth, run = case
    held = 0
    for repetition in range(repetitions):
        rng = np.random.default_rng([20261130, repetition])
        interval = run(rng, Sampling(resamples=1000, seed=repetition)).interval
        held += interval.low - 1e-9 <= truth <= interval.high + 1e-9
    return held / repetitions


@pytest.mark.parametrize("name", CASES)
def test_the_interval_holds_the_truth_as_often_as_it_says(name: str) -> None:
    found = coverage(CASES[name](), REPETITIONS)
    error = math.sqrt(0.95 * 0.05 / REPETITIONS)
    assert 0.92 - 2 * error <= found <= 0.97 + 2 * error, f"{name}: {found}"


@pytest.mark.parametrize("k", [2, 3, 6])
def test_where_shares_are_the_references_the_interval_holds_zero_at_least_as_often_as_it_says(k: int) -> None:
    found = coverage(skew([1 / k] * k, None, 0.3), REPETITIONS)
    assert found >= 0.95, found
