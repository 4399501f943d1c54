"""Work on what strangers send, in a process of its own that is limited in memory and time and killed on overrun.

The child (`engine/sandbox/child.py`) limits itself before it touches anything foreign, gets one open file and a request
in JSON, no environment and no path of the server, and hands back bytes. What those bytes mean is for the caller to
check: a child that was taken over may return anything.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd
from numpy.typing import NDArray

from engine.core import limits
from engine.core.errors import CacheError, InvalidInput, RouteCalError, UnknownName
from engine.core.types import Progress, silent
from engine.importing import ColumnMapping, RunIdentity
from engine.importing.readers import FORMATS, Limits, Table, read_npz
from engine.sandbox.child import REFUSED
from engine.sandbox.import_child import HEAD
from engine.store.identity import Identity, open_regular
from engine.store.publish import publish_own
from engine.store.record import check_name
from engine.store.schema import COLUMN_NOTES

_CHILD, _IMPORT_CHILD, _PUBLISH_CHILD, _SQL_CHILD = (
    Path(__file__).with_name(name) for name in ("child.py", "import_child.py", "publish_child.py", "sql_child.py")
)
_NO_ROOM = "the server has no room left for this; try again later"
_GLANCE = 0.25
"""Seconds between two looks at a child."""
_slots = threading.BoundedSemaphore(limits.CHILDREN)
UPLOAD_LIMITS = Limits(limits.UPLOAD_BYTES, limits.UPLOAD_ROWS, limits.UPLOAD_COLUMNS)
"""Of a file at a dashboard, on disk and unpacked; `python -m cache_builder import` takes larger ones."""
_ANSWER_LIMITS = Limits(max_bytes=150_000_000, max_rows=max(UPLOAD_LIMITS.max_rows, 1 << 24), max_columns=5_001)
"""What is believed of the child's answer; its head is a row of bytes."""


class LimitExceeded(RouteCalError):
    """The work needed more time or memory than it was given, or broke off."""


class ServerBusy(LimitExceeded):
    """Nothing is wrong with the work: there was no place or no room for it."""


@dataclass(frozen=True)
class Allowance:
    """What a child may use. `memory_bytes` counts address space, of which Python and Arrow take half a gigabyte."""

    memory_bytes: int
    cpu_seconds: int
    wall_seconds: float
    output_bytes: int


UPLOAD_ALLOWANCE = Allowance(memory_bytes=3 << 29, cpu_seconds=20, wall_seconds=30, output_bytes=150_000_000)
PUBLISH_ALLOWANCE = Allowance(memory_bytes=3 << 30, cpu_seconds=40, wall_seconds=60, output_bytes=300_000_000)
SQL_ALLOWANCE = Allowance(memory_bytes=5 << 28, cpu_seconds=12, wall_seconds=20, output_bytes=64 << 20)
"""Of which most is for the start on a busy machine: a query has the seconds that it is given."""


def run_limited(
    script: Path, request: Mapping[str, Any], file: IO[bytes], allowance: Allowance, progress: Progress = silent
) -> IO[bytes]:
    """Run `main(request, file, output)` of a script over an open file; returns what it wrote, from the start.

    `file` must be a real file, not a buffer. Reasons that the script gives come back as `InvalidInput`; overruns and
    crashes as `LimitExceeded`. At most two children work at a time; others wait for their turn.
    progress : called while the child works; what it raises ends the child.
    """
    deadline = time.monotonic() + allowance.wall_seconds
    if not _slots.acquire(timeout=allowance.wall_seconds):
        raise ServerBusy("other viewers keep the server busy; try again in a moment")
    try:
        # Half the time at least, however long the wait for a turn was.
        seconds = max(deadline - time.monotonic(), allowance.wall_seconds / 2)
        output = _scratch_file()
        try:
            status = _run(script, request, file.fileno(), output, allowance, seconds, progress)
            output.seek(0)
            if status == REFUSED:
                raise _reason(output)
            if status != 0:
                raise LimitExceeded(_how_it_ended(status, allowance))
        except BaseException:
            output.close()
            raise
        return output
    finally:
        _slots.release()


def _run(
    script: Path,
    request: Mapping[str, Any],
    file: int,
    output: IO[bytes],
    allowance: Allowance,
    seconds: float,
    progress: Progress,
) -> int:
    order = {"script": str(script), "file": file, "limits": asdict(allowance), "request": dict(request)}
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.DEVNULL,
        pass_fds=[file],
        cwd="/",
        env={"HOME": "/", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
        start_new_session=True,
    )
    try:
        rest: bytes | None = json.dumps(order).encode()
        until = time.monotonic() + seconds
        while process.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(rest, timeout=min(_GLANCE, seconds))
            rest = None  # what is left of it, communicate remembers
            if process.returncode is None and time.monotonic() > until:
                raise LimitExceeded(f"stopped after {allowance.wall_seconds:g} seconds")
            progress(1 - max(until - time.monotonic(), 0) / seconds, "at work")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with whatever it started: the child leads a session of its own
            process.wait()
    return process.returncode


def _reason(output: IO[bytes]) -> RouteCalError:
    """The error that a child described; it is shown as text, never believed further than that."""
    try:
        told = json.loads(output.read(65_536))
        if told["kind"] == "memory":
            return LimitExceeded("needed more memory than is allowed here")
        return InvalidInput(*(str(told[name])[:2000] for name in ("argument", "expected", "got")))
    except (ValueError, KeyError, TypeError):
        return LimitExceeded("broke off without a reason")


