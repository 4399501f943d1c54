"""Somebody else's per-sample outputs (Parquet, CSV, NPZ) made into a run. Nothing is ever unpickled or executed."""

from engine.importing.build import RunIdentity, build_record
from engine.importing.mapping import ColumnMapping, choose_columns, guess_mapping
from engine.importing.readers import FORMATS, Limits, Table, read_stream, read_table
