"""Parquet files; what the footer claims is checked before anything is unpacked."""

from __future__ import annotations

from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from engine.core.errors import InvalidInput, first_line
from engine.importing.limits import Limits

_BATCH_ROWS = 16_384
_FOOTER_BYTES = 64 << 20
_FOOTER_ENTRIES = 1_000_000


def read_parquet(stream: IO[bytes], name: str, limits: Limits) -> pa.Table:
    """The file as an Arrow table."""
    try:
        file = pq.ParquetFile(
            stream, thrift_string_size_limit=_FOOTER_BYTES, thrift_container_size_limit=_FOOTER_ENTRIES
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
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            batches.append(batch)
            n_bytes += batch.nbytes
            limits.check_bytes(f"{name}, read", n_bytes)
        return pa.Table.from_batches(batches, file.schema_arrow)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(name, "a whole Parquet file", first_line(error)) from error
