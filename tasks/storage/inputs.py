"""Input files: what the arguments of a command name, on this machine or in object storage."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.errors import InputError, Problem
from tasks.storage.address import S3Url, is_s3, place_of
from tasks.storage.local import SUFFIXES, TOOL_SUFFIXES, local_files, unreadable

PLACE_OPTIONS = ("map", "model")
"""Options of readers that name a file or folder (or ``none``); records hold them with their whole paths."""


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
    options : mapping of str to str
        How it is to read.
    renamed : mapping of str to str
        Category of the tool -> category here; they stand in no URI, so a file of a record has none.
    origin : str or None
        Where an object is, with its version; None for a file.
    lease : object
        Keeps an object's copy in the cache.
    """

    path: Path
    name: str
    reader: str = "table"
    options: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    origin: str | None = None
    lease: object = field(default=None, repr=False, compare=False)

    @property
    def uri(self) -> str:
        """Where the file is and who reads it, as records name it."""
        place = self.origin or str(self.path.resolve())
        asked = "".join(f",{name}={value}" for name, value in self.options.items())
        return place if self.reader == "table" else f"{self.reader}{asked}:{place}"

    @property
    def beside(self) -> list[Path]:
        """Files by which it is read: those that its options name, and those of the folders that they name."""
        named = [Path(value) for name, value in self.options.items() if name in PLACE_OPTIONS]
        found = [file for place in named for file in (sorted(place.iterdir()) if place.is_dir() else [place])]
        return [file for file in found if file.is_file()]


def find_inputs(arguments: Sequence[str], readers: Sequence[str]) -> list[InputFile]:
    """Turn ``[READER[,OPTION=VALUE...]:]PLACE`` arguments into files, in a fixed order.

    A place is a file, a folder, a pattern or an ``s3://`` address. Objects are downloaded into the cache.

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
        try:
            reader, options, place = split_reader(argument, readers)
            options = {name: _whole(name, value) for name, value in options.items()}
            found += [replace(item, reader=reader, options=options) for item in _inputs(place, argument, reader)]
        except InputError as error:
            problems += error.problems
    seen = set()
    for item in found:
        if (reason := unreadable(item.path)) is not None:
            problems.append(Problem(source=item.name, message=reason + _misspelt(item.name, readers)))
            continue
        key = item.path.resolve()
        if key in seen:
            problems.append(Problem(source=item.name, message="is named twice; each file counts once"))
        seen.add(key)
    if problems:
        raise InputError(problems)
    return found


def split_reader(argument: str, readers: Sequence[str]) -> tuple[str, dict[str, str], str]:
    """Take an argument, or a recorded URI, apart: reader, its options, place.

    Raises
    ------
    InputError
        An option without a value, or named twice.

    Examples
    --------
    >>> split_reader("inspect,higher-is=worse:run.eval", ["inspect"])
    ('inspect', {'higher-is': 'worse'}, 'run.eval')
    >>> split_reader("s3://bucket/scores.csv", ["inspect"])
    ('table', {}, 's3://bucket/scores.csv')
    """
    prefix, colon, rest = argument.partition(":")
    name, *asked = prefix.split(",")
    if not colon or name not in readers:
        return "table", {}, argument
    options: dict[str, str] = {}
    for item in asked:
        key, _, value = item.partition("=")
        if not key or not value or key in options:
            raise InputError.of(argument, f"{item!r} is not an option of a reader; write {name},OPTION=VALUE:PATH")
        options[key] = value
    return name, options, rest


def _whole(option: str, value: str) -> str:
    """Make the place that an option names independent of the working folder, unless a URI could not hold it."""
    if option not in PLACE_OPTIONS or value == "none" or not Path(value).exists():
        return value
    whole = str(Path(value).resolve())
    return value if "," in whole or ":" in whole else whole


def _misspelt(name: str, readers: Sequence[str]) -> str:
    """Suggest the reader that a file's name may have been meant to begin with."""
    prefix, colon, _ = name.partition(":")
    near = difflib.get_close_matches(prefix.partition(",")[0], readers, n=1) if colon else []
    return f"; did you mean reader {near[0]!r}?" if near else ""


def _inputs(place: str, argument: str, reader: str) -> list[InputFile]:
    suffixes = SUFFIXES if reader == "table" else TOOL_SUFFIXES
    if is_s3(place):
        from tasks.storage import s3

        return fetched(s3.find(S3Url.parse(place), suffixes))
    place_of(place)  # refuses other schemes
    return [InputFile(path=item, name=str(item)) for item in local_files(place, argument, suffixes)]


def fetched(urls: Sequence[S3Url]) -> list[InputFile]:
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
        InputFile(path=copy.path, name=str(url.latest), origin=str(copy.url), lease=copy.lease)
        for url, copy in zip(urls, s3.fetch(urls), strict=True)
    ]
