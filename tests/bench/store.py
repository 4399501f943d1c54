"""The cache: how fast runs are written, read and diagnosed."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from engine.core.contingency import tabulate
from engine.features import feature
from engine.gaps import bootstrap_gap_of_counts, permutation_test_of_counts
from engine.store import RunRecord, open_cache, publish, write_shard
from engine.store.schema import DDL, SCHEMA_VERSION
from tests.bench.runner import Case, Work

N_SAMPLES = 10_000
N_RUNS = 30
RUN_ID = "synthetic"
N_LAYERS = 16
N_CLASSES = 10


@cache
def _folder() -> Path:
    """A folder that lasts as long as the process."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Path(folder.name)


@cache
def _records() -> list[RunRecord]:
    rng = np.random.default_rng(0)
    return [
        RunRecord(
            run_id=f"run_{number:02d}",
            suite="bench",
            backbone="none",
            dataset="none",
            variant="none",
            seed=number,
            logits=rng.normal(size=(N_SAMPLES, N_CLASSES)) * 3,
            labels=rng.integers(0, N_CLASSES, N_SAMPLES),
            entropies=rng.beta(8, 2, size=(N_SAMPLES, N_LAYERS)),
        )
        for number in range(N_RUNS)
    ]


@cache
def _published() -> Path:
    for record in _records():
        write_shard(record, _folder() / "shards")
    return publish(_folder() / "shards", _folder() / "cache.duckdb").path


def _write_and_publish() -> tuple[Work, Mapping[str, Work]]:
    records = _records()

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            for record in records:
                write_shard(record, Path(folder) / "shards")
            publish(Path(folder) / "shards", Path(folder) / "cache.duckdb")

    return ours, {}


def _load() -> tuple[Work, Mapping[str, Work]]:
    opened = open_cache(_published())
    shard = _folder() / "shards" / "run_00.parquet"

    def with_pandas() -> object:
        frame = pd.read_parquet(shard)
        profile = frame.filter(regex="^H_").to_numpy(np.float64)
        return frame["label"].to_numpy(np.int64), profile, frame.filter(regex="^logit_").to_numpy(np.float64)

    return lambda: opened.load("run_00"), {"pandas, from the shard": with_pandas}


def _profile() -> tuple[Work, Mapping[str, Work]]:
    opened = open_cache(write_synthetic_cache(_folder() / "million.duckdb", 1_000_000))

    return lambda: opened.load(RUN_ID, {"entropies"}), {"every column": lambda: opened.load(RUN_ID)}


def _sweep() -> tuple[Work, Mapping[str, Work]]:
    """Thirty runs of 10,000 samples and 16 layers: gap, exact p, null band and bootstrap of each."""

    def work() -> None:
        with open_cache(_published()) as cache:
            for run_id in cache.runs()["run_id"]:
                run = cache.load(run_id, {"entropies"})
                contingency = tabulate(run.confidence, run.correct, feature(run, "r_agg"))
                result = permutation_test_of_counts(contingency)
                _ = result.p_value, result.band
                bootstrap_gap_of_counts(contingency)

    return work, {}


def write_synthetic_cache(path: Path, n: int) -> Path:
    """One run of n samples with a 16-layer profile and no logits; independent of any seed."""

    def noise(stream: int) -> str:
        return f"(hash(sample_id * 1000003 + {stream}) % 1000003) / 1000003.0"

    confidence = f"sqrt({noise(50)})"
    profile = ", ".join(f"0.4 + 0.5 * {noise(layer)}" for layer in range(N_LAYERS))
    with duckdb.connect(str(path)) as connection:
        connection.execute(DDL)
        connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", [SCHEMA_VERSION])
        connection.execute(
            """INSERT INTO runs VALUES ($run_id, 'bench', 'none', 'none', 'none', NULL, NULL, NULL, $n, $n_classes,
               $n_layers, 0.5, false, [], '{}', '{}', TIMESTAMP '2026-01-01')""",
            {"run_id": RUN_ID, "n": n, "n_classes": N_CLASSES, "n_layers": N_LAYERS},
        )
        connection.execute(
            f"""INSERT INTO samples
                SELECT '{RUN_ID}', sample_id, NULL, NULL, {confidence}, {noise(51)} < {confidence},
                    [{profile}]::FLOAT[], []::FLOAT[]
                FROM (SELECT range AS sample_id FROM range({n}))"""
        )
    return path


CASES: tuple[Case, ...] = (
    Case("write and publish 30 runs of 10,000", _write_and_publish, limit_seconds=10.0, repeats=3),
    Case("30-run sweep from DuckDB", _sweep, limit_seconds=1.5, repeats=3),
    Case("load a run of 10,000 x 16 with logits", _load),
    Case("load the profile of 1,000,000 samples", _profile, repeats=3),
)
