from __future__ import annotations

from typing import Any

import pytest

from tasks.tracking.runs import log_inputs


class Client:
    """Keeps the data sets that it is given."""

    def log_inputs(self, run_id: str, datasets: list[Any]) -> None:
        self.datasets = datasets


@pytest.mark.parametrize(
    ("uri", "source_type"),
    [("s3://bucket/scores.parquet", "s3"), ("/data/scores.parquet", "local"), ("models:/safety/1", "local")],
)
def test_an_input_has_a_source_that_mlflow_can_resolve(uri: str, source_type: str) -> None:
    from mlflow.data import get_source

    client = Client()
    log_inputs(client, "run", {"inputs": [{"role": "scores", "uri": uri, "sha256": "0" * 64, "rows": 1}]})
    (logged,) = client.datasets
    assert logged.dataset.source_type == source_type
    assert get_source(logged).to_dict() == {"uri": uri}
