"""Flows: composition only, and the command line.

Nothing that assay starts reports to anybody: Prefect's analytics and MLflow's telemetry are off unless the environment
says otherwise. This stands here because both read the environment when they are imported.
"""

import os

for _name, _value in (
    ("DO_NOT_TRACK", "1"),
    ("PREFECT_SERVER_ANALYTICS_ENABLED", "false"),
    ("PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT", "false"),
    ("MLFLOW_DISABLE_TELEMETRY", "true"),
    # A temporary server needs about ten seconds, and on a busy machine more than Prefect allows by default.
    ("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120"),
):
    os.environ.setdefault(_name, _value)
