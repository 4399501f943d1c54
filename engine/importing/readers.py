"""One way to read a table of per-sample outputs, whatever its format."""

from __future__ import annotations

import csv
import hashlib
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.lib import format as npy
from numpy.typing import NDArray

from engine.core.errors import InvalidInput, UnknownName, first_line
from engine.store.record import check_name

FORMATS = (".parquet", ".csv", ".npz")
Columns = Mapping[str, NDArray[Any]]
_NPZ_CHUNK = 1 << 20
_NPY_HEADER_BYTES = 4096
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy writes. Others zipfile knows too, but LZMA takes as much memory as a header of its own claims."""
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError)
"""zipfile has a ValueError for names that are not UTF-8 and for places before the start of the file."""
Arrays = dict[str, NDArray[Any]]
_PARQUET_BATCH_ROWS = 16_384
_PARQUET_FOOTER_BYTES = 64 << 20
_PARQUET_FOOTER_ENTRIES = 1_000_000
_CSV_HEADER_BYTES = 1 << 20
_CSV_BLOCK_BYTES = 4 << 20
_SEPARATORS = ",;\t"


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


@dataclass(frozen=True)
class Limits:
    """Checked against what a file claims before memory is taken, and again while it is read."""

    max_bytes: int = 2 << 30
    max_rows: int = 10_000_000
    max_columns: int = 20_000

    def check_bytes(self, what: str, n_bytes: int) -> None:
        if n_bytes > self.max_bytes:
            raise InvalidInput(what, f"at most {_readable(self.max_bytes)}", _readable(n_bytes))

    def check_rows(self, what: str, n_rows: int) -> None:
        if n_rows > self.max_rows:
            raise InvalidInput(what, f"at most {self.max_rows:,} rows", f"{n_rows:,}")

    def check_columns(self, what: str, n_columns: int) -> None:
        if n_columns > self.max_columns:
            raise InvalidInput(what, f"at most {self.max_columns:,} columns", f"{n_columns:,}")


def _readable(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"


def read_npz(stream: IO[bytes], name: str, limits: Limits) -> tuple[Arrays, dict[str, str]]:
    """The numeric arrays of one or two dimensions by name, and why the others were left out."""
    try:
        with zipfile.ZipFile(stream) as archive:
            return _read_members(archive, name, limits)
    except InvalidInput:
        raise
    except _UNREADABLE as error:
        raise InvalidInput(
            name, "an NPZ archive made by numpy.savez (pickles are never read)", f"something else ({first_line(error)})"
        ) from error


def _read_members(archive: zipfile.ZipFile, name: str, limits: Limits) -> tuple[Arrays, dict[str, str]]:
    members = archive.infolist()
    limits.check_columns(name, len(members))
    limits.check_bytes(f"{name}, unpacked", sum(member.file_size for member in members))
    arrays: Arrays = {}
    ignored: dict[str, str] = {}
    for member in members:
        column = member.filename.removesuffix(".npy")
        what = f"{name}: array {column!r}"
        if column == member.filename:
            raise InvalidInput(what, "an .npy array", "some other file in the archive")
        if member.flag_bits & 0x1:
            raise InvalidInput(what, "an archive without a password", "an encrypted one")
        if member.compress_type not in _COMPRESSIONS:
            raise InvalidInput(what, "an array stored or deflated, as numpy.savez does", "another compression")
        if column in arrays or column in ignored:
            raise InvalidInput(what, "one array of a name", "two")
        with archive.open(member) as data:
            shape, fortran_order, dtype = _npy_header(data, what)
            reason = _unusable(shape, dtype, what)
            if reason is not None:
                ignored[column] = reason
                continue
            _check_size(what, shape, dtype, member.file_size - data.tell())
            limits.check_rows(what, shape[0])
            arrays[column] = _npy_values(data, what, shape, fortran_order, dtype)
    return arrays, ignored


def _npy_header(data: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        version = npy.read_magic(data)
        found = readers[version](data, max_header_size=_NPY_HEADER_BYTES) if version in readers else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, TokenError) as error:
        raise InvalidInput(what, "a readable numpy header", first_line(error)) from error
    if found is None:
        raise InvalidInput(what, "numpy array format 1.0 or 2.0", f"format {version[0]}.{version[1]}")
    shape, fortran_order, dtype = found
    # numpy takes True for a length when it reads a header, and not when it reshapes.
    if any(isinstance(length, bool) for length in shape):
        raise InvalidInput(what, "a shape of whole numbers", f"{shape}")
    return shape, fortran_order, dtype


def _unusable(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> str | None:
    """Why an array is not a per-sample column, or None if it may be one."""
    if dtype.hasobject:
        raise InvalidInput(
            what, "numbers (save it without dtype=object)", "Python objects, which only a pickle can hold"
        )
    if dtype.kind not in "fiub":
        return f"holds {'text' if dtype.kind in 'US' else dtype.name}, not numbers"
    if len(shape) not in (1, 2):
        return f"has {len(shape)} dimensions, not one or two"
    return None


def _check_size(what: str, shape: tuple[int, ...], dtype: np.dtype[Any], held: int) -> None:
    n_bytes = math.prod(shape) * dtype.itemsize
    if any(length < 0 for length in shape) or n_bytes != held:
        raise InvalidInput(what, f"{n_bytes:,} bytes, as the shape {shape} says", f"{held:,} bytes in the archive")


def _npy_values(
    data: IO[bytes], what: str, shape: tuple[int, ...], fortran_order: bool, dtype: np.dtype[Any]
) -> NDArray[Any]:
    # Grown as the bytes arrive, not by what the header says: an archive may claim sizes that it does not hold.
    buffer = bytearray()
    while chunk := data.read(_NPZ_CHUNK):
        buffer += chunk
    _check_size(what, shape, dtype, len(buffer))
    flat = np.frombuffer(buffer, dtype=dtype)
    array = flat.reshape(shape, order="F" if fortran_order else "C")
    # Native byte order and at most double precision for everyone who comes after.
    return array.astype(np.float64 if dtype.kind == "f" and dtype.itemsize > 8 else dtype.newbyteorder("="), copy=False)


def read_parquet(stream: IO[bytes], name: str, limits: Limits) -> pa.Table:
    """The file as an Arrow table."""
    try:
        file = pq.ParquetFile(
            stream, thrift_string_size_limit=_PARQUET_FOOTER_BYTES, thrift_container_size_limit=_PARQUET_FOOTER_ENTRIES
        )
        footer = file.metadata
        limits.check_rows(name, footer.num_rows)
        limits.check_columns(name, footer.num_columns)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        limits.check_bytes(f"{name}, unpacked", sum(group.total_byte_size for group in groups))
        values = sum(group.column(c).num_values for group in groups for c in range(group.num_columns))
        limits.check_bytes(f"{name}, in memory", values * 4)
        batches: list[pa.RecordBatch] = []
        n_bytes = 0
        for batch in file.iter_batches(batch_size=_PARQUET_BATCH_ROWS):
            batches.append(batch)
            n_bytes += batch.nbytes
            limits.check_bytes(f"{name}, read", n_bytes)
        return pa.Table.from_batches(batches, file.schema_arrow)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: names of columns
        raise InvalidInput(name, "a whole Parquet file", first_line(error)) from error


def read_csv(stream: IO[bytes], name: str, limits: Limits) -> pa.Table:
    """The file as an Arrow table; whole numbers become floats, for the first rows cannot vouch for the later ones."""
    names, separator = _csv_header(stream, name, limits)
    parse = pacsv.ParseOptions(delimiter=separator)
    read = pacsv.ReadOptions(block_size=_CSV_BLOCK_BYTES, column_names=names, skip_rows=1)
    try:
        stream.seek(0)
        first = pacsv.open_csv(stream, read_options=read, parse_options=parse).schema
        types = {field.name: pa.float64() if _may_be_number(field.type) else field.type for field in first}
        stream.seek(0)
        convert = pacsv.ConvertOptions(column_types=types)
        reader = pacsv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert)
        batches: list[pa.RecordBatch] = []
        n_bytes = n_rows = 0
        for batch in reader:
            batches.append(batch)
            n_bytes += batch.nbytes
            n_rows += batch.num_rows
            limits.check_bytes(f"{name}, read", n_bytes)
            limits.check_rows(name, n_rows)
        return pa.Table.from_batches(batches, reader.schema)
    except pa.ArrowException as error:
        raise InvalidInput(name, "a table with the same columns in every row", first_line(error)) from error


def _may_be_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_null(kind)


def _csv_header(stream: IO[bytes], name: str, limits: Limits) -> tuple[list[str], str]:
    stream.seek(0)
    line = stream.readline(_CSV_HEADER_BYTES)
    if len(line) == _CSV_HEADER_BYTES:
        raise InvalidInput(name, "a first line with the names of the columns", "a line of more than a megabyte")
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(name, "UTF-8 text", "other bytes in the first line") from error
    if "\0" in text or not text.strip():
        raise InvalidInput(name, "a first line with the names of the columns", "no text")
    separator = max(_SEPARATORS, key=text.count)
    try:
        names = [entry.strip() for entry in next(csv.reader([text], delimiter=separator))]
    except csv.Error as error:
        raise InvalidInput(
            name, "a first line with the names of the columns", f"one that cannot be read ({error})"
        ) from error
    limits.check_columns(name, len(names))
    # A table saved with its row numbers has a nameless first column.
    return [entry or f"column_{number}" for number, entry in enumerate(names, start=1)], separator
