"""How far the raters of a golden set agree, and what their disagreement does to the judge's figures (SPEC 13.6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UndefinedError
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level, normal_quantile, wilson_limits
from core.inference.prevalence import DETECTION_FLOOR

RESAMPLES = 2_000
"""Resamples of the units for the interval of alpha."""

BLOCK = 1 << 22
"""Weights (resamples times distinct units) that are drawn at once: 32 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAgreement:
    """Agreement of several raters of the same units (SPEC 13.6).

    Attributes
    ----------
    status : str
        ``measured``; ``undefined`` when no unit has two ratings, or when all paired ratings are one value: there is
        then nothing that could have been told apart.
    alpha : float or None
        Krippendorff's alpha for nominal values, at most 1; 0 is agreement by chance.
    low, high : float or None
        Percentile bootstrap over units, of positive width.
    disagreement : float or None
        Observed share of pairs of ratings of one unit that differ, in [0, 1].
    n_units, n_paired_units : int
        Units with a rating, and with two or more.
    n_ratings : int
    single_vote_share : float or None
        Share of the rated units whose label rests on one rating; None without a unit.
    resamples : int
        Resamples in which alpha exists.
    """

    status: Literal["measured", "undefined"]
    alpha: float | None
    low: float | None
    high: float | None
    disagreement: float | None
    n_units: int
    n_paired_units: int
    n_ratings: int
    single_vote_share: float | None
    resamples: int


def krippendorff_alpha(votes: ArrayLike) -> float:
    """Krippendorff's alpha for nominal values, from votes counted by unit and value (SPEC 13.6).

    alpha = 1 - (n - 1) sum_u (m_u^2 - sum_c v_uc^2)/(m_u - 1) / (n^2 - sum_c n_c^2), over the units with m_u >= 2
    ratings, n_c = sum_u v_uc, n = sum_c n_c.

    Parameters
    ----------
    votes : array_like of int, shape (n_units, n_values)
        v_uc, ratings of unit u with value c, at least 0. Units with fewer than two ratings do not count.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    UndefinedError
        If the votes are no such table, no unit has two ratings, or all paired ratings have one value.

    References
    ----------
    Krippendorff (2011), Computing Krippendorff's Alpha-Reliability.

    Examples
    --------
    >>> first, second = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    >>> votes = [[(a == 0) + (b == 0), (a == 1) + (b == 1)] for a, b in zip(first, second)]
    >>> round(krippendorff_alpha(votes), 3)
    0.095
    """
    table = _vote_table(votes)
    paired = table[table.sum(axis=1) >= 2]
    alpha = _alphas(paired, np.ones((1, len(paired))))[0]
    if math.isnan(alpha):
        raise UndefinedError("votes", table.shape, "alpha needs a unit with two ratings, and two values among those")
    return float(alpha)


