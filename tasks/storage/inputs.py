"""Input files: what the arguments of a command name, on this machine or in object storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import InputError, Problem
from tasks.storage.address import S3Url, is_s3, place_of
from tasks.storage.local import local_files, unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that was named, found in a folder, or matched a pattern.

    Attributes
    ----------
    path : Path
        On this machine; of an object, its copy in the cache.
    name : str
        As shown in messages.
    reader : str
        Which reader opens it.
    origin : str or None
        Where an object is, with its version; None for a file.
    lease : object
        Keeps an object's copy in the cache.
    """

    path: Path
    name: str
    reader: str = "table"
    origin: str | None = None
    lease: object = field(default=None, repr=False, compare=False)

    @property
    def uri(self) -> str:
        """Where the file is and who reads it, as records name it."""
        place = self.origin or str(self.path.resolve())
        return place if self.reader == "table" else f"{self.reader}:{place}"


def find_inputs(arguments: Sequence[str], readers: Sequence[str]) -> list[InputFile]:
    """Turn ``[READER:]PLACE`` arguments (files, folders, patterns, ``s3://``) into files, in a fixed order.

    Objects are downloaded into the cache.

    Raises
    ------
    InputError
        All arguments that name no readable file.
    UnreachableError
        Object storage cannot be reached.
    """
    problems: list[Problem] = []
    found: list[InputFile] = []
    for argument in arguments:
        reader, place = _split_reader(argument, readers)
        try:
            found += _inputs(place, argument, reader)
        except InputError as error:
            problems += error.problems
    seen = set()
    for item in found:
        key = item.path.resolve()
        if key in seen:
            problems.append(Problem(source=item.name, message="is named twice; each file counts once"))
        seen.add(key)
        if (reason := unreadable(item.path)) is not None:
            problems.append(Problem(source=item.name, message=reason))
    if problems:
        raise InputError(problems)
    return found


def _split_reader(argument: str, readers: Sequence[str]) -> tuple[str, str]:
    prefix, colon, rest = argument.partition(":")
    return (prefix, rest) if colon and prefix in readers else ("table", argument)


def _inputs(place: str, argument: str, reader: str) -> list[InputFile]:
    if is_s3(place):
        from tasks.storage import s3

        return fetched(s3.find(S3Url.parse(place)), reader)
    place_of(place)  # refuses other schemes
    return [InputFile(path=item, name=str(item), reader=reader) for item in local_files(place, argument)]


def fetched(urls: Sequence[S3Url], reader: str = "table") -> list[InputFile]:
    """Download objects, each with the version that was found.

    Raises
    ------
    InputError
        Those that are not there, have changed since, or may not be read; or all together exceed the cache.
    UnreachableError
        The service cannot be reached or breaks off.
    """
    from tasks.storage import s3

    return [
        InputFile(path=copy.path, name=str(url.latest), reader=reader, origin=str(copy.url), lease=copy.lease)
        for url, copy in zip(urls, s3.fetch(urls), strict=True)
    ]
