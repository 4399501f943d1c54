"""From a directory of shards to one DuckDB file, at once or not at all."""

import atexit
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from engine.core.errors import CacheError, NotACache, SchemaMismatch, first_line
from engine.core.types import FloatArray, Progress
from engine.store.atomic import HOST, alone_in, is_abandoned, log_of, remove_leftovers, replacing
from engine.store.cache import Cache, Diagnosis
from engine.store.connection import (
    ALIAS,
    default_cache_path,
    default_shards_directory,
    is_database,
    open_read_only,
    quoted,
    read_meta,
)
from engine.store.record import RunRecord
from engine.store.schema import DDL, ENGINE_VERSION, SCHEMA_VERSION, STORAGE_VERSION
from engine.store.shard import read_digest, read_with_digest, shard_paths, write_shard

_WHOLE_RUNS = f"""
    SELECT run_id, n_samples FROM {ALIAS}.runs
    LEFT JOIN (SELECT run_id, count(*) AS n FROM {ALIAS}.samples GROUP BY run_id) AS counted USING (run_id)
    LEFT JOIN (SELECT run_id, count(*) AS n FROM {ALIAS}.logits GROUP BY run_id) AS outputs USING (run_id)
    LEFT JOIN (SELECT run_id, count(*) AS n FROM {ALIAS}.layers GROUP BY run_id) AS named USING (run_id)
    WHERE coalesce(counted.n, 0) = n_samples
        AND coalesce(outputs.n, 0) = CASE WHEN has_logits THEN n_samples ELSE 0 END
        AND coalesce(named.n, 0) = n_layers"""
"""Runs with as many samples, logits and layers as they should have; only the columns of run ids are read."""
OWN_FILE = "own.duckdb"
_OWN_PREFIX = "routecal-own"
_OWN_FOLDER = re.compile(rf"{_OWN_PREFIX}-(?P<host>[0-9a-f]{{8}})-(?P<process>\d+)-\w+")
_own_folders: set[Path] = set()


@dataclass(frozen=True)
class PublishReport:
    """What a publish left behind; `changed` is False if the cache already held exactly these shards, row for row."""

    path: Path
    n_runs: int
    n_samples: int
    seconds: float
    changed: bool

    def __str__(self) -> str:
        done = "published" if self.changed else "up to date:"
        return f"{done} {self.n_runs} runs, {self.n_samples:,} samples in {self.path} ({self.seconds:.1f} s)"


def publish(
    shards_directory: Path | str | None = None,
    cache_path: Path | str | None = None,
    progress: Progress | None = None,
    *,
    force: bool = False,
    diagnose: Callable[[Cache, Path], Iterable[Diagnosis]] | None = None,
) -> PublishReport:
    """Assemble a cache from all shards of a directory beside the old one, then rename it over it.

    force : write it even if the cache that is there seems to hold exactly these shards.
    diagnose : called with the new cache before it takes the old one's place, and with the directory of its shards; what
        it returns goes into the cache. A cache that holds diagnoses of this engine is up to date without being asked.

    A damaged shard is an error and leaves the old cache as it was. Readers of the old file keep it until they open the
    cache again. Publishers into one directory take turns and look at the shards when theirs has come, so that none
    puts fewer runs in place of more.
    """
    start = time.perf_counter()
    target = Path(cache_path) if cache_path is not None else default_cache_path()
    shards = Path(shards_directory) if shards_directory is not None else default_shards_directory()
    try:
        with alone_in(target.parent):
            n_runs, n_samples, changed = _bring_up_to_date(target, shards, progress, force, diagnose)
    except (duckdb.Error, OSError) as error:
        raise CacheError(f"{target}: cannot be written ({first_line(error)}); nothing was changed") from error
    if progress is not None and changed:
        progress(1.0, f"published {n_runs} runs")
    return PublishReport(target, n_runs, n_samples, time.perf_counter() - start, changed)


