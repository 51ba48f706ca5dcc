"""The words that data files may use: column names, states, category names (DESIGN: data contracts)."""

from __future__ import annotations

STATES = ("judge_error", "target_error", "blocked", "refused", "limit", "unscored", "missing")
"""Why a cell has no score. When several reasons meet in one unit, the first in this order is counted."""

SCORED = "scored"

ANSWERED_STATES = frozenset({"blocked", "refused"})
"""States that describe the target's answer: the judge may well have scored it. The others exclude a score."""

MAX_CATEGORIES = 24
"""A unit's flags, gaps and turn stratum fit one 64-bit key."""

SCORE_COLUMNS = frozenset(
    {
        "trace_id", "turn", "attempt", "state", "cluster", "judge", "judge_fingerprint", "target",
        "rationale", "text",
    }
)  # fmt: skip
"""Columns of a wide score or detection table that are not a category."""

GOLDEN_COLUMNS = frozenset(
    {"trace_id", "turn", "attempt", "category", "label", "cluster", "text", "rater", "rationale", "target"}
)
"""Columns of a golden table that are neither a category (wide form) nor a slice."""


def category_name(text: str) -> str:
    """Return the name of a category: hyphens, where files may have underscores.

    Examples
    --------
    >>> category_name(" self_harm ")
    'self-harm'
    """
    return text.strip().replace("_", "-")
