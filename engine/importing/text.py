"""CSV files with a header line, separated by commas, semicolons or tabs."""

from __future__ import annotations

import csv
from typing import IO

import pyarrow as pa
import pyarrow.csv as pacsv

from engine.core.errors import InvalidInput, first_line
from engine.importing.limits import Limits

_MAX_HEADER_BYTES = 1 << 20
_BLOCK_BYTES = 4 << 20
_SEPARATORS = ",;\t"


def read_csv(stream: IO[bytes], name: str, limits: Limits) -> pa.Table:
    """The file as an Arrow table; whole numbers become floats, for the first rows cannot vouch for the later ones."""
    names, separator = _header(stream, name, limits)
    parse = pacsv.ParseOptions(delimiter=separator)
    read = pacsv.ReadOptions(block_size=_BLOCK_BYTES, column_names=names, skip_rows=1)
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


def _header(stream: IO[bytes], name: str, limits: Limits) -> tuple[list[str], str]:
    stream.seek(0)
    line = stream.readline(_MAX_HEADER_BYTES)
    if len(line) == _MAX_HEADER_BYTES:
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
