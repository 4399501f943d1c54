"""One run as one Parquet file: per-sample columns as rows, all else as JSON in the file's metadata.

Columns, where the run has them: `label`, `prediction`, `confidence`, `correct`, `H_1`..`H_L`, `logit_0`..`logit_{K-1}`,
`extra_1`..`extra_M`, `cluster`. With logits, prediction, confidence and correctness are derived on reading and not
stored.
Logits in half precision (`half`) are one column of lists, `logits`, with the confidence before rounding beside it.
Floats are stored byte-stream-split: their exponents compress, and a run of 10,000 x 16 layers x 10 classes
stays under a megabyte.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import logsumexp

from engine.core import limits
from engine.core.errors import CacheError, CorruptShard, InvalidInput, first_line
from engine.store import half
from engine.store.atomic import remove_leftovers, replacing
from engine.store.record import EPOCH_COLUMNS, METRIC_COLUMNS, Layer, RunRecord, check_run_id

FORMAT = 2
READABLE = (1, FORMAT)
"""Format 1 has neither clusters nor `capture`."""
_KEY = b"routecal"
_LEAF = "logits.list.element"
"""Parquet's name of the numbers in the column of lists."""
_REMEDY = "remove the file and build or import the run again"
Columns = dict[str, NDArray[Any]]


def shard_path(directory: Path | str, run_id: str) -> Path:
    """Where a run's shard lives."""
    return Path(directory) / f"{check_run_id(run_id)}.parquet"


def shard_paths(directory: Path | str) -> list[Path]:
    """All finished shards of a directory by name; temporary files of writers at work are hidden and not listed."""
    folder = Path(directory)
    if not folder.is_dir():
        raise CacheError(f"{folder}: no such directory of shards; build or import a run first")
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def write_shard(record: RunRecord, directory: Path | str) -> Path:
    """Write `<directory>/<run_id>.parquet`, replacing an older one at once or not at all."""
    path = shard_path(directory, record.run_id)
    columns = _columns(record)
    run = _describe(record)
    header = {"format": FORMAT, "run": run, "digest": _digest(run, columns)}
    table = pa.table({name: _arrow(column) for name, column in columns.items()})
    floats = [_LEAF if name == "logits" else name for name, column in columns.items() if column.dtype.kind == "f"]
    try:
        with replacing(path) as temporary:
            pq.write_table(
                table.replace_schema_metadata({_KEY: json.dumps(header)}),
                temporary,
                compression="zstd",
                compression_level=15,
                use_dictionary=[name for name, column in columns.items() if column.dtype.kind != "f"],
                use_byte_stream_split=floats,
                write_statistics=False,
            )
        remove_leftovers(path.parent)
    except OSError as error:
        raise CacheError(f"{path}: cannot be written ({first_line(error)}); nothing was changed") from error
    return path


def read_digest(path: Path | str) -> str:
    """The content digest a shard claims, from its footer alone."""
    return str(_header(Path(path), _open(Path(path)))["digest"])


def read_shard(path: Path | str) -> RunRecord:
    """The run in a shard, its checksum verified."""
    return read_with_digest(path)[0]


def read_with_digest(path: Path | str) -> tuple[RunRecord, str]:
    """The run in a shard and its verified content digest, from one opening of the file."""
    record, header = _read(Path(path))
    return record, str(header["digest"])


