"""The cache: how fast runs are written and read, and how counting in SQL grows with the number of samples."""

from __future__ import annotations

import atexit
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from engine.bench.runner import Case, Work
from engine.binning import Matching
from engine.contingency import tabulate
from engine.features import feature
from engine.store import RunRecord, open_cache, publish, write_shard
from engine.store.synthetic import N_CLASSES, N_LAYERS, RUN_ID, write_synthetic_cache

N_SAMPLES = 10_000
N_RUNS = 30
SIZES = (100_000, 1_000_000, 10_000_000)


@dataclass(frozen=True)
class Scaling:
    """One contingency table counted in a process of its own."""

    n: int
    seconds: float
    peak_mb: float


def contingency_scaling(
    sizes: Sequence[int] = SIZES, feature_name: str = "r_std", matching: Matching = "equal_width"
) -> list[Scaling]:
    """Seconds and peak memory of `Cache.contingency` for growing runs, each in a child process."""
    rows = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scaling.duckdb"
            write_synthetic_cache(path, n, with_logits=feature_name == "pred_entropy")
            child = subprocess.run(
                [sys.executable, "-m", "engine.bench.store", str(path), feature_name, matching],
                capture_output=True,
                text=True,
                check=True,
            )
        measured = json.loads(child.stdout)
        rows.append(Scaling(n, measured["seconds"], measured["peak_mb"]))
    return rows


def _measure_here(path: str, feature_name: str, matching: Matching) -> dict[str, float]:
    with open_cache(path) as opened:
        start = time.perf_counter()
        opened.contingency(RUN_ID, feature_name, matching=matching)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_mb": _peak_mb()}


def _peak_mb() -> float:
    """Peak memory of this process; `ru_maxrss` would start from the parent's, which a child inherits on Linux."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS


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


def _count() -> tuple[Work, Mapping[str, Work]]:
    opened = open_cache(write_synthetic_cache(_folder() / "million.duckdb", 1_000_000))

    def in_memory() -> object:
        run = opened.load(RUN_ID)
        return tabulate(run.confidence, run.correct, feature(run, "r_std"))

    return lambda: opened.contingency(RUN_ID, "r_std"), {"load, then numpy": in_memory}


CASES: tuple[Case, ...] = (
    Case("write and publish 30 runs of 10,000", _write_and_publish, limit_seconds=10.0, repeats=3),
    Case("load a run of 10,000 x 16 with logits", _load),
    Case("contingency in SQL, 1,000,000 samples", _count, repeats=3),
)


if __name__ == "__main__":
    measured_path, measured_feature, measured_matching = sys.argv[1:4]
    print(json.dumps(_measure_here(measured_path, measured_feature, measured_matching)))  # type: ignore[arg-type]