def _how_it_ended(status: int, allowance: Allowance) -> str:
    if status == -signal.SIGALRM:
        return "stopped: it took longer than the time it was given"
    if -status in (signal.SIGXCPU, signal.SIGKILL):
        return f"stopped after {allowance.cpu_seconds} seconds of computing"
    return (
        "broke off: it needed more memory than is allowed here or more room than the server has left, or the file is "
        "damaged in a way that stops the reader"
    )


def as_file(content: bytes) -> IO[bytes]:
    """Bytes as a nameless file on disk, for `run_limited`."""
    file = _scratch_file()
    try:
        file.write(content)
        file.flush()
    except OSError as error:
        with suppress(OSError):  # closing tries to write the rest once more
            file.close()
        raise ServerBusy(_NO_ROOM) from error
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    file.seek(0)
    return file


def _scratch_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise ServerBusy(_NO_ROOM) from error


def read_isolated(
    source: bytes | IO[bytes],
    name: str,
    allowed: Limits = UPLOAD_LIMITS,
    allowance: Allowance = UPLOAD_ALLOWANCE,
    progress: Progress = silent,
) -> Table:
    """The table in a file of somebody's, given as bytes or as an open file, read by a limited child process.

    Raises `InvalidInput` for what is wrong with the file and `LimitExceeded` for one that takes too much.
    """
    ending = Path(name).suffix.lower()
    if ending not in FORMATS:
        raise UnknownName("file ending", ending[:20], FORMATS)
    if isinstance(source, bytes):
        allowed.check_bytes("file", len(source))
        source = as_file(source)
    request = {"name": name[-200:], "limits": asdict(allowed)}
    with source, run_limited(_IMPORT_CHILD, request, source, allowance, progress) as output:
        return _believed(output)


def publish_isolated(
    source: bytes | Path, name: str, mapping: ColumnMapping, identity: RunIdentity, progress: Progress = silent
) -> Path:
    """A cache of its own (`publish_own`) made of somebody's file, read and written by a limited child process."""
    request = {"name": name[-200:], "limits": asdict(UPLOAD_LIMITS)}
    request |= {"mapping": asdict(mapping), "identity": asdict(identity)}

    def write(folder: Path) -> None:
        with as_file(source) if isinstance(source, bytes) else source.open("rb") as file:
            run_limited(_PUBLISH_CHILD, request | {"folder": str(folder)}, file, PUBLISH_ALLOWANCE, progress).close()

    return publish_own(write)


def _believed(output: IO[bytes]) -> Table:
    """The child's answer, checked as if it were a stranger's: it has read a stranger's file."""
    try:
        arrays, _ = read_npz(output, "answer", _ANSWER_LIMITS)
        head = json.loads(arrays.pop(HEAD).tobytes())
        names = [check_name("column", name) for name in head["columns"]]
        if len(set(names)) != len(names):
            raise InvalidInput("columns", "distinct names", "others")
        columns: dict[str, NDArray[Any]] = {name: arrays[str(number)] for number, name in enumerate(names)}
        ignored = {check_name("column", name): str(why)[:200] for name, why in head["ignored"].items()}
        return Table(
            check_name("file", head["name"]), columns, ignored, int(head["n_bytes"]), str(head["fingerprint"])[:64]
        )
    except (InvalidInput, KeyError, ValueError, TypeError, AttributeError) as error:
        raise LimitExceeded("the reader's answer could not be used") from error


@dataclass(frozen=True, eq=False)
class Answer:
    """Rows of a query, at most `limits.ANSWER_ROWS`; `more` says that the query had more than these."""

    frame: pd.DataFrame
    types: tuple[str, ...]
    more: bool


def ask(
    path: Path,
    sql: str,
    allowance: Allowance = SQL_ALLOWANCE,
    *,
    of: Identity | None = None,
    seconds: float = limits.QUERY_SECONDS,
    progress: Progress = silent,
) -> Answer:
    """Run one SELECT over a cache file in a child process.

    seconds : that the query may take, at most `limits.MOST_QUERY_SECONDS`.
    of : identity of the file that is meant. A cache published since then does not answer in its place.

    Raises `InvalidInput` for a query that is refused or wrong, `LimitExceeded` for one that takes too much, and
    `CacheError` if the file is not, or does not stay, the one that is meant.
    """
    if not sql.strip():
        raise InvalidInput("query", "a SELECT", "nothing")
    if len(sql) > limits.QUERY_CHARACTERS:
        raise InvalidInput("query", f"at most {limits.QUERY_CHARACTERS:,} characters", f"{len(sql):,}")
    if not 0 < seconds <= limits.MOST_QUERY_SECONDS:
        raise InvalidInput("seconds", f"at most {limits.MOST_QUERY_SECONDS:g}", f"{seconds:g}")
    request = {"sql": sql, "seconds": seconds, "max_rows": limits.ANSWER_ROWS, "max_bytes": limits.ANSWER_BYTES}
    try:
        file = open_regular(path)
    except CacheError as error:
        raise CacheError("the cache file is gone; reload the page") from error
    meant = Identity.of(file) if of is None else of
    with file, _whole(file, path, meant), run_limited(_SQL_CHILD, request, file, allowance, progress) as output:
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