def _read(path: Path) -> tuple[RunRecord, dict[str, Any]]:
    """The run and the header it was rebuilt from; one opening, for a writer may replace the file at any moment."""
    file = _open(path)
    header = _header(path, file)
    _check_volume(path, file.metadata)
    try:
        table = file.read()
        columns = {name: _numpy(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        raise CorruptShard(f"{path}: damaged shard ({first_line(error)}); {_REMEDY}") from error
    if _digest(header["run"], columns) != header["digest"]:
        raise CorruptShard(f"{path}: the contents do not match the checksum; {_REMEDY}")
    try:
        record = _rebuild(header["run"], columns)
    except (InvalidInput, KeyError, TypeError, ValueError) as error:
        raise CorruptShard(f"{path}: the contents contradict themselves ({error}); {_REMEDY}") from error
    if path.stem != record.run_id:
        raise CorruptShard(f"{path}: holds run {record.run_id!r}; a shard is named after its run, rename it back")
    return record, header


def _check_volume(path: Path, footer: pq.FileMetaData) -> None:
    """Kilobytes of one value, run-length coded, may be gigabytes of it."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    values = sum(group.column(number).num_values for group in groups for number in range(group.num_columns))
    if values > limits.VALUES_PER_BYTE * path.stat().st_size + limits.SPARE_VALUES:
        raise CorruptShard(f"{path}: {values:,} values, more than a file of this size may unpack to; {_REMEDY}")


def verify_shard(path: Path | str) -> RunRecord:
    """Read a shard and re-derive, by another formula, all that is derived: confidence, correctness, counts.

    c = exp(-logsumexp(z - max z)) stands against the softmax that `RunRecord` uses.
    """
    record, header = _read(Path(path))
    recorded = tuple(header["run"].get(name) for name in ("n_samples", "n_correct"))
    if recorded != (record.n_samples, record.n_correct):
        raise CorruptShard(f"{path}: the recorded counts differ from the rows; {_REMEDY}")
    if record.logits is not None:
        below = record.logits.astype(np.float64)
        # An offset common to all logits of a row changes nothing, but kept in it would cost the digits after it.
        below -= below.max(axis=1, keepdims=True)
        slack = half.log_slack(record.logits) if half.is_half(record.logits) else 1e-12
        if (np.abs(logsumexp(below, axis=1) + np.log(record.confidence)) > slack).any():
            raise CorruptShard(f"{path}: confidence differs from the softmax of the logits; {_REMEDY}")
        predictions = (below == 0).argmax(axis=1)  # of classes that tie for the largest logit, the first
        if not np.array_equal(predictions == record.labels, record.correct):
            raise CorruptShard(f"{path}: correctness differs from the logits; {_REMEDY}")
    return record


def _columns(record: RunRecord) -> Columns:
    columns: Columns = {}
    if record.labels is not None:
        columns["label"] = record.labels.astype(np.int32)
    in_half = record.logits is not None and half.is_half(record.logits)
    if record.logits is None and record.predictions is not None:
        columns["prediction"] = record.predictions.astype(np.int32)
    if record.logits is None or in_half:
        columns["confidence"] = record.confidence
    if record.logits is None:
        columns["correct"] = record.correct
    columns |= {f"H_{layer + 1}": record.entropies[:, layer] for layer in range(record.n_layers)}
    if record.logits is not None and in_half:
        columns["logits"] = record.logits.astype(np.float16) + np.float16(0)  # counted in steps, -0 would become 0
    elif record.logits is not None:
        columns |= {f"logit_{k}": record.logits[:, k] for k in range(record.logits.shape[1])}
    columns |= {f"extra_{number}": column for number, column in enumerate(record.extra.values(), start=1)}
    if record.clusters is not None:
        columns["cluster"] = record.clusters.astype(np.int32)
    return {name: np.ascontiguousarray(column) for name, column in columns.items()}


def _arrow(column: NDArray[Any]) -> pa.Array:
    """A matrix becomes lists of equal length, row by row, so that its bytes are split and compressed together."""
    if column.ndim == 1:
        return pa.array(column)
    whole = half.in_steps(column) if column.dtype == np.float16 else None
    return pa.FixedSizeListArray.from_arrays((column if whole is None else whole).ravel(), column.shape[1])


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    if not pa.types.is_fixed_size_list(column.type):
        return np.ascontiguousarray(column.to_numpy())
    values = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    if values.dtype == np.uint16:
        values = half.from_steps(values)
    return np.ascontiguousarray(values).reshape(len(column), -1)


def _describe(record: RunRecord) -> dict[str, Any]:
    """All that is not a per-sample column, as JSON holds it."""
    return {
        "run_id": record.run_id,
        "suite": record.suite,
        "backbone": record.backbone,
        "dataset": record.dataset,
        "variant": record.variant,
        "block_size": record.block_size,
        "seed": record.seed,
        "epoch": record.epoch,
        "n_classes": record.n_classes,
        "n_samples": record.n_samples,
        "n_correct": record.n_correct,
        "layers": [[layer.name, layer.n_sources] for layer in record.layers],
        "extra_names": list(record.extra_names),
        "epochs": {name: record.epochs[name].tolist() for name in EPOCH_COLUMNS},
        "epoch_metrics": {name: record.epoch_metrics[name].tolist() for name in METRIC_COLUMNS},
        "config": dict(record.config),
        "provenance": dict(record.provenance),
        "capture": dict(record.capture),
        "created_at": record.created_at.isoformat(),
    }


def _rebuild(run: Mapping[str, Any], columns: Columns) -> RunRecord:
    def stacked(names: list[str]) -> NDArray[Any] | None:
        return np.column_stack([columns[name] for name in names]) if names else None

    logits = columns.get("logits")
    if "logit_0" in columns:
        logits = stacked([f"logit_{k}" for k in range(run["n_classes"])])
    return RunRecord(
        **{name: run[name] for name in ("run_id", "suite", "backbone", "dataset", "variant", "block_size", "seed")},
        epoch=run["epoch"],
        n_classes=run["n_classes"],
        logits=logits,
        labels=columns.get("label"),
        predictions=columns.get("prediction"),
        confidence=columns.get("confidence"),  # type: ignore[arg-type]
        correct=columns.get("correct"),  # type: ignore[arg-type]
        entropies=stacked([f"H_{layer + 1}" for layer in range(len(run["layers"]))]),  # type: ignore[arg-type]
        layers=[Layer(name, n_sources) for name, n_sources in run["layers"]],
        extra={name: columns[f"extra_{number}"] for number, name in enumerate(run["extra_names"], start=1)},
        epochs=pd.DataFrame(run["epochs"]),
        epoch_metrics=pd.DataFrame(run["epoch_metrics"]),
        config=run["config"],
        provenance=run["provenance"],
        capture=run.get("capture", {}),
        clusters=columns.get("cluster"),
        created_at=datetime.fromisoformat(run["created_at"]),
    )


def _digest(run: Mapping[str, Any], columns: Columns) -> str:
    """SHA-256 over the description and every column's name, type and bytes."""
    digest = hashlib.sha256(json.dumps(run, sort_keys=True).encode())
    for name, column in columns.items():
        digest.update(f"\n{name} {column.dtype.str} {column.shape}\n".encode())
        digest.update(column.data)
    return digest.hexdigest()


def _open(path: Path) -> pq.ParquetFile:
    if not path.is_file():
        raise CacheError(f"{path}: no such shard; build or import the run first")
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: names of columns
        raise CorruptShard(f"{path}: not a Parquet file, or cut short ({first_line(error)}); {_REMEDY}") from error


def _header(path: Path, file: pq.ParquetFile) -> dict[str, Any]:
    raw = (file.metadata.metadata or {}).get(_KEY)
    if raw is None:
        raise CorruptShard(
            f"{path}: not a shard but some other Parquet file; make a run of it with `python -m cache_builder import`"
        )
    try:
        header = json.loads(raw)
        version = header["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptShard(f"{path}: unreadable metadata ({first_line(error)}); {_REMEDY}") from error
    if version not in READABLE:
        raise CorruptShard(
            f"{path}: shard format {version}, but this release reads formats up to {FORMAT}; build the run again"
        )
    if not isinstance(header.get("run"), dict) or not isinstance(header.get("digest"), str):
        raise CorruptShard(f"{path}: incomplete metadata; {_REMEDY}")
    return dict(header)
