"""Agreement of raters: published values, and what disagreement does to the judge's figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.inference.agreement import krippendorff_alpha, label_noise, rater_agreement

NAN = float("nan")

# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, sections A (two values), B (five values) and C (four
# observers, missing ratings), with the alphas printed there; * is no rating. Further digits: krippendorff 0.8 (PyPI).
PUBLISHED = [
    (("0100000010", "1110010000"), 0.095, 0.09523809523809534),
    (("aabbdcccedda", "babbbccceddd"), 0.692, 0.6919642857142858),
    (("123321412***", "1233224125*3", "*3332342251*", "12332441251*"), 0.743, 0.743421052631579),
]


def ratings_of(raters: tuple[str, ...]) -> np.ndarray:
    return np.array(
        [[NAN if vote == "*" else float(ord(vote)) for vote in votes] for votes in zip(*raters, strict=True)]
    )


def votes_of(ratings: np.ndarray) -> np.ndarray:
    values = np.unique(ratings[~np.isnan(ratings)])
    return np.stack([(ratings == value).sum(axis=1) for value in values], axis=1)


@pytest.mark.parametrize(("raters", "printed", "exact"), PUBLISHED)
def test_alpha_is_the_published_one(raters: tuple[str, ...], printed: float, exact: float) -> None:
    ratings = ratings_of(raters)
    alpha = krippendorff_alpha(votes_of(ratings))
    assert round(alpha, 3) == printed
    assert alpha == pytest.approx(exact)
    found = rater_agreement(ratings, rng=np.random.default_rng(0))
    assert found.alpha == pytest.approx(exact)
    assert found.low is not None
    assert found.high is not None
    assert found.low < exact < found.high


def test_a_small_table_by_hand() -> None:
    # Units 11, 00, 01: n = 6, n0 = n1 = 3. Disagreement (0 + 0 + 2)/6 = 1/3, expected 2*3*3/(6*5) = 3/5, alpha 1 - 5/9.
    found = rater_agreement([[1, 1], [0, 0], [0, 1], [1, NAN], [NAN, NAN]], rng=np.random.default_rng(0))
    assert found.alpha == pytest.approx(4 / 9)
    assert found.disagreement == pytest.approx(1 / 3)
    assert (found.n_units, found.n_paired_units, found.n_ratings) == (4, 3, 7)
    assert found.single_vote_share == pytest.approx(0.25)


@pytest.mark.parametrize("ratings", [[[1, NAN], [NAN, 0]], [[1, 1], [1, 1]], [[NAN, NAN]]])
def test_what_cannot_be_told_apart_has_no_alpha(ratings: list[list[float]]) -> None:
    found = rater_agreement(ratings, rng=np.random.default_rng(0))
    assert found.status == "undefined"
    assert (found.alpha, found.low, found.high) == (None, None, None)
    with pytest.raises(UndefinedError):
        krippendorff_alpha(votes_of(np.array(ratings, float)) if not np.isnan(ratings).all() else [[0, 0]])


def test_perfect_agreement_of_few_units_is_no_certainty() -> None:
    few, many = (rater_agreement([[0, 0], [1, 1]] * n, rng=np.random.default_rng(0)) for n in (5, 500))
    assert few.alpha == many.alpha == few.high == 1.0
    assert few.low is not None
    assert many.low is not None
    assert few.low < 0.6
    assert 0.98 < many.low < 1.0


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, NAN]), min_size=3, max_size=3), min_size=2, max_size=40))
def test_alpha_knows_neither_the_order_of_units_and_raters_nor_the_names_of_values(rows: list[list[float]]) -> None:
    ratings = np.array(rows)
    found = rater_agreement(ratings, resamples=100, rng=np.random.default_rng(0))
    other = rater_agreement(7.0 - ratings[::-1, ::-1], resamples=100, rng=np.random.default_rng(0))
    assert found.status == other.status
    if found.alpha is not None:
        assert other.alpha == pytest.approx(found.alpha)
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.alpha <= found.high
        assert found.low < found.high


def test_the_same_seed_gives_the_same_interval() -> None:
    ratings = np.random.default_rng(1).integers(0, 2, (60, 3)).astype(float)
    first, again = (rater_agreement(ratings, rng=np.random.default_rng(3)) for _ in range(2))
    assert first == again


def test_label_noise_halves_what_a_judge_can_show() -> None:
    # e = .25: D = 2 e (1-e) = .375; one vote a label and even classes leave 1 - 2 e of J.
    noise = label_noise(0.40, disagreement=0.375, votes_per_unit=[1] * 10, positive_share=0.5)
    assert noise.vote_error == pytest.approx(0.25)
    assert noise.attenuation == pytest.approx(0.5)
    assert noise.youden_j_without_noise == pytest.approx(0.8)
    assert noise.floor_on_labels == pytest.approx(0.1)


def test_raters_who_agree_take_nothing_off() -> None:
    noise = label_noise(0.7, disagreement=0.0, votes_per_unit=[2, 3], positive_share=0.2)
    assert (noise.label_error, noise.attenuation, noise.youden_j_without_noise) == (0.0, 1.0, 0.7)


def test_more_votes_a_label_take_less_off_and_a_tie_gains_nothing() -> None:
    errors = [
        label_noise(0.5, disagreement=0.18, votes_per_unit=[k], positive_share=0.4).label_error for k in (1, 2, 3, 5)
    ]
    assert errors[0] == pytest.approx(0.1)
    assert errors[1] == pytest.approx(errors[0])
    assert errors[2] == pytest.approx(3 * 0.01 * 0.9 + 0.001)
    assert errors[3] < errors[2]  # type: ignore[operator]


@pytest.mark.parametrize(("disagreement", "share"), [(0.5, 0.5), (0.7, 0.5), (0.18, 0.09), (0.18, 0.95)])
def test_noise_that_no_error_rate_explains_is_undefined(disagreement: float, share: float) -> None:
    noise = label_noise(0.5, disagreement=disagreement, votes_per_unit=[1], positive_share=share)
    assert noise.status == "undefined"
    assert noise.youden_j_without_noise is None


@given(st.floats(0, 0.49), st.floats(0, 1), st.floats(-1, 1), st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_attenuation_lies_between_0_and_1(d: float, share: float, j: float, votes: list[int]) -> None:
    noise = label_noise(j, disagreement=d, votes_per_unit=votes, positive_share=share)
    if noise.attenuation is not None:
        assert 0 < noise.attenuation <= 1


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("youden_j", {"youden_j": 1.5}),
        ("disagreement", {"disagreement": -0.1}),
        ("positive_share", {"positive_share": 2.0}),
        ("votes_per_unit", {"votes_per_unit": []}),
        ("votes_per_unit", {"votes_per_unit": [1, 0]}),
    ],
)
def test_what_is_no_label_set_is_refused(field: str, arguments: dict[str, object]) -> None:
    valid = {"youden_j": 0.5, "disagreement": 0.1, "votes_per_unit": [1], "positive_share": 0.5}
    with pytest.raises(UndefinedError) as error:
        label_noise(**{**valid, **arguments})  # type: ignore[arg-type]
    assert error.value.field == field


def test_too_few_resamples_are_refused() -> None:
    with pytest.raises(UndefinedError):
        rater_agreement([[0, 1], [1, 1]], resamples=10, rng=np.random.default_rng(0))


@pytest.mark.slow
def test_j_on_noisy_labels_is_what_the_formula_says() -> None:
    rng, n, error, sens, spec = np.random.default_rng(20_261_129), 400_000, 0.12, 0.85, 0.8
    truth = rng.random(n) < 0.3
    raters = rng.choice([1, 2, 3], n)
    votes = truth[:, None] ^ (rng.random((n, 3)) < error)
    present = np.arange(3) < raters[:, None]
    for_it = (votes & present).sum(axis=1)
    label = np.where(2 * for_it == raters, rng.random(n) < 0.5, 2 * for_it > raters)
    flagged = rng.random(n) < np.where(truth, sens, 1 - spec)
    on_labels = flagged[label].mean() - flagged[~label].mean()
    both = raters >= 2
    noise = label_noise(
        float(on_labels), disagreement=float((votes[both, 0] != votes[both, 1]).mean()), votes_per_unit=raters,
        positive_share=float(label.mean()),
    )  # fmt: skip
    assert noise.vote_error == pytest.approx(error, abs=0.003)
    assert noise.label_error == pytest.approx(float((label != truth).mean()), abs=0.003)
    assert noise.youden_j_without_noise == pytest.approx(sens + spec - 1, abs=0.01)
    assert on_labels < 0.85 * (sens + spec - 1)


@pytest.mark.slow
def test_the_interval_of_alpha_covers() -> None:
    def drawn(rng: np.random.Generator, n: int) -> np.ndarray:
        truth = rng.random(n) < 0.3
        votes = (truth[:, None] ^ (rng.random((n, 3)) < 0.1)).astype(float)
        votes[rng.random((n, 3)) < 0.2] = NAN
        return votes

    rng = np.random.default_rng(20_261_129)
    truth = rater_agreement(drawn(rng, 400_000), resamples=100, rng=rng).alpha
    assert truth is not None
    covered = 0
    for _ in range(500):
        found = rater_agreement(drawn(rng, 150), resamples=400, rng=rng)
        covered += (found.low or 0) <= truth <= (found.high or 0)
    assert covered / 500 > 0.91
