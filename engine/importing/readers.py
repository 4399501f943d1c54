"""One way to read a table of per-sample outputs, whatever its format."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.core.errors import InvalidInput, UnknownName
from engine.importing.limits import Limits
from engine.importing.npz import read_npz
from engine.importing.parquet import read_parquet
from engine.importing.text import read_csv
from engine.store.record import check_name

FORMATS = (".parquet", ".csv", ".npz")
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Table:
    """The numeric columns of a file, one row per sample: (n,) or (n, width) arrays by name.

    `ignored` says by name why other entries were left out; `fingerprint` is the SHA-256 of the file.
    """

    name: str
    columns: Columns
    ignored: Mapping[str, str] = field(default_factory=dict)
    n_bytes: int = 0
    fingerprint: str = ""

    @property
    def n_rows(self) -> int:
        """Of the longest column; those of an NPZ may differ."""
        return max(len(values) for values in self.columns.values())


def read_table(path: Path | str, limits: Limits | None = None) -> Table:
    """Read a Parquet, CSV or NPZ file, told apart by its ending."""
    path = Path(path)
    if not path.is_file():
        raise InvalidInput("file", "a Parquet, CSV or NPZ file", f"{path}, which does not exist")
    with path.open("rb") as stream:
        return read_stream(stream, path.name, limits)


def read_stream(stream: IO[bytes], name: str, limits: Limits | None = None) -> Table:
    """The same for an open binary stream, such as an upload."""
    limits = limits or Limits()
    ending = Path(name).suffix.lower()
    if ending not in FORMATS:
        raise UnknownName("file ending", ending, FORMATS)
    name = _safe(name)
    n_bytes = stream.seek(0, 2)
    limits.check_bytes(name, n_bytes)
    stream.seek(0)
    digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    stream.seek(0)
    columns: dict[str, NDArray[Any]]
    if ending == ".npz":
        columns, ignored = read_npz(stream, name, limits)
    else:
        arrow = (read_parquet if ending == ".parquet" else read_csv)(stream, name, limits)
        columns, ignored = _from_arrow(arrow, name)
    for column in (*columns, *ignored):
        check_name(f"{name}: name of a column", column)
    if not columns:
        raise InvalidInput(name, "at least one column of numbers", "none")
    return Table(name, columns, ignored, n_bytes, digest)


def _safe(name: str) -> str:
    """The name if it is harmless wherever it is shown, else only its ending."""
    try:
        return check_name("file", Path(name).name)
    except InvalidInput:
        return "file" + Path(name).suffix.lower()


def _from_arrow(table: pa.Table, name: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    columns: dict[str, NDArray[Any]] = {}
    ignored: dict[str, str] = {}
    for column, values in zip(table.column_names, table.columns, strict=True):
        what = f"{name}: column {column!r}"
        if column in columns or column in ignored:
            raise InvalidInput(what, "one column of a name", "two")
        if _is_number(values.type):
            columns[column] = _vector(values)
        elif _is_list(values.type) and _is_number(values.type.value_type):
            columns[column] = _matrix(values, what)
        else:
            ignored[column] = f"holds {values.type}, not numbers"
    return columns, ignored


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _vector(values: pa.ChunkedArray) -> NDArray[Any]:
    """An empty cell becomes NaN, which is refused if the column is used."""
    if values.null_count:
        values = values.cast(pa.float64())
    return np.asarray(values.to_numpy())


def _matrix(values: pa.ChunkedArray, what: str) -> NDArray[Any]:
    n = len(values)
    if values.null_count:
        raise InvalidInput(what, "a list in every row", f"{values.null_count} empty rows")
    if n == 0:
        return np.empty((0, 0))
    widths = pc.min_max(pc.list_value_length(values)).as_py()
    if widths["min"] != widths["max"]:
        raise InvalidInput(what, "lists of one length", f"lengths from {widths['min']} to {widths['max']}")
    flat = pa.chunked_array([chunk.flatten() for chunk in values.chunks])
    return _vector(flat).reshape(n, widths["max"])
