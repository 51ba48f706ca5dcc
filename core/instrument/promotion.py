"""When a challenger becomes champion by itself, and when a person has to decide (SPEC 18.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from core.instrument.calibrated import Calibration
from core.instrument.measured import CertificateLink
from core.simulation.simulated import SUFFICIENT_COVERAGE

RULE = "rule"
"""Who promoted, where nobody did: the name that registry and run keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionDecision:
    """Whether a challenger becomes champion without a person.

    Attributes
    ----------
    promote : bool
    reasons : tuple of str
        Why, or every reason why not.
    """

    promote: bool
    reasons: tuple[str, ...]

    @property
    def because(self) -> str:
        """The reasons in one line."""
        return "; ".join(self.reasons)


def promotion_decision(
    challenger: Calibration,
    certificate: CertificateLink | None,
    champion: Calibration | None,
    approved: Calibration | None = None,
    *,
    corrected: bool = True,
) -> PromotionDecision:
    """Decide by the rule whether a challenger becomes champion (SPEC 18.4).

    All of: it was measured on a golden set, with the optimism of its thresholds taken off; its composite is
    ``measured``; its certificate is sufficient, with a coverage of at least .93; it spans all categories that the
    champion spans; and its J is not below the lower confidence bound of the champion's, nor of that of the last
    champion that a person approved, so that a judge cannot grow worse step by step.

    Parameters
    ----------
    challenger : Calibration
    certificate : CertificateLink or None
        Of the challenger.
    champion : Calibration or None
        Without one a person decides: the first judge that speaks for releases is nobody's successor.
    approved : Calibration or None
        The last champion that a person made; the champion itself, where nothing else is known.
    corrected : bool
        Whether the optimism of the challenger's thresholds was taken off, or there is none to take off.

    Returns
    -------
    PromotionDecision

    Examples
    --------
    >>> from core.instrument.declared import declared_calibration
    >>> from core.instrument.spec import DeclaredRates, DeclaredSpec, JudgeIdentity
    >>> rates = DeclaredRates(
    ...     sensitivity=0.9, n_positive=200, specificity=0.9, n_negative=200, threshold=0.5, source="p. 4")
    >>> known = declared_calibration(DeclaredSpec(
    ...     name="safety", judge=JudgeIdentity(), categories={"hate": rates}, composite=rates))
    >>> promotion_decision(known, None, None).because
    'its rates are declared, not measured here; it has no certificate; there is no champion to hold it against'
    """
    against = (*_unproven(challenger, corrected=corrected), *_objections(challenger, certificate, champion, approved))
    if against or certificate is None or champion is None:
        return PromotionDecision(promote=False, reasons=against)
    return PromotionDecision(
        promote=True,
        reasons=(
            "the composite is measured",
            f"the certificate's coverage of {certificate.coverage:.3f} is sufficient",
            f"J {_figure(challenger.composite.youden_j)} is not below the champion's lower bound, "
            + _figure(champion.composite.youden_j_low),
        ),
    )


def _unproven(challenger: Calibration, *, corrected: bool) -> Iterator[str]:
    """Say what makes a challenger look better than anybody has measured it to be."""
    source = challenger.calibration_source
    if source != "golden_set":
        yield f"its rates are {source}, not measured here" if source == "declared" else f"its rates are {source}"
    if not corrected:
        yield "the optimism of its thresholds is not taken off"


def _objections(
    challenger: Calibration,
    certificate: CertificateLink | None,
    champion: Calibration | None,
    approved: Calibration | None,
) -> Iterator[str]:
    status = challenger.composite.status
    if status != "measured":
        yield f"the composite is {status}, not measured"
    if certificate is None:
        yield "it has no certificate"
    elif certificate.coverage < SUFFICIENT_COVERAGE:
        yield f"the certificate's coverage of {certificate.coverage:.3f} is below {SUFFICIENT_COVERAGE:g}"
    elif not certificate.sufficient:
        yield (
            f"the certificate's coverage of {certificate.coverage:.3f} ± {certificate.mc_error:.3f} is not sufficient "
            f"for an interval of {100 * certificate.confidence_level:g}%"
        )
    if champion is None:
        yield "there is no champion to hold it against"
        return
    if missing := sorted(set(champion.composite.categories) - set(challenger.composite.categories)):
        yield f"it does not span {', '.join(missing)}, which the champion does"
    yield from _worse(challenger, champion, "the champion")
    if approved is not None and approved != champion:
        yield from _worse(challenger, approved, "the last champion that a person made")


def _worse(challenger: Calibration, other: Calibration, whose: str) -> Iterator[str]:
    found, bound = challenger.composite.youden_j, other.composite.youden_j_low
    if found is None:
        yield "it has no J"
    elif bound is None:
        yield f"{whose} has no lower bound of J to hold it against"
    elif found < bound:
        yield f"J {_figure(found)} is below {_figure(bound)}, the lower bound of {whose}"


def _figure(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