def rater_agreement(
    ratings: ArrayLike,
    *,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    resamples: int = RESAMPLES,
    rng: np.random.Generator,
) -> RaterAgreement:
    """Agreement of raters with its interval (SPEC 13.6).

    Parameters
    ----------
    ratings : array_like of float, shape (n_units, n_raters)
        Any numbers as values (0 and 1 for labels); NaN where a rater did not rate.
    confidence_level : float
        In (0, 1).
    resamples : int
        At least 100.
    rng : numpy.random.Generator

    Returns
    -------
    RaterAgreement
        Where every resample says the same (no pair of ratings differs, say) the ends are the alphas of the Wilson
        limits of the disagreement, on the number of paired units.

    Raises
    ------
    UndefinedError
        If ``ratings`` is not two-dimensional, the level outside (0, 1) or ``resamples`` below 100.

    References
    ----------
    Krippendorff (2011), Computing Krippendorff's Alpha-Reliability; Zapf et al. (2016), BMC Med. Res. Methodol. 16:93.

    Examples
    --------
    >>> votes = [[1, 1], [1, 1], [0, 0], [0, 0], [0, 1], [0, 0], [1, float("nan")]]
    >>> found = rater_agreement(votes * 20, rng=np.random.default_rng(1))
    >>> round(found.alpha, 3), round(found.disagreement, 3), round(found.single_vote_share, 3)
    (0.66, 0.167, 0.143)
    """
    check_confidence_level(confidence_level)
    if resamples < 100:
        raise UndefinedError("resamples", resamples, "needs at least 100 resamples")
    table = _votes(np.asarray(ratings, np.float64))
    sizes = table.sum(axis=1)
    paired = table[sizes >= 2]
    n_units, n_ratings = int((sizes >= 1).sum()), int(sizes.sum())
    alpha = float(_alphas(paired, np.ones((1, len(paired))))[0])
    known = not math.isnan(alpha)
    disagreement = _disagreement(paired) if len(paired) else None
    low, high, used = _interval(paired, alpha, confidence_level, resamples, rng) if known else (None, None, 0)
    return RaterAgreement(
        status="measured" if known else "undefined",
        alpha=alpha if known else None,
        low=low,
        high=high,
        disagreement=disagreement,
        n_units=n_units,
        n_paired_units=len(paired),
        n_ratings=n_ratings,
        single_vote_share=float((sizes == 1).sum()) / n_units if n_units else None,
        resamples=used,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNoise:
    """What raters' disagreement does to Youden's J (SPEC 13.7).

    Attributes
    ----------
    status : str
        ``derived``; ``undefined`` where no rate of errors gives this disagreement and this share of positives.
    vote_error : float or None
        Chance that one vote is wrong, in [0, .5).
    label_error : float or None
        Chance that the golden label, the majority of its votes, is wrong, averaged over the set.
    attenuation : float or None
        J on these labels over J on labels without error, in (0, 1].
    youden_j : float
        As measured on these labels.
    youden_j_without_noise : float or None
        youden_j / attenuation, at most 1.
    floor_on_labels : float or None
        J that a judge exactly at the detection floor would show on these labels.
    """

    status: Literal["derived", "undefined"]
    vote_error: float | None
    label_error: float | None
    attenuation: float | None
    youden_j: float
    youden_j_without_noise: float | None
    floor_on_labels: float | None


def label_noise(
    youden_j: float,
    *,
    disagreement: float,
    votes_per_unit: ArrayLike,
    positive_share: float,
    detection_floor: float = DETECTION_FLOOR,
) -> LabelNoise:
    """Effect of label noise on J, for two-valued labels (SPEC 13.7).

    Votes err independently of each other, of the class and of the judge, with chance e = (1 - sqrt(1 - 2 D)) / 2 from
    the disagreement D of two votes. A label, the majority of its votes, then errs with chance h, and with labels
    positive in a share g of the set, t = (g - h) / (1 - 2 h) of it truly is:
    J on labels = J ((1-h) t/g + (1-h)(1-t)/(1-g) - 1).

    Parameters
    ----------
    youden_j : float
        Measured on the labels, in [-1, 1].
    disagreement : float
        D, in [0, 1].
    votes_per_unit : array_like of int
        Votes behind each label, at least 1 each; a tie is broken by chance.
    positive_share : float
        g, in [0, 1].
    detection_floor : float
        In [0, 1].

    Returns
    -------
    LabelNoise
        Undefined at D >= .5 (votes at chance), and where g or 1 - g is not above h. Shown, never used to correct:
        raters who err together, or with the judge, make it wrong in either direction.

    Raises
    ------
    UndefinedError
        If an argument is outside its range, or there is no unit.

    References
    ----------
    Lachenbruch (1966), Technometrics 8:657-662; Frenay & Verleysen (2014), IEEE Trans. Neural Netw. 25:845-869.

    Examples
    --------
    >>> noise = label_noise(0.60, disagreement=0.18, votes_per_unit=[1, 1, 1, 1], positive_share=0.5)
    >>> round(noise.vote_error, 3), round(noise.attenuation, 3), round(noise.youden_j_without_noise, 3)
    (0.1, 0.8, 0.75)
    """
    votes = np.asarray(votes_per_unit, np.int64)
    for field, value, least in (
        ("youden_j", youden_j, -1.0),
        ("disagreement", disagreement, 0.0),
        ("positive_share", positive_share, 0.0),
        ("detection_floor", detection_floor, 0.0),
    ):
        if not least <= value <= 1.0:
            raise UndefinedError(field, value, f"must lie in [{least:g}, 1]")
    if not votes.size or votes.min() < 1:
        raise UndefinedError("votes_per_unit", votes[:5].tolist(), "every label has at least one vote")
    undefined = LabelNoise(
        status="undefined", vote_error=None, label_error=None, attenuation=None, youden_j=youden_j,
        youden_j_without_noise=None, floor_on_labels=None,
    )  # fmt: skip
    if disagreement >= 0.5:
        return undefined
    vote_error = (1.0 - math.sqrt(1.0 - 2.0 * disagreement)) / 2.0
    label_error = _majority_error(votes, vote_error)
    if min(positive_share, 1.0 - positive_share) <= label_error:
        return undefined
    true_share = (positive_share - label_error) / (1.0 - 2.0 * label_error)
    right = (1.0 - label_error) * (true_share / positive_share + (1.0 - true_share) / (1.0 - positive_share))
    attenuation = min(1.0, right - 1.0)
    return LabelNoise(
        status="derived",
        vote_error=vote_error,
        label_error=label_error,
        attenuation=attenuation,
        youden_j=youden_j,
        youden_j_without_noise=min(1.0, youden_j / attenuation),
        floor_on_labels=detection_floor * attenuation,
    )


def _majority_error(votes: NDArray[np.int64], error: float) -> float:
    """Average chance that the majority of a label's votes is wrong."""
    from scipy.special import betainc

    sizes, counts = np.unique(votes, return_counts=True)
    # A tie broken by chance makes an even number of votes exactly as good as one vote fewer.
    odd = np.where(sizes % 2 == 0, sizes - 1, sizes)
    wrong = betainc((odd + 1) / 2.0, (odd + 1) / 2.0, error)
    return float(counts @ wrong / counts.sum())


def _vote_table(votes: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(votes, np.float64)
    if table.ndim != 2 or not (np.isfinite(table) & (table >= 0.0) & (table == np.floor(table))).all():
        raise UndefinedError("votes", table.shape, "needs a table of counts, one row a unit and one column a value")
    return table


def _votes(ratings: NDArray[np.float64]) -> NDArray[np.float64]:
    if ratings.ndim != 2:
        raise UndefinedError("ratings", ratings.shape, "needs one row a unit and one column a rater")
    values = np.unique(ratings[~np.isnan(ratings)])
    return np.stack([(ratings == value).sum(axis=1) for value in values], axis=1).astype(np.float64) if len(
        values
    ) else np.zeros((len(ratings), 1))  # fmt: skip


def _differing(paired: NDArray[np.float64]) -> NDArray[np.float64]:
    sizes = paired.sum(axis=1)
    return np.asarray((sizes**2 - (paired**2).sum(axis=1)) / np.maximum(sizes - 1.0, 1.0))


def _disagreement(paired: NDArray[np.float64]) -> float:
    return float(_differing(paired).sum() / paired.sum())


def _alphas(paired: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Alpha for each row of weights (how often each unit is there); NaN where it does not exist."""
    totals = weights @ paired
    n = totals.sum(axis=1)
    expected = n**2 - (totals**2).sum(axis=1)
    observed = weights @ _differing(paired)
    found = np.full(len(weights), math.nan)
    np.divide(observed * (n - 1.0), expected, out=found, where=expected > 0.0)
    return np.asarray(1.0 - found)


def _interval(
    paired: NDArray[np.float64], alpha: float, confidence_level: float, resamples: int, rng: np.random.Generator
) -> tuple[float, float, int]:
    tail = (1.0 - confidence_level) / 2.0
    # Units with equal votes are alike: drawing how often each kind comes up is drawing units.
    kinds, counts = np.unique(paired, axis=0, return_counts=True)
    share, rows = counts / counts.sum(), max(1, BLOCK // len(kinds))
    drawn = [
        _alphas(kinds, rng.multinomial(len(paired), share, size=min(rows, resamples - start)).astype(np.float64))
        for start in range(0, resamples, rows)
    ]
    found = np.concatenate(drawn)
    found = found[~np.isnan(found)]
    low, high = (float(end) for end in np.quantile(found, [tail, 1.0 - tail]))
    if low == high:
        # Units that are all alike give one alpha in every resample.
        low, high = _alpha_limits(paired, confidence_level)
    return min(low, alpha), max(high, alpha), len(found)


def _alpha_limits(paired: NDArray[np.float64], confidence_level: float) -> tuple[float, float]:
    """Alpha at the Wilson limits of the disagreement, each paired unit taken as one trial."""
    totals = paired.sum(axis=0)
    n = totals.sum()
    expected = float(n**2 - (totals**2).sum()) / float(n * (n - 1.0))
    least, most = wilson_limits(min(1.0, _disagreement(paired)), len(paired), z=normal_quantile(confidence_level))
    return 1.0 - most / expected, 1.0 - least / expected
