"""Somebody else's per-sample outputs (Parquet, CSV, NPZ) made into a run. Nothing is ever unpickled or executed."""

from __future__ import annotations

from cache_builder.importing.building import Identity, build_record
from cache_builder.importing.limits import Limits
from cache_builder.importing.mapping import ColumnMapping, choose_columns, guess_mapping
from cache_builder.importing.table import FORMATS, Table, read_stream, read_table

__all__ = [
    "FORMATS",
    "ColumnMapping",
    "Identity",
    "Limits",
    "Table",
    "build_record",
    "choose_columns",
    "guess_mapping",
    "read_stream",
    "read_table",
]
