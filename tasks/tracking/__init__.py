"""MLflow's one door: runs for records, the registry of instruments, and references back to records.

Nothing here is imported before a command needs it, and MLflow itself only inside `connection.connected`, because
importing it takes seconds.
"""

from __future__ import annotations

from tasks.tracking.delivery import Tracked, sync, track
from tasks.tracking.outbox import Promotion, Upload, promotion
from tasks.tracking.references import fetch, is_reference
from tasks.tracking.uris import tracking_uri

__all__ = [
    "Promotion",
    "Tracked",
    "Upload",
    "fetch",
    "is_reference",
    "promotion",
    "sync",
    "track",
    "tracking_uri",
]
