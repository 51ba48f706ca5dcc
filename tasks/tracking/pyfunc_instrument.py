"""A calibrated instrument as an MLflow model, from code: no pickle, and no need of assay where it is served.

MLflow stores this file with the calibration record and runs it when the model is loaded. So it imports nothing of
assay; a test holds its decisions against those that `assay measure` writes.
"""

from __future__ import annotations

import json
import operator
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class Instrument(PythonModel):
    """Turns of scored traces to one decision a trace and category.

    Input: `trace_id`, `turn`, and one column of scores a category; an empty score is missing. Output: one row a trace
    in the order of their first turns: `trace_id`, one boolean a category, `composite`. A trace is flagged when any of
    its turns reaches the threshold; it is null when none does but a score or a turn is missing, never False.
    """

    def load_context(self, context: Any) -> None:
        """Read thresholds from the calibration record."""
        record = json.loads(Path(context.artifacts["calibration"]).read_text(encoding="utf-8"))
        result = record["result"]
        self.thresholds = {name: result["categories"][name]["threshold"] for name in result["composite"]["categories"]}
        self.holes_are_missing = record["spec"].get("turn_scope", "all") != "last"

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:  # noqa: ARG002 (MLflow's signature)
        """Decide; see the class."""
        traces = model_input["trace_id"]
        turns = model_input.groupby(traces, sort=False)["turn"].agg(["min", "max", "nunique"])
        has_hole = (turns["max"] - turns["min"] + 1 != turns["nunique"]) & self.holes_are_missing
        decided = {}
        for name, threshold in self.thresholds.items():
            scores = model_input[name].astype("float64")
            flagged = (scores >= threshold).groupby(traces, sort=False).any()
            missing = scores.isna().groupby(traces, sort=False).any() | has_hole
            decided[name] = flagged.astype("boolean").mask(missing & ~flagged)
        # Null or True is True, null or False is null: pandas' logic of three values.
        decided["composite"] = reduce(operator.or_, decided.values())
        return pd.DataFrame(decided, index=turns.index).rename_axis("trace_id").reset_index()


set_model(Instrument())