def _bring_up_to_date(
    target: Path,
    shards: Path,
    progress: Progress | None,
    force: bool,
    diagnose: Callable[[Cache, Path], Iterable[Diagnosis]] | None,
) -> tuple[int, int, bool]:
    """Numbers of runs and samples, and whether anything had to be written."""
    paths = shard_paths(shards)
    digests = {path.stem: read_digest(path) for path in paths}
    held = _held(target)
    if held is not None and held[0] == digests and (held[2] or diagnose is None) and not force:
        return len(paths), held[1], False
    with replacing(target) as temporary:
        n_samples = _assemble(temporary, paths, progress)
        if diagnose is not None:
            with Cache(temporary) as cache:
                found = list(diagnose(cache, shards))
            with _written(temporary) as connection:
                rows = pa.Table.from_pylist([each._asdict() | {"engine_version": ENGINE_VERSION} for each in found])
                if found:
                    _append(connection, "diagnoses", rows)
                connection.execute("INSERT INTO meta VALUES ('diagnoses', ?)", [str(ENGINE_VERSION)])
        # A log that a killed writer left beside the old cache would keep DuckDB from opening the new one.
        log_of(target).unlink(missing_ok=True)
    remove_leftovers(target.parent)
    return len(paths), n_samples, True


def _assemble(path: Path, shards: list[Path], progress: Progress | None) -> int:
    """Write a new cache file and return its number of samples."""
    n_samples = 0
    digests: dict[str, str] = {}
    with _written(path) as connection:
        connection.execute(DDL)
        for number, shard in enumerate(shards):
            if progress is not None:
                progress(number / len(shards), f"publishing {shard.stem}")
            record, digests[shard.stem] = read_with_digest(shard)
            _insert(connection, record)
            n_samples += record.n_samples
        _insert_meta(connection, digests)
    return n_samples


