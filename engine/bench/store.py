"""The cache: how fast runs are written, and read."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from engine.bench.runner import Case, Work
from engine.store import RunRecord, open_cache, publish, write_shard
from engine.store.synthetic import N_CLASSES, N_LAYERS, RUN_ID, write_synthetic_cache

N_SAMPLES = 10_000
N_RUNS = 30


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


CASES: tuple[Case, ...] = (
    Case("write and publish 30 runs of 10,000", _write_and_publish, limit_seconds=10.0, repeats=3),
    Case("load a run of 10,000 x 16 with logits", _load),
    Case("load the profile of 1,000,000 samples", _profile, repeats=3),
)
