"""A 30-run sweep read from a DuckDB file."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from engine.bench.data import samples
from engine.bench.runner import Case, Work
from engine.core.contingency import tabulate
from engine.features import feature
from engine.gaps import bootstrap_gap_of_counts, permutation_test_of_counts
from engine.store import RunRecord, open_cache, publish, write_shard

N_RUNS = 30


def _sweep() -> tuple[Work, Mapping[str, Work]]:
    """Thirty runs of 10,000 samples and 16 layers: gap, exact p, null band and bootstrap of each."""
    folder = Path(tempfile.mkdtemp(prefix="routecal-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shards, path = folder / "shards", folder / "cache.duckdb"
    shards.mkdir()
    for seed in range(N_RUNS):
        confidence, correct, _ = samples(seed=seed)
        write_shard(
            RunRecord(
                run_id=f"run-{seed:02}",
                suite="bench",
                backbone="synthetic",
                dataset="synthetic",
                variant="full_ar",
                seed=seed,
                confidence=confidence,
                correct=correct,
                entropies=np.random.default_rng(seed).random((confidence.size, 16), dtype=np.float32),
            ),
            shards,
        )
    publish(shards, path)

    def work() -> None:
        with open_cache(path) as cache:
            for run_id in cache.runs()["run_id"]:
                run = cache.load(run_id, {"entropies"})
                contingency = tabulate(run.confidence, run.correct, feature(run, "r_agg"))
                result = permutation_test_of_counts(contingency)
                _ = result.p_value, result.band
                bootstrap_gap_of_counts(contingency)

    return work, {}


CASES: tuple[Case, ...] = (Case("30-run sweep from DuckDB", _sweep, limit_seconds=1.5, repeats=3),)