@contextmanager
def _written(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that writes to a cache file, all at once: several checkpoints would leave free blocks behind."""
    connection = duckdb.connect(":memory:")
    try:
        connection.execute(f"ATTACH '{quoted(path)}' AS {ALIAS} (STORAGE_VERSION '{STORAGE_VERSION}')")
        connection.execute(f"USE {ALIAS}")
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT")
        # Until here much is in the write-ahead log only. Closing would move it too, but keep silent about a full disk.
        connection.execute(f"CHECKPOINT {ALIAS}")
    finally:
        connection.close()


def fingerprint(digests: Mapping[str, str]) -> str:
    """A short hash that changes exactly when the runs or their contents do."""
    listed = "\n".join(f"{run_id} {digest}" for run_id, digest in sorted(digests.items()))
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


def _held(target: Path) -> tuple[dict[str, str], int, bool] | None:
    """Shard digests, number of samples and whether the cache that is there has its diagnoses; None without a whole one.

    A cache that lacks rows counts as none, for its digests are those of what was once written into it.
    """
    if not target.exists():
        return None
    if log_of(target).exists():
        # A writer was killed. The file is judged without its log, so that nobody's other database is written over.
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            os.link(target, Path(folder, target.name))
            _held(Path(folder, target.name))
        return None
    try:
        connection = open_read_only(target)
    except SchemaMismatch:
        return None
    except NotACache as error:
        # A cache cut short may be written over; somebody's other file may not.
        if _is_damaged_database(target):
            return None
        raise CacheError(f"{target}: exists and is not a RouteCal cache; choose another path or remove it") from error
    try:
        meta = read_meta(connection)
        digests = json.loads(meta.get("shards", "{}"))
        sizes = dict(connection.execute(_WHOLE_RUNS).fetchall())
    except (duckdb.Error, ValueError):
        return None
    finally:
        connection.close()
    whole = sizes.keys() == digests.keys() and meta["schema_version"] == SCHEMA_VERSION
    return (digests, sum(sizes.values()), meta.get("diagnoses") == str(ENGINE_VERSION)) if whole else None


def _is_damaged_database(path: Path) -> bool:
    if not path.is_file() or is_database(path):
        return False
    with path.open("rb") as file:
        start = file.read(12)
    return start == b"" or start[8:12] == b"DUCK"


def _insert_meta(connection: duckdb.DuckDBPyConnection, digests: Mapping[str, str]) -> None:
    entries = {
        "schema_version": SCHEMA_VERSION,
        "fingerprint": fingerprint(digests),
        "shards": json.dumps(digests, sort_keys=True),
    }
    connection.executemany("INSERT INTO meta VALUES (?, ?)", list(entries.items()))


def _insert(connection: duckdb.DuckDBPyConnection, record: RunRecord) -> None:
    n = record.n_samples
    run_id = pa.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), [record.run_id])
    extra = np.column_stack(list(record.extra.values())) if record.extra else np.empty((n, 0), dtype=np.float32)
    tables = {
        "runs": pa.table({name: [value] for name, value in _run_row(record).items()}),
        "layers": pa.table(
            {
                "run_id": pa.array([record.run_id] * record.n_layers, pa.string()),
                "layer": pa.array(np.arange(1, record.n_layers + 1)),
                "name": pa.array([layer.name for layer in record.layers], pa.string()),
                "n_sources": pa.array([layer.n_sources for layer in record.layers], pa.int32()),
            }
        ),
        "samples": pa.table(
            {
                "run_id": run_id,
                "sample_id": pa.array(np.arange(n)),
                "label": pa.nulls(n, pa.int32()) if record.labels is None else pa.array(record.labels),
                "prediction": pa.nulls(n, pa.int32()) if record.predictions is None else pa.array(record.predictions),
                "confidence": pa.array(record.confidence),
                "correct": pa.array(record.correct),
                "entropies": _lists_from_matrix(record.entropies),
                "extra": _lists_from_matrix(extra),
                "cluster": pa.nulls(n, pa.int32()) if record.clusters is None else pa.array(record.clusters),
            }
        ),
        "epochs": pa.Table.from_pandas(record.epochs.assign(run_id=record.run_id), preserve_index=False),
        "epoch_metrics": pa.Table.from_pandas(record.epoch_metrics.assign(run_id=record.run_id), preserve_index=False),
    }
    if record.logits is not None:
        tables["logits"] = pa.table(
            {"run_id": run_id, "sample_id": pa.array(np.arange(n)), "logits": _lists_from_matrix(record.logits)}
        )
    for name, table in tables.items():
        _append(connection, name, table)


def _append(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("incoming", table)
    connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM incoming")
    connection.unregister("incoming")


def _run_row(record: RunRecord) -> dict[str, object]:
    names = ("run_id", "suite", "backbone", "dataset", "variant", "block_size", "seed", "epoch", "n_samples")
    return {name: getattr(record, name) for name in names} | {
        "n_classes": record.n_classes,
        "n_layers": record.n_layers,
        "accuracy": record.accuracy,
        "has_logits": record.has_logits,
        "extra_names": list(record.extra_names),
        "config": json.dumps(record.config, sort_keys=True),
        "provenance": json.dumps(record.provenance, sort_keys=True),
        "capture": json.dumps(record.capture, sort_keys=True),
        "created_at": record.created_at,
    }


def _lists_from_matrix(matrix: FloatArray) -> pa.Array:
    """An Arrow list column whose i-th entry is the i-th row."""
    n, width = matrix.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int64) if width else np.zeros(n + 1, dtype=np.int64)
    return pa.LargeListArray.from_arrays(offsets, np.ascontiguousarray(matrix).reshape(-1))


def publish_own(write: Callable[[Path], object]) -> Path:
    """The path of a cache in a folder of its own, where `write`, such as `write_own` of a run, has put it."""
    folder = Path(tempfile.mkdtemp(prefix=f"{_OWN_PREFIX}-{HOST}-{os.getpid()}-"))
    _own_folders.add(folder)
    try:
        write(folder)
    except BaseException:
        remove_own(folder / OWN_FILE)
        raise
    return folder / OWN_FILE


def write_own(record: RunRecord, folder: Path) -> None:
    """Publish one run there, and nothing else."""
    write_shard(record, folder / "shards")
    publish(folder / "shards", folder / OWN_FILE)
    shutil.rmtree(folder / "shards")


def remove_own(path: Path) -> None:
    """Remove such a cache with its folder."""
    shutil.rmtree(path.parent, ignore_errors=True)
    _own_folders.discard(path.parent)


def remove_abandoned_own() -> None:
    """Remove what a killed process left behind; a number of our own that we do not know is an earlier life's."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_OWN_PREFIX}-*"):
        parts = _OWN_FOLDER.fullmatch(folder.name)
        if parts is None or folder in _own_folders:
            continue
        process = int(parts["process"])
        ours = parts["host"] == HOST and process == os.getpid()
        if ours or is_abandoned(folder, parts["host"], process):
            shutil.rmtree(folder, ignore_errors=True)


@atexit.register
def _remove_all_own() -> None:
    for folder in tuple(_own_folders):
        shutil.rmtree(folder, ignore_errors=True)
