"""SQLite files that somebody else made: opened so that nothing in them runs, and nothing is changed.

A database may hold views and triggers, which run when a table of their name is read or written; a crafted file may make
a query run for ever, or one value fill the memory. Here tables are read and nothing else, within bounds.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from core.data.problems import quoted
from core.errors import InputError
from tasks.storage import InputFile

MAX_VALUE = 2**20
"""Bytes of one value that is read: SQLite holds several hundred of them while it sorts."""

_MAGIC = b"SQLite format 3\0"
_STEPS = 100_000  # of SQLite's virtual machine, between two looks at the clock
_PAGE_CACHE = 16_000  # KiB; what exceeds it is sorted in temporary files
_SECONDS = 120.0
_SECONDS_A_MEGABYTE = 1.0
_SETTINGS = (
    "query_only = ON",
    "trusted_schema = OFF",  # functions with effects are not called from the file's schema
    "cell_size_check = ON",
    "mmap_size = 0",
    f"cache_size = -{_PAGE_CACHE}",
    "temp_store = FILE",
)


class Database:
    """A SQLite file, for reading alone.

    Parameters
    ----------
    file : InputFile
    tables : mapping of str to sequence of str
        The tables that will be read, with the columns that they must have.

    Raises
    ------
    InputError
        It is not SQLite, has changes that are not yet in it, has triggers, or has not those tables.
    """

    def __init__(self, file: InputFile, tables: Mapping[str, Sequence[str]]) -> None:
        self._file = file
        with file.path.open("rb") as head:
            if head.read(len(_MAGIC)) != _MAGIC:
                raise InputError.of(file.name, "is not a SQLite database")
        for suffix in ("-wal", "-journal"):
            beside = Path(f"{file.path}{suffix}")
            if beside.exists() and beside.stat().st_size:
                raise InputError.of(
                    file.name,
                    f"changes that are not yet in it lie in {beside.name}; close the program that writes it, or copy "
                    f"the database with sqlite3's .backup",
                )
        self._refuse_what_runs(tables)
        for table, columns in tables.items():
            self._refuse_other_columns(table, columns)

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query; texts that are not UTF-8 hold lone surrogates.

        Raises
        ------
        InputError
            The file is damaged, a value is too long, or the query takes longer than its size explains.
        """
        try:
            with closing(self._opened()) as connection:
                yield from connection.execute(query, parameters)
        except sqlite3.DataError:
            raise InputError.of(self._file.name, f"holds a value of over {MAX_VALUE} bytes") from None
        except UnicodeDecodeError:  # of SQLite's own message, which quotes a damaged schema
            raise InputError.of(self._file.name, "cannot be read: its schema is damaged") from None
        except sqlite3.Error as error:
            what = "takes longer to read than its size explains; is it crafted?"
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
                what = f"cannot be read: {quoted(str(error), 120)}"
            raise InputError.of(self._file.name, what) from None

    def _opened(self) -> sqlite3.Connection:
        address = f"file:{quote(str(self._file.path.resolve()))}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        end = time.monotonic() + _SECONDS + _SECONDS_A_MEGABYTE * self._file.path.stat().st_size / 2**20
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        return connection

    def _refuse_what_runs(self, tables: Mapping[str, Sequence[str]]) -> None:
        found = set()
        for kind, name, sql in self.rows("SELECT type, name, sql FROM sqlite_master"):
            if kind == "trigger":
                raise InputError.of(self._file.name, f"has a trigger ({quoted(name)}), which the tool does not make")
            if name not in tables:
                continue
            if kind != "table" or not isinstance(sql, str) or sql.split(maxsplit=2)[:2] != ["CREATE", "TABLE"]:
                raise InputError.of(self._file.name, f"{quoted(name)} is not a plain table but a {_kind(kind)}")
            found.add(name)
        if absent := [table for table in tables if table not in found]:
            raise InputError.of(self._file.name, f"has no table {', '.join(absent)}")

    def _refuse_other_columns(self, table: str, columns: Sequence[str]) -> None:
        found = self.rows("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,))
        plain = {name for name, hidden in found if not hidden}
        if any(isinstance(name, str) and name.lower() == "rowid" for name in plain):
            raise InputError.of(self._file.name, f"table {table} has a column rowid, which hides the rows' numbers")
        if absent := [column for column in columns if column not in plain]:
            raise InputError.of(self._file.name, f"table {table} has no plain column {', '.join(absent)}")


def _kind(kind: Any) -> str:
    return str(kind) if kind in ("view", "index") else "virtual or damaged one"
