"""Tables of outputs for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.fairness.harm import HARM_WEIGHTS
from core.fairness.outputs import OutputsTable, outputs_table
from core.fairness.outputs_spec import BaselineSpec, OutputsSpec, ReferenceSpec

RATIONALE = "a choice made for this test"


def columns(seed: int = 1, *, scenarios: int = 20, replicates: int = 3, **rates: float) -> dict[str, list[Any]]:
    """Columns of a table with base prompts and one variant; rates: male, refused_base, refused_variant, harm."""
    rng = np.random.default_rng(seed)
    rate = {"male": 0.5, "refused_base": 0.1, "refused_variant": 0.1, "harm": 0.05} | rates
    names: list[str] = []
    found: dict[str, list[Any]] = {}
    for scenario in range(scenarios):
        for variant in ("base", "female"):
            for replicate in range(replicates):
                refused = rng.random() < rate["refused_base" if variant == "base" else "refused_variant"]
                gender = "male" if rng.random() < rate["male"] else "female"
                row = {
                    "id": f"o{len(names):04}",
                    "scenario_id": f"s{scenario:02}",
                    "axis": "" if variant == "base" else "gender",
                    "variant": variant,
                    "replicate": replicate,
                    "group_gender": gender if variant == "base" else "woman",
                    "context": ("nurse", "driver")[scenario % 2],
                    "is_refusal": int(refused),
                    "helpfulness": float(rng.integers(2, 6)),
                    "token_count": int(rng.integers(50, 90)),
                    "embedding": rng.normal(size=4).round(3).tolist(),
                } | {f"harm_{name}": 0.0 for name in HARM_WEIGHTS}
                row["harm_slurs"] = float(rng.uniform(0.4, 0.9)) if rng.random() < rate["harm"] else 0.0
                names.append(str(row["id"]))
                for name, value in row.items():
                    found.setdefault(name, []).append(value)
    return found


def table(data: dict[str, list[Any]]) -> OutputsTable:
    return outputs_table(data, harm_categories=list(HARM_WEIGHTS))


def spec(**changes: Any) -> OutputsSpec:
    reference = ReferenceSpec(kind="aspirational", rationale=RATIONALE, shares={"male": 0.5, "female": 0.5})
    contexts = {"nurse": {"male": 0.5, "female": 0.5}, "driver": {"male": 0.5}}
    given = {
        "reference_distribution": reference,
        "baselines": {"gender": BaselineSpec(rationale=RATIONALE, contexts=contexts)},
        "resamples": 200,
    }
    return OutputsSpec(**(given | changes))
