"""Whose scores are these? Checking judge and target against what the instrument was calibrated with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from core.errors import InputError
from core.instrument.spec import UNKNOWN, JudgeIdentity


def judge_of_scores(
    judges: Collection[str],
    fingerprints: Collection[str],
    expected_judge: JudgeIdentity | None,
    *,
    accept: bool,
    where: str,
    expected: str,
) -> tuple[JudgeIdentity, str, bool]:
    """Tell which judge gave the scores.

    Parameters
    ----------
    judges, fingerprints : collection of str
        Distinct values of the scores' columns ``judge`` and ``judge_fingerprint``.
    expected_judge : JudgeIdentity or None
        The judge that they should be from.
    accept : bool
        Take another judge, or several, all the same.
    where, expected : str
        For messages.

    Returns
    -------
    judge : JudgeIdentity
    source : {'scores', 'assumed'}
        ``assumed`` when the scores do not name their judge.
    accepted : bool
        Whether the judge is another one and was accepted.

    Raises
    ------
    InputError
        Scores of several judges, or of another than expected, that were not accepted.
    """
    names, prints = sorted(judges), sorted(fingerprints)
    if not names and not prints:
        return expected_judge or JudgeIdentity(), "assumed", False
    several = len(names) > 1 or len(prints) > 1
    if several and not accept:
        shown = ", ".join((*names, *(text[:12] for text in prints)))
        raise InputError.of(where, f"holds scores of several judges ({shown}); one instrument is one judge: split it")
    judge = JudgeIdentity.of(" + ".join(names)) if names else JudgeIdentity()
    if several:
        judge = JudgeIdentity(name=" + ".join(names) or "several", version=UNKNOWN)
    elif prints:
        judge = replace(judge, fingerprint=prints[0])
    agrees = expected_judge is None or (judge.agrees_with(expected_judge) and not several)
    if not agrees and not accept:
        raise InputError.of(where, (
            f"the scores are from {_shown(judge)}, {expected} judge is {_shown(expected_judge)}: its error rates do "
            "not hold for another judge; calibrate that one, or pass --accept-judge to measure all the same (recorded)"
        ))  # fmt: skip
    if agrees and expected_judge is not None:
        judge = _completed(judge, expected_judge)
    return judge, "scores", not agrees


def _completed(judge: JudgeIdentity, known: JudgeIdentity) -> JudgeIdentity:
    """Fill in what only the instrument knows of a judge that agrees with it."""
    return JudgeIdentity(
        name=known.name if judge.name == UNKNOWN else judge.name,
        version=known.version if judge.version == UNKNOWN else judge.version,
        fingerprint=judge.fingerprint,
    )


def _shown(judge: JudgeIdentity | None) -> str:
    if judge is None:
        return UNKNOWN
    return str(judge) if judge.fingerprint == UNKNOWN else f"{judge} ({judge.fingerprint[:12]})"


def target_of_scores(targets: Collection[str], target: str | None, where: str) -> str | None:
    """Tell which system was measured: as given, else as the scores say.

    Raises
    ------
    InputError
        The scores name several targets, or another one than was given.
    """
    if len(targets) > 1:
        names = ", ".join(sorted(targets)[:5])
        raise InputError.of(where, f"holds scores of several targets ({names}); measure each by itself")
    stated = next(iter(targets), None)
    if target is not None and stated is not None and target != stated:
        raise InputError.of(where, f"the scores are of {stated!r}, but --target says {target!r}")
    return target or stated
