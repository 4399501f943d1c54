"""Reading files that nobody vouches for: in a process of its own, under limits. See `engine.sandbox.run`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from engine.core.errors import InvalidInput, UnknownName
from engine.importing.limits import Limits
from engine.importing.npz import read_npz
from engine.importing.readers import FORMATS, Table
from engine.sandbox.import_child import HEAD
from engine.sandbox.run import Allowance, LimitExceeded, as_file, run_limited
from engine.store.record import check_name

_CHILD = Path(__file__).with_name("import_child.py")
UPLOAD_LIMITS = Limits(max_bytes=100_000_000, max_rows=2_000_000, max_columns=5_000)
"""Of a file at a dashboard, on disk and unpacked; `python -m cache_builder import` takes larger ones."""
_ALLOWANCE = Allowance(memory_bytes=3 << 29, cpu_seconds=20, wall_seconds=30, output_bytes=150_000_000)
_PASSED_ON = Limits(max_bytes=150_000_000, max_rows=max(UPLOAD_LIMITS.max_rows, 1 << 24), max_columns=5_001)
"""What is believed of the child's answer; its head is a row of bytes."""


def read_isolated(
    source: bytes | IO[bytes], name: str, limits: Limits = UPLOAD_LIMITS, allowance: Allowance = _ALLOWANCE
) -> Table:
    """The table in a file of somebody's, given as bytes or as an open file, read by a limited child process.

    Raises `InvalidInput` for what is wrong with the file and `LimitExceeded` for one that takes too much.
    """
    ending = Path(name).suffix.lower()
    if ending not in FORMATS:
        raise UnknownName("file ending", ending[:20], FORMATS)
    if isinstance(source, bytes):
        limits.check_bytes("file", len(source))
        source = as_file(source)
    request = {"name": name[-200:], "limits": asdict(limits)}
    with source, run_limited(_CHILD, request, source, allowance) as output:
        return _believed(output)


def _believed(output: IO[bytes]) -> Table:
    """The child's answer, checked as if it were a stranger's: it has read a stranger's file."""
    try:
        arrays, _ = read_npz(output, "answer", _PASSED_ON)
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
