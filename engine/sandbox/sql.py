"""Read-only SQL over a cache, for people at the dashboard: limited in memory, time and size of the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pandas as pd

from engine.core.errors import CacheError, InvalidInput
from engine.sandbox.run import Allowance, LimitExceeded, run_limited
from engine.store.identity import Identity
from engine.store.schema import COLUMN_NOTES

_CHILD = Path(__file__).with_name("sql_child.py")
ALLOWANCE = Allowance(memory_bytes=1 << 30, cpu_seconds=8, wall_seconds=10, output_bytes=64 << 20)
MAX_ROWS = 10_000
MAX_BYTES = 8 << 20
MAX_QUERY = 20_000


@dataclass(frozen=True, eq=False)
class Answer:
    """Rows of a query, at most `MAX_ROWS`; `more` says that the query had more than these."""

    frame: pd.DataFrame
    types: tuple[str, ...]
    more: bool


def ask(path: Path, sql: str, allowance: Allowance = ALLOWANCE, *, of: Identity | None = None) -> Answer:
    """Run one SELECT over a cache file in a child process.

    of : identity of the file that is meant. A cache published since then does not answer in its place.

    Raises `InvalidInput` for a query that is refused or wrong, `LimitExceeded` for one that takes too much, and
    `CacheError` if the file is not, or does not stay, the one that is meant.
    """
    if not sql.strip():
        raise InvalidInput("query", "a SELECT", "nothing")
    if len(sql) > MAX_QUERY:
        raise InvalidInput("query", f"at most {MAX_QUERY:,} characters", f"{len(sql):,}")
    request = {"sql": sql, "max_rows": MAX_ROWS, "max_bytes": MAX_BYTES}
    try:
        file = path.open("rb")
    except OSError as error:
        raise CacheError("the cache file is gone; reload the page") from error
    meant = Identity.of(file) if of is None else of
    with file, _whole(file, path, meant), run_limited(_CHILD, request, file, allowance) as output:
        try:
            told = json.load(output)
            head, rows = told["head"], told["rows"]
            columns = _distinct([str(name)[:200] for name in head["columns"]])
            frame = pd.DataFrame(rows, columns=columns)
            return Answer(frame, tuple(str(kind)[:200] for kind in head["types"]), bool(head["more"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise LimitExceeded("the answer could not be read") from error


@contextmanager
def _whole(file: IO[bytes], path: Path, meant: Identity) -> Iterator[None]:
    """The child opens the file by its name, so the name must mean this file from beginning to end."""

    def check() -> None:
        if Identity.of(file) != meant or not meant.is_at(path):
            raise CacheError("the cache was replaced in the meantime; reload the page and ask again")

    check()
    yield
    check()


def schema() -> pd.DataFrame:
    """One row per column of the cache: table, column, type, what it is."""
    return pd.DataFrame(COLUMN_NOTES, columns=["table", "column", "type", "meaning"])


def _distinct(names: list[str]) -> list[str]:
    """`a`, `a (2)`: a query may give two columns one name, a table may not."""
    taken: set[str] = set()
    for index, name in enumerate(names):
        number, distinct = 1, name
        while distinct in taken:
            number += 1
            distinct = f"{name} ({number})"
        names[index] = distinct
        taken.add(distinct)
    return names
