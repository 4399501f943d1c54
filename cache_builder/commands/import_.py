"""`import`: import per-sample outputs as a run."""

import argparse
import platform
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from cache_builder.commands.shared_options import refuse_taken
from cache_builder.provenance import code_version
from engine.core.errors import InvalidInput
from engine.importing import (
    ColumnMapping,
    RunIdentity,
    Table,
    build_record,
    choose_columns,
    guess_mapping,
    read_table,
)
from engine.store import default_shards_directory, write_shard
from engine.store.record import EPOCH_COLUMNS

_SINGLE = {
    "label": "column of true class numbers, from 0",
    "confidence": "column of top probabilities",
    "correct": "column of 0/1 correctness",
    "prediction": "column of predicted class numbers",
    "cluster": "column of numbers of what samples share, such as the sequence of a token",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Roles not named are guessed from common column names (logits, probs, labels, ground_truth, conf, pred, "
        "correct, H_1, H_2, ..., entropies). PATTERN is a column name, or a pattern such as 'logit_*'."
    )
    parser.add_argument("file", type=Path, help="a .parquet, .csv or .npz file, one row per sample")
    parser.add_argument("--run-id", required=True, help="name of the run: letters, digits, dots, dashes, underscores")
    defaults = RunIdentity("run")
    for name in ("suite", "backbone", "dataset", "variant"):
        parser.add_argument(f"--{name}", default=getattr(defaults, name), help="(default: %(default)s)")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--block-size", type=int, help="of a Block-AR or AttnRes run")
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument("--logits", metavar="PATTERN", help="matrix column, or one column per class")
    outputs.add_argument("--probabilities", metavar="PATTERN", help="the same for probabilities")
    outputs.add_argument("--confidence", metavar="COLUMN", help=_SINGLE["confidence"])
    for name in ("correct", "prediction", "label", "cluster"):
        parser.add_argument(f"--{name}", metavar="COLUMN", help=_SINGLE[name])
    parser.add_argument("--profile", metavar="PATTERN", nargs="+", default=(), help="routing entropies in [0, 1]")
    parser.add_argument(
        "--epoch-entropies",
        type=Path,
        metavar="FILE",
        help=f"entropies during training: a table with columns {', '.join(EPOCH_COLUMNS)}, layers counted from 1",
    )
    parser.add_argument("--extra", metavar="PATTERN", nargs="+", default=(), help="further columns to keep")
    parser.add_argument("--out", type=Path, default=default_shards_directory(), help="directory for the shard")


def run(arguments: argparse.Namespace) -> int:
    start = time.perf_counter()
    refuse_taken(arguments.out, arguments.run_id)
    table = read_table(arguments.file)
    mapping = chosen_mapping(table, arguments)
    identity = RunIdentity(**{field.name: getattr(arguments, field.name) for field in fields(RunIdentity)})
    during = None if arguments.epoch_entropies is None else epoch_entropies(arguments.epoch_entropies)
    record = build_record(table.columns, mapping, identity, _provenance(table, time.perf_counter() - start), during)
    path = write_shard(record, arguments.out)
    roles = {role: value for role, value in vars(mapping).items() if value}
    print("read as: " + "; ".join(f"{role} = {_listed(value)}" for role, value in roles.items()))
    for note in record.provenance["notes"]:
        print(f"note: {note}")
    for name, reason in table.ignored.items():
        print(f"left out: {name} {reason}")
    print(f"wrote {path}: {record.n_samples:,} samples, accuracy {record.accuracy:.4f}; publish it to see it")
    return 0


def epoch_entropies(file: Path) -> pd.DataFrame:
    """Mean and standard deviation over samples of H_l after some epochs, one row per epoch and layer."""
    columns = read_table(file).columns
    missing = [name for name in EPOCH_COLUMNS if name not in columns or columns[name].ndim != 1]
    if missing:
        raise InvalidInput("--epoch-entropies", f"columns {', '.join(EPOCH_COLUMNS)}", f"no {', '.join(missing)}")
    return pd.DataFrame({name: columns[name] for name in EPOCH_COLUMNS})


def chosen_mapping(table: Table, arguments: argparse.Namespace) -> ColumnMapping:
    """The guess, with every role that was named replaced; naming one kind of outputs drops the guess of another."""
    columns = table.columns

    def named(role: str, patterns: Sequence[str]) -> tuple[str, ...]:
        return choose_columns(columns, patterns, f"--{role}")

    mapping = guess_mapping(columns)
    others = ColumnMapping(label=mapping.label, profile=mapping.profile, cluster=mapping.cluster)
    if arguments.logits is not None:
        mapping = replace(others, logits=named("logits", [arguments.logits]))
    elif arguments.probabilities is not None:
        mapping = replace(others, probabilities=named("probabilities", [arguments.probabilities]))
    elif any(getattr(arguments, role) is not None for role in ("confidence", "correct", "prediction")):
        classes = {*mapping.logits, *mapping.probabilities}
        mapping = guess_mapping({name: values for name, values in columns.items() if name not in classes})
    singles = {
        role: named(role, [getattr(arguments, role)])[0] for role in _SINGLE if getattr(arguments, role) is not None
    }
    mapping = ColumnMapping(**(vars(mapping) | singles))
    if arguments.profile:
        mapping = replace(mapping, profile=named("profile", arguments.profile))
    return replace(mapping, extra=named("extra", arguments.extra))


def _provenance(table: Table, seconds: float) -> dict[str, Any]:
    return {
        "source": f"import of {table.name}",
        "commit": code_version(),
        "versions": {"python": platform.python_version(), "numpy": version("numpy"), "pyarrow": version("pyarrow")},
        "device": "unknown",
        "seconds": round(seconds, 3),
        "data_fingerprint": table.fingerprint,
        "file_bytes": table.n_bytes,
    }


def _listed(value: str | tuple[str, ...]) -> str:
    if isinstance(value, str):
        return value
    return ", ".join(value) if len(value) <= 4 else f"{value[0]}, ..., {value[-1]} ({len(value)} columns)"
