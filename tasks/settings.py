"""What the environment decides: where records and cached answers are kept, how object storage and judges are asked."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import AliasChoices, ByteSize, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from core.errors import InputError, Problem


class Settings(BaseSettings):
    """Environment variables with the prefix ``ASSAY_``; an empty one counts as not set.

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
    judge_base_url : str or None
        Address of the service that judges ask, without credentials, such as ``https://HOST/v1``.
    judge_model : str or None
        The model to ask for, where the rubric names none.
    judge_api_key : SecretStr or None
        The service's key; it goes to `judge_base_url` and nowhere else.
    openai_api_key : SecretStr or None
        From ``OPENAI_API_KEY``; it goes to OpenAI's own service, or one on this machine, and nowhere else.
    judge_rubric : Path or None
        What judge ``llm`` judges by.
    judge_map : Path or None
        Which of the service's categories make up which category, for judge ``openai-moderation``.
    judge_concurrency : int
        Requests at a time.
    judge_requests_per_minute : float or None
        Bound of the rate of requests, repeated ones among them.
    judge_attempts : int
        How often a request is made before it counts as failed.
    judge_timeout : float
        Seconds that one attempt may take as a whole.
    judge_backoff : float
        Seconds before the second attempt; each further wait is twice as long.
    judge_max_wait : float
        Seconds that a wait may last at most, also where the service asks for more.
    judge_allow_http : bool
        Take an address without TLS that is not on this machine.
    workers : str or None
        Who counts and simulates where ``--workers`` is not given: a number of processes, or a Dask scheduler's address.
    notification_block : str or None
        Prefect's block that automations notify people with, ``TYPE/NAME`` as ``prefect block ls`` names it. None:
        automations leave an event, and notify nobody.
    """

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_ignore_empty=True, frozen=True)

    data_dir: Path = Path(platformdirs.user_data_dir("assay"))
    cache_dir: Path = Path(platformdirs.user_cache_dir("assay"))
    tracking_uri: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("ASSAY_TRACKING_URI", "MLFLOW_TRACKING_URI")
    )
    records: str | None = None
    cache_bytes: ByteSize = ByteSize(20_000_000_000)
    s3_timeout: float = Field(default=30.0, gt=0)
    s3_attempts: int = Field(default=4, ge=1, le=20)
    s3_addressing: Literal["path", "virtual"] | None = None
    judge_base_url: str | None = None
    judge_model: str | None = None
    judge_api_key: SecretStr | None = None
    openai_api_key: SecretStr | None = Field(default=None, validation_alias=AliasChoices("OPENAI_API_KEY"))
    judge_rubric: Path | None = None
    judge_map: Path | None = None
    judge_concurrency: int = Field(default=8, ge=1, le=256)
    judge_requests_per_minute: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    judge_attempts: int = Field(default=8, ge=1, le=20)
    judge_timeout: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    judge_backoff: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    judge_max_wait: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    judge_allow_http: bool = False
    workers: str | None = None
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

    @property
    def kept_dir(self) -> Path:
        """Folder of the notes on records that object storage did not take, and that are kept in `records_dir`."""
        return self.data_dir / "kept"


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
