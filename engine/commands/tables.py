"""`python -m engine tables CACHE --out DIR`: the paper's calibration tables for the runs of a cache, CSV and LaTeX."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from engine.benchmark import (
    bandwidth_sensitivity,
    calibration_size_sensitivity,
    feature_ablation,
    run_benchmark,
    split_variance,
)
from engine.benchmark.run import N_BOOTSTRAP
from engine.benchmark.sensitivity import SIZES
from engine.benchmark.setup import MIN_SAMPLES
from engine.benchmark.tables import Material, Table, build_tables
from engine.commands.command_line import terminal_progress
from engine.core.errors import InvalidInput, UnknownName
from engine.core.labels import is_ensemble
from engine.core.latex import Block, escape, number, render
from engine.core.types import Progress, RunData
from engine.probes import audit_sweep, probe_tables
from engine.store import Cache, open_cache
from engine.store.atomic import replacing

_PROBES = {
    "probe-sanity": "Held-out R2 of the five probes, pooled over runs: mean and std.",
    "routing-probe": "The naive comparison of each run: full-profile MLP against confidence-only linear probe.",
    "probe-contrasts": "Naive, capacity-matched and routing-specific contrasts by cell.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cache", nargs="?", help="cache file (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables; made if missing")
    parser.add_argument("--runs", nargs="+", metavar="RUN_ID", help="only these runs (default: all with logits)")


def run(arguments: argparse.Namespace) -> int:
    progress = terminal_progress()
    with open_cache(arguments.cache) as cache:
        material, left_out_runs = gather(cache, arguments.runs, progress=progress)
        tables, left_out_tables = build_tables(material)
        tables += probe_audit(cache, arguments.runs, progress=progress)
    for path in write_tables(tables, arguments.out):
        print(path)
    for what, reasons in (("run", left_out_runs), ("table", left_out_tables)):
        for name, reason in reasons.items():
            print(f"{what} left out: {name} ({reason})", file=sys.stderr)
    return 0


def gather(
    cache: Cache,
    run_ids: Sequence[str] | None = None,
    *,
    n_bootstrap: int = N_BOOTSTRAP,
    progress: Progress | None = None,
) -> tuple[Material, dict[str, str]]:
    """The benchmark and its studies for every run that can have one; the reasons for those that cannot.

    The studies that tables pool over runs leave out ensembles that nobody named, so that no training run counts twice.
    """
    runs = cache.runs()
    if run_ids is not None:
        for run_id in run_ids:
            if run_id not in set(runs["run_id"]):
                raise UnknownName("--runs", run_id, runs["run_id"])
        runs = runs[runs["run_id"].isin(run_ids)]
    left_out: dict[str, str] = {}
    for row in runs.to_dict("records"):
        if not row["has_logits"]:
            left_out[str(row["run_id"])] = "no logits"
        elif row["n_samples"] < MIN_SAMPLES:
            left_out[str(row["run_id"])] = f"fewer than {MIN_SAMPLES} samples"
    runs = runs[~runs["run_id"].isin(left_out)]
    parts: dict[str, list[pd.DataFrame]] = {name: [] for name in ("scores", "bandwidth", "ablation", "sizes", "splits")}
    single = ~is_ensemble(runs["suite"]) if run_ids is None else runs["run_id"].notna()
    for position, (run_id, is_pooled) in enumerate(zip(runs["run_id"], single, strict=True)):
        data = cache.load(str(run_id))
        studies = _studies(data, n_bootstrap, pooled=bool(is_pooled))
        for step, (name, study) in enumerate(studies.items()):
            if progress is not None:
                progress((position + step / len(studies)) / len(runs), f"{run_id}: {name}")
            parts[name].append(study())
    if progress is not None:
        progress(1.0, "done")
    frames = {name: pd.concat(found, ignore_index=True) if found else pd.DataFrame() for name, found in parts.items()}
    return Material(runs=runs, **frames), left_out


def probe_audit(cache: Cache, run_ids: Sequence[str] | None, *, progress: Progress | None = None) -> list[Table]:
    """The capacity-controlled audit of every run, pooled: the paper's two probe tables and the contrasts by cell.

    Ensembles that nobody named are left out, so that no training run counts twice.
    """
    if run_ids is None:
        runs = cache.runs()
        run_ids = runs.loc[~is_ensemble(runs["suite"]), "run_id"].tolist()
    sweep = audit_sweep(cache, run_ids=run_ids, progress=progress)
    tables = []
    for label, frame in probe_tables(sweep).items():
        name = label.removeprefix("tab:")
        cells = tuple(tuple(_cell(value) for value in row) for row in frame.itertuples(index=False))
        header = [escape(str(column)) for column in frame.columns]
        text = render(header, [Block("", cells)], caption=_PROBES[name], label=f"tab:{name}")
        tables.append(Table(name, _PROBES[name], frame, text))
    return tables


def _cell(value: object) -> str:
    if isinstance(value, float):
        return number(value, 4)
    return "--" if pd.isna(value) else escape(str(value))  # type: ignore[call-overload]


def _studies(data: RunData, n_bootstrap: int, *, pooled: bool) -> dict[str, Callable[[], pd.DataFrame]]:
    """What can be computed for this run, by the name of its part of the material; `pooled` adds what tables pool."""
    studies: dict[str, Callable[[], pd.DataFrame]] = {
        "scores": lambda: run_benchmark(data, n_bootstrap=n_bootstrap).scores,
        "ablation": lambda: feature_ablation(data),
    }
    if not pooled:
        return studies
    studies["splits"] = lambda: split_variance(data)
    if data.n_layers > 0:
        studies["bandwidth"] = lambda: bandwidth_sensitivity(data)
    if data.n_samples // 2 >= min(SIZES):
        studies["sizes"] = lambda: calibration_size_sensitivity(data)
    return studies


def write_tables(tables: Sequence[Table], directory: Path) -> list[Path]:
    """Write each table as NAME.csv and NAME.tex; a file appears whole or not at all."""
    written = []
    for table in tables:
        for suffix, text in ((".csv", table.frame.to_csv(index=False)), (".tex", table.latex)):
            target = directory / f"{table.name}{suffix}"
            try:
                with replacing(target) as temporary:
                    temporary.write_text(text, encoding="utf-8")
            except OSError as error:
                raise InvalidInput("--out", "a folder that can be written to", f"{directory} ({error})") from error
            written.append(target)
    return written
