"""A published cache, read-only."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from engine.core import validation
from engine.core.errors import CacheError, InvalidInput, UnknownName
from engine.core.types import COLUMNS, FloatArray, IntArray, NotRead, RunData
from engine.store.connection import ALIAS, REPAIR, default_cache_path, open_read_only, read_meta
from engine.store.identity import Identity, open_regular
from engine.store.record import ENTROPY_SLACK, MOST_INTEGER
from engine.store.schema import ENGINE_VERSION

_RUN_COLUMNS = (
    "run_id, suite, backbone, dataset, variant, block_size, seed, epoch, n_samples, n_classes, n_layers, accuracy, "
    "has_logits, extra_names, config, provenance, capture, created_at"
)
_STANDS_FOR = {"capture": "'{}'", "cluster": "NULL::INTEGER"}
"""What is read in place of the columns that a cache of version 1 lacks."""
_ATTEMPTS = 10
_STORED = {name: name for name in COLUMNS} | {"labels": "label", "predictions": "prediction", "clusters": "cluster"}
_SINGLE = (-3.5e38, 3.5e38)
_MAY_BE_MISSING = ("block_size", "seed", "epoch", "n_classes")


class Diagnosis(NamedTuple):
    """An answer as it is stored: of a run (empty: of the whole cache), about a feature, by its name, encoded."""

    run_id: str
    feature: str
    settings: str
    result: str


def open_cache(path: Path | str | None = None) -> Cache:
    """Open a published cache; the default is `data/routing.duckdb`, or what ROUTECAL_CACHE names."""
    return Cache(Path(path) if path is not None else default_cache_path())


class Cache:
    """The runs of one DuckDB file. Threads may share it; a publish in the meantime does not disturb it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection, self._file, self.identity = _open_one(path)
        self._failed = False
        with self._explaining():
            meta = read_meta(self._connection)
        self._digests = meta.get("shards", "{}")
        self.diagnosed_by = meta.get("diagnoses", "")
        """The version of the engine whose answers are stored, empty without answers; those of another are ignored."""
        self._lacks = _STANDS_FOR if meta["schema_version"] == "1" else {}
        self.fingerprint = meta.get("fingerprint", self.identity.head)
        """A short hash of the contents, as the file has it: for people: another's may claim the same."""
        self.kept_by = self.identity.key
        """The same of the file itself: what its results are kept by."""

    def __enter__(self) -> Cache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; the cache cannot be used afterwards."""
        self._connection.close()
        self._file.close()

    def is_current(self) -> bool:
        """Whether its file is still the one at its path, as it was when opened, and could be read so far."""
        return not self._failed and Identity.of(self._file) == self.identity and self.identity.is_at(self.path)

    @property
    def digests(self) -> dict[str, str]:
        """The checksums of the shards, by run; only publishers ask."""
        return dict(json.loads(self._digests))

    def runs(self) -> pd.DataFrame:
        """One row per run, in the order of their ids; `config`, `provenance` and `capture` are JSON text."""
        table = self._query(f"SELECT {self._select(_RUN_COLUMNS.split(', '))} FROM {ALIAS}.runs ORDER BY run_id")
        with self._explaining():
            frame = table.to_pandas().astype(dict.fromkeys(_MAY_BE_MISSING, "Int64"))
            return frame.assign(extra_names=pd.Series(table["extra_names"].to_pylist(), dtype=object))

    def load(self, run_id: str, columns: Collection[str] = COLUMNS) -> RunData:
        """A run's samples in memory: confidence, correct, clusters, and of the rest those columns that are named.

        A run of 10^7 samples with 16 layers and 1,000 classes is 80 GB of logits, 1.3 GB of profiles and 90 MB of what
        a test on one extra column needs. Using a column that was not read is an error (`RunData`).
        """
        wanted = _column_names(columns)
        shape = self._shape(run_id)
        stored = [_STORED[name] for name in sorted(wanted - {"logits"})]
        samples = self._ordered(f"SELECT {self._select(['sample_id', *stored])} FROM {ALIAS}.samples", run_id)
        with self._explaining():
            read: dict[str, Any] = {name: samples[name].to_numpy().copy() for name in ("confidence", "correct")}
            if "entropies" in wanted:
                read["entropies"] = _matrix_from_lists(samples["entropies"], shape["n_layers"])
            if "extra" in wanted:
                extra = _matrix_from_lists(samples["extra"], len(shape["extra_names"]))
                read["extra"] = {name: extra[:, column].copy() for column, name in enumerate(shape["extra_names"])}
            for name in wanted & {"labels", "predictions", "clusters"}:
                read[name] = _whole_numbers(samples[_STORED[name]])
            if "logits" in wanted:
                read["logits"] = self._logits(run_id, shape["n_classes"]) if shape["has_logits"] else None
            if any(
                len(read[name]) != shape["n_samples"] for name in ("confidence", "logits") if read.get(name) is not None
            ):
                raise CacheError(f"{self.path}: run {run_id!r} lacks rows; {REPAIR}")
            outside = _outside_range(read, shape["n_classes"])
            if outside:
                raise CacheError(f"{self.path}: run {run_id!r} has {outside} outside their range; {REPAIR}")
            return RunData(run_id=run_id, **(dict.fromkeys(COLUMNS, NotRead) | read))

    def _logits(self, run_id: str, n_classes: int) -> FloatArray:
        rows = self._ordered(f"SELECT sample_id, logits FROM {ALIAS}.logits", run_id)
        return _matrix_from_lists(rows["logits"], n_classes)

    def layers(self, run_id: str) -> pd.DataFrame:
        """Columns layer (from 1), name, n_sources; empty for a run without a routing profile."""
        frame = self._of_run("layer, name, n_sources", "layers", "layer", run_id)
        return frame.astype({"n_sources": "Int64"})

    def epochs(self, run_id: str) -> pd.DataFrame:
        """Columns epoch, layer, mean_entropy, std_entropy."""
        return self._of_run("epoch, layer, mean_entropy, std_entropy", "epochs", "epoch, layer", run_id)

    def epoch_metrics(self, run_id: str) -> pd.DataFrame:
        """Columns epoch, name, value."""
        return self._of_run("epoch, name, value", "epoch_metrics", "epoch, name", run_id)

    def diagnosis(self, run_id: str, feature: str, settings: str) -> str | None:
        """A stored answer as it was encoded by this version of the engine; None where there is none."""
        if self.diagnosed_by != str(ENGINE_VERSION):
            return None
        found = self._query(
            f"SELECT result FROM {ALIAS}.diagnoses WHERE run_id = $run_id AND feature = $feature "
            f"AND settings = $settings AND engine_version = {ENGINE_VERSION} LIMIT 1",
            {"run_id": run_id, "feature": feature, "settings": settings},
        )["result"].to_pylist()
        return str(found[0]) if found else None

    def _select(self, columns: Collection[str]) -> str:
        return ", ".join(f"{self._lacks[name]} AS {name}" if name in self._lacks else name for name in columns)

    def _query(self, sql: str, given: str | dict[str, str] | None = None) -> Any:
        """An Arrow table. One cursor per call: a connection that two threads share refuses the second query."""
        with self._explaining():
            parameters = {"run_id": given} if isinstance(given, str) else given
            relation = self._connection.cursor().sql(sql, params=parameters)
            return relation.to_arrow_table()

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except duckdb.ConnectionException as error:
            raise CacheError(f"{self.path}: was closed") from error
        except (duckdb.Error, pa.ArrowException, ValueError, TypeError, RecursionError) as error:
            self._failed = True  # in our words: theirs may be the file's author's
            raise CacheError(f"{self.path}: damaged, or not what its tables say; {REPAIR}") from error
        # What was read from a file that somebody writes to may be half old and half new.
        if Identity.of(self._file) != self.identity:
            raise CacheError(f"{self.path}: was written to while it was open; {REPAIR}")

    def _ordered(self, select: str, run_id: str) -> Any:
        """Rows as an Arrow table; publish writes a run in the order of its sample ids, and a scan keeps it."""
        table = self._query(f"{select} WHERE run_id = $run_id", run_id)
        if not np.array_equal(table["sample_id"].to_numpy(), np.arange(table.num_rows)):
            raise CacheError(f"{self.path}: run {run_id!r} has rows out of order; {REPAIR}")
        return table

    def _of_run(self, columns: str, table: str, order: str, run_id: str) -> pd.DataFrame:
        self._shape(run_id)
        sql = f"SELECT {columns} FROM {ALIAS}.{table} WHERE run_id = $run_id ORDER BY {order}"
        return self._query(sql, run_id).to_pandas()

    def _shape(self, run_id: str) -> dict[str, Any]:
        """What the `runs` table says about the size of a run."""
        columns = "n_samples, n_classes, n_layers, has_logits, extra_names"
        rows = self._query(f"SELECT {columns} FROM {ALIAS}.runs WHERE run_id = $run_id", str(run_id)).to_pylist()
        if not rows:
            known = self._query(f"SELECT run_id FROM {ALIAS}.runs ORDER BY run_id")["run_id"].to_pylist()
            raise UnknownName("run_id", str(run_id), known)
        return dict(rows[0])


def _open_one(path: Path) -> tuple[duckdb.DuckDBPyConnection, BinaryIO, Identity]:
    """A connection to a file, the file itself and its identity: of one file, even if it is replaced meanwhile.

    The open file keeps its inode from being given to another, and shows later whether it was written to.
    """
    for _ in range(_ATTEMPTS):
        file = open_regular(path)
        identity = Identity.of(file)
        try:
            connection = open_read_only(path)
        except CacheError:
            file.close()
            raise
        if identity.is_at(path) and Identity.of(file) == identity:
            return connection, file, identity
        connection.close()
        file.close()
    raise CacheError(f"{path}: is replaced again and again; try again in a moment")


def _column_names(columns: Collection[str]) -> set[str]:
    """What to read: the columns named, the two without which there is no run, and what every variance needs."""
    if isinstance(columns, str) or not isinstance(columns, Collection):
        raise InvalidInput("columns", "a set of names of columns", validation.shown(columns))
    for name in columns:
        validation.choice("columns", name, sorted(COLUMNS))
    return {"confidence", "correct", "clusters", *columns}


def _outside_range(read: dict[str, Any], n_classes: int | None) -> str:
    """The first column with a value that cannot be, NaN included; empty if there is none."""
    classes = (0, MOST_INTEGER if n_classes is None else n_classes - 1)
    ranges = {
        "confidence": (0, 1), "entropies": (-ENTROPY_SLACK, 1 + ENTROPY_SLACK), "labels": classes,
        "predictions": classes, "clusters": (0, MOST_INTEGER),
    }  # fmt: skip
    columns = [(name, values, ranges.get(name, _SINGLE)) for name, values in read.items() if name != "extra"]
    columns += [(name, values, _SINGLE) for name, values in read.get("extra", {}).items()]
    for name, values, (low, high) in columns:
        if values is not None and values.size and not (values.min() >= low and values.max() <= high):
            return name
    return ""


def _matrix_from_lists(column: Any, width: int) -> FloatArray:
    """(n, width) float64 of an Arrow column whose lists all have the same length."""
    flat = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    values = np.concatenate(flat) if flat else np.empty(0)
    return values.reshape(len(column), width).astype(np.float64)


def _whole_numbers(column: Any) -> IntArray | None:
    """None where nobody knows them; a run of which some are known is damaged."""
    if column.null_count == len(column):
        return None
    if column.null_count:
        raise ValueError("some numbers are missing")
    values: IntArray = column.to_numpy().astype(np.int64)
    return values
