"""What the environment decides: where records and cached answers are kept, and how object storage is asked."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import AliasChoices, ByteSize, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from core.errors import InputError, Problem


class Settings(BaseSettings):
    """Environment variables with the prefix ``ASSAY_``.

    Attributes
    ----------
    data_dir : Path
        Records without a path of their own go to ``records/`` in it.
    cache_dir : Path
        Judges' answers, by fingerprint and text digest, and in ``s3/`` copies of objects; safe to delete.
    tracking_uri : SecretStr or None
        MLflow's address, also read from ``MLFLOW_TRACKING_URI``; ``none`` switches tracking off. None: a SQLite
        database in `data_dir`.
    records : str or None
        Where records without a path of their own go instead: a folder, or ``s3://bucket/prefix``.
    cache_bytes : int
        Bound of all copies of objects together; ``20GB`` and the like are understood.
    s3_timeout : float
        Seconds without an answer of object storage after which an attempt is given up.
    s3_attempts : int
        How often a request to object storage is made before it counts as failed.
    s3_addressing : {'path', 'virtual'}, optional
        Whether the bucket stands in the path or in the host name. Default: in the path where ``AWS_ENDPOINT_URL`` (or
        ``AWS_ENDPOINT_URL_S3``) is set, else as boto3 decides.
    notification_block : str or None
        Prefect's block that automations notify people with, ``TYPE/NAME`` as ``prefect block ls`` names it. None:
        automations leave an event, and notify nobody.
    """

    model_config = SettingsConfigDict(env_prefix="ASSAY_", frozen=True)

    data_dir: Path = Path(platformdirs.user_data_dir("assay"))
    cache_dir: Path = Path(platformdirs.user_cache_dir("assay"))
    tracking_uri: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("ASSAY_TRACKING_URI", "MLFLOW_TRACKING_URI")
    )
    records: str | None = None
    cache_bytes: ByteSize = ByteSize(20_000_000_000)
    s3_timeout: float = Field(default=60.0, gt=0)
    s3_attempts: int = Field(default=4, ge=1, le=20)
    s3_addressing: Literal["path", "virtual"] | None = None
    notification_block: str | None = Field(default=None, pattern=r"[a-z0-9-]+/[a-zA-Z0-9-]+")

    @field_validator("data_dir", "cache_dir", mode="before")
    @classmethod
    def _is_local(cls, value: object) -> object:
        if "://" in str(value):
            raise ValueError("must be a folder on this machine; only ASSAY_RECORDS may be an address")
        return value

    @property
    def records_dir(self) -> Path:
        """Folder of the records that were written without ``-o``, unless `records` names another place."""
        return self.data_dir / "records"

    @property
    def pending_dir(self) -> Path:
        """Folder of the notes on records that wait to be uploaded."""
        return self.data_dir / "pending"


@cache
def settings() -> Settings:
    """Return the settings, read once.

    Raises
    ------
    InputError
        All variables whose values cannot be used.
    """
    try:
        return Settings()
    except ValidationError as error:
        raise InputError(
            Problem(source="_".join(["ASSAY", *map(str, item["loc"])]).upper(), message=item["msg"])
            for item in error.errors(include_input=False)
        ) from None
