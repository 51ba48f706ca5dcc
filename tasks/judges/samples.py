"""Several verdicts on one text: their mean, how far they lie apart, and what one that failed does."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from core.data.vocabulary import STATES
from tasks.judges import Verdict

SPREAD_DECIMALS = 3


def combined(samples: Sequence[Verdict]) -> Verdict:
    """Return the verdict that several samples make: the mean of each score.

    The rationale is that of the first, after the largest standard deviation (n - 1) of any category. One sample that
    failed leaves the whole without scores, since a mean of fewer is another judge's; of several failures the first in
    the order of `core.data.vocabulary.STATES` is told.

    Parameters
    ----------
    samples : sequence of Verdict
        At least one; those that are scored have the same categories.

    Examples
    --------
    >>> one, two = (Verdict(scores={"hate": score}, rationale="why") for score in (0.25, 0.75))
    >>> combined([one, two])
    Verdict(scores={'hate': 0.5}, rationale='[2 samples, largest spread hate 0.354] why', state=None)
    >>> combined([one, Verdict(scores={}, rationale="no", state="unscored")]).state
    'unscored'
    """
    failures = [sample for sample in samples if sample.state is not None]
    if failures:
        return min(failures, key=lambda failure: STATES.index(str(failure.state)))
    first = samples[0]
    if len(samples) == 1:
        return first
    scores = {name: statistics.fmean(sample.scores[name] for sample in samples) for name in first.scores}
    spreads = {name: statistics.stdev(sample.scores[name] for sample in samples) for name in first.scores}
    widest = max(spreads, key=lambda name: spreads[name])
    told = f"[{len(samples)} samples, largest spread {widest} {spreads[widest]:.{SPREAD_DECIMALS}f}]"
    return Verdict(scores=scores, rationale=f"{told} {first.rationale}")


def variances(texts: Iterable[Sequence[Verdict]]) -> Mapping[str, float]:
    """Return each category's variance of repeated judging: the mean over texts of the variance (n - 1) of samples.

    Parameters
    ----------
    texts : iterable of sequences of Verdict
        The samples of each text; a text with fewer than two, or with one that failed, says nothing.

    Returns
    -------
    Mapping of str to float
        Empty when no text says anything.

    Examples
    --------
    >>> one, two = (Verdict(scores={"hate": score}, rationale="") for score in (0.25, 0.75))
    >>> variances([[one, two], [one, one]])
    {'hate': 0.0625}
    """
    known = [samples for samples in texts if len(samples) > 1 and all(sample.state is None for sample in samples)]
    if not known:
        return {}
    return {
        name: statistics.fmean(statistics.variance(sample.scores[name] for sample in samples) for samples in known)
        for name in known[0][0].scores
    }
