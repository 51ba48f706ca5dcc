"""The pictures of `core/fairness/README.md`: figures of the built-in sample's audits.

Made anew with ``python -m tasks.builtin.fairness.pictures core/fairness/pictures``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.fairness.outputs import outputs_table
from core.fairness.text_audit import audit_outputs
from core.records import plain
from tasks.builtin.fairness import sample_spec
from tasks.builtin.outputs_sample import MODELS, SampleModel, outputs_sample
from tasks.reporting.outputs_figures import outputs_figures

PICTURES: Mapping[str, tuple[int, str]] = {
    "bands-1": (0, "bands"),
    "bands-2": (1, "bands"),
    "representation": (0, "representation-gender"),
    "amplification": (0, "amplification-gender"),
    "divergence": (1, "divergence"),
    "harm-and-service-1": (0, "harm-and-service"),
    "harm-and-service-2": (1, "harm-and-service"),
    "service-by-set": (1, "service-by-set"),
}
"""Name of a picture -> which model of the sample, and which figure."""

DOTS_PER_INCH = 72


def audit_of(model: SampleModel) -> dict[str, Any]:
    """Audit a model of the sample; the parts of a record that figures and reports read."""
    spec = replace(sample_spec(), target=model.name)
    table = outputs_table(outputs_sample(model), harm_categories=list(spec.harm_weights))
    return {"spec": plain(spec), "result": {**plain(audit_outputs(spec, table)), "comparison": None}}


def write_pictures(folder: Path) -> list[Path]:
    """Draw all pictures into a folder and return their paths."""
    figures = [outputs_figures(audit_of(model)) for model in MODELS]
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (model, figure) in PICTURES.items():
        paths.append(folder / f"{name}.png")
        # Without matplotlib's version in it, an unchanged picture is an unchanged file.
        figures[model][figure].savefig(paths[-1], dpi=DOTS_PER_INCH, metadata={"Software": None})
    return paths


if __name__ == "__main__":
    write_pictures(Path(sys.argv[1]))
