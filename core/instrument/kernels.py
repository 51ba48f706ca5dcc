"""The compiled way to count resamples: the extra ``fast`` (numba), with numpy's figures bit for bit.

Compiled when first used and kept on disk for the next process. Where numba is absent, broken, switched off or
cannot keep what it compiled, there is no kernel and numpy does the work.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from core.instrument.resampling import NO_CLASS, Count, Engine, Ints, RankedTable, Resampled, numpy_counter

WORTH_COMPILING = 1_000_000_000
"""Weights (resamples x traces x categories) from which numba pays for itself: loading it takes 1.3 s of a process, the
first time 1.9 s with compiling, and it saves 1.3 to 3 ns of the 4 to 6 ns that numpy takes a weight."""


def counter(table: RankedTable, resamples: int, engine: Engine) -> Count:
    """Choose who counts.

    Parameters
    ----------
    table : RankedTable
    resamples : int
    engine : {'auto', 'numpy', 'numba'}
        ``auto`` takes numba where the work is worth it or the kernel is there already; ``numba`` takes it
        whenever it can be had.
    """
    work = resamples * len(table.truth) * len(table.categories)
    wanted = engine == "numba" or (engine == "auto" and (work >= WORTH_COMPILING or bool(kernel.cache_info().currsize)))
    compiled = kernel() if wanted else None
    return numpy_counter(table) if compiled is None else _compiled_counter(table, compiled)


@cache
def kernel() -> Callable[..., None] | None:
    """Compile the kernel, or load it as compiled before; None where that cannot be done."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about caches and threads: not the user's concern, numpy is there
            numba: Any = importlib.import_module("numba")
            if numba.config.DISABLE_JIT:
                return None
            compiled: Callable[..., None] = numba.njit(SIGNATURE, cache=True)(_count)
            return compiled
    except Exception:  # noqa: BLE001 (whatever is wrong with numba, numpy gives the same figures)
        return None


def _compiled_counter(table: RankedTable, compiled: Callable[..., None]) -> Count:
    categories = table.categories
    positive, positive_first = _joined([category.positive for category in categories])
    negative, negative_first = _joined([category.negative for category in categories])
    positive_rank, _ = _joined([category.positive_rank for category in categories])
    above, _ = _joined([category.above for category in categories])
    traces = np.concatenate([np.flatnonzero(table.truth == value) for value in (1, 0)])
    ranks = np.array([category.rank[traces] for category in categories], np.int32)
    n = len(table.truth)
    fixed = (
        positive, positive_first, positive_rank, above, negative, negative_first,
        ranks, table.clusters[traces].astype(np.int32), int((table.truth == 1).sum()),
        np.empty(table.n_clusters, np.int32), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n, bool),
    )  # fmt: skip

    def count(drawn: Ints) -> Resampled:
        found = np.zeros((len(drawn), len(categories), 5), np.int64)
        composite = np.zeros((len(drawn), 6), np.int64)
        compiled(drawn, *fixed, found, composite)
        return Resampled(categories=found, composite=composite)

    return count


def _joined(parts: list[Ints]) -> tuple[npt.NDArray[np.int32], Ints]:
    """One array of several, and where each begins and the last ends."""
    first = np.cumsum([0, *(len(part) for part in parts)]).astype(np.int64)
    return np.concatenate(parts).astype(np.int32), first


SIGNATURE = (
    "void(int64[:, ::1], int32[::1], int64[::1], int32[::1], int32[::1], int32[::1], int64[::1], "
    "int32[:, ::1], int32[::1], int64, int32[::1], int64[::1], int64[::1], boolean[::1], "
    "int64[:, :, ::1], int64[:, ::1])"
)


def _count(
    drawn: Any,
    positive: Any,
    positive_first: Any,
    positive_rank: Any,
    above: Any,
    negative: Any,
    negative_first: Any,
    ranks: Any,
    clusters: Any,
    n_positive_traces: int,
    weights: Any,
    positives: Any,
    negatives: Any,
    flagged: Any,
    found: Any,
    composite: Any,
) -> None:
    """Count resamples as `core.instrument.resampling.numpy_counter` does: numba compiles this."""
    n_categories = len(positive_first) - 1
    for b in range(len(drawn)):
        weights[:] = 0
        for g in range(drawn.shape[1]):
            weights[drawn[b, g]] += 1
        lacks_class = False
        flagged[: len(clusters)] = False
        for c in range(n_categories):
            first, n = positive_first[c], positive_first[c + 1] - positive_first[c]
            total = 0
            for i in range(n):
                total += weights[positive[first + i]]
                positives[i] = total
            n_positive = total
            first_negative, total = negative_first[c], 0
            for i in range(negative_first[c + 1] - first_negative):
                negatives[i] = total
                total += weights[negative[first_negative + i]]
            negatives[negative_first[c + 1] - first_negative] = total
            n_negative = total
            found[b, c, 2], found[b, c, 4] = n_positive, n_negative
            if n_positive == 0 or n_negative == 0:
                found[b, c, 0] = NO_CLASS
                lacks_class = True
                continue
            best = 0
            for i in range(n):  # without the place of the maximum the loop is vectorised
                best = max(best, positives[i] * n_negative - negatives[above[first + i]] * n_positive)
            rank = -1
            if best > 0:
                i = 0
                while positives[i] * n_negative - negatives[above[first + i]] * n_positive != best:
                    i += 1
                rank = positive_rank[first + i]
                found[b, c, 1], found[b, c, 3] = positives[i], negatives[above[first + i]]
            found[b, c, 0] = rank
            for i in range(len(clusters)):
                flagged[i] |= ranks[c, i] <= rank
        if lacks_class:
            continue
        for first, last, is_positive in ((0, n_positive_traces, True), (n_positive_traces, len(clusters), False)):
            n_right, weight_right, weight_all = 0, 0, 0
            for i in range(first, last):
                right = 1 if flagged[i] == is_positive else 0
                n_right += right
                weight_right += right * weights[clusters[i]]
                weight_all += weights[clusters[i]]
            side = 0 if is_positive else 1
            composite[b, 2 * side], composite[b, 2 * side + 1] = weight_right, weight_all
            composite[b, 4 + side] = n_right
