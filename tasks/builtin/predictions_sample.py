"""The built-in sample of predictions: an invented lender's decisions, for the starter folder.

Applicants differ in what they can repay and not by gender; the invented model scores women a little too low, and one
region has few applicants. Every figure is drawn with a seed, so that the table is the same on any machine.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SEED = 20261129
N_APPLICANTS = 2400


def predictions_sample(n: int = N_APPLICANTS, *, seed: int = SEED) -> pa.Table:
    """Return decisions with columns ``id, gender, region, score, y_pred, y_true``.

    Examples
    --------
    >>> predictions_sample(3).column_names
    ['id', 'gender', 'region', 'score', 'y_pred', 'y_true']
    """
    rng = np.random.default_rng(seed)
    gender = rng.choice(["female", "male"], n)
    region = rng.choice(["north", "south", "islands"], n, p=[0.55, 0.42, 0.03])
    chance = np.clip(rng.beta(3.0, 2.0, n), 0.02, 0.98)
    repaid = rng.random(n) < chance
    score = np.round(np.clip(chance - 0.15 * (gender == "female") + rng.normal(0.0, 0.05, n), 0.01, 0.99), 3)
    return pa.table({
        "id": [f"a{i:04d}" for i in range(n)],
        "gender": gender,
        "region": region,
        "score": score,
        "y_pred": np.where(score >= 0.5, "granted", "refused"),
        "y_true": np.where(repaid, "granted", "refused"),
    })  # fmt: skip
