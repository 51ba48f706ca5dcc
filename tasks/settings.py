"""What the environment decides: where records and cached answers are kept."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import platformdirs
from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Environment variables with the prefix ``ASSAY_``.

    Attributes
    ----------
    data_dir : Path
        Records without a path of their own go to ``records/`` in it.
    cache_dir : Path
        Judges' answers, by fingerprint and text digest; safe to delete.
    tracking_uri : str or None
        MLflow's address, also read from ``MLFLOW_TRACKING_URI``; ``none`` switches tracking off. None: a SQLite
        database in `data_dir`.
    """

    model_config = SettingsConfigDict(env_prefix="ASSAY_", frozen=True)

    data_dir: Path = Path(platformdirs.user_data_dir("assay"))
    cache_dir: Path = Path(platformdirs.user_cache_dir("assay"))
    tracking_uri: str | None = Field(
        default=None, validation_alias=AliasChoices("ASSAY_TRACKING_URI", "MLFLOW_TRACKING_URI")
    )

    @property
    def records_dir(self) -> Path:
        """Folder of the records that were written without ``-o``."""
        return self.data_dir / "records"

    @property
    def pending_dir(self) -> Path:
        """Folder of the notes on records that wait to be uploaded."""
        return self.data_dir / "pending"


@cache
def settings() -> Settings:
    """Return the settings, read once."""
    return Settings()
