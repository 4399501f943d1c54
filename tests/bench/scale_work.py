"""The operations whose growth is measured, and the child process that measures one of them.

`python -m tests.bench.scale_work '{"operation": ..., "folder": ..., "runs": ..., "samples": ..., "classes": ...}'`
prints seconds, peak memory and what of it the imported libraries take, as JSON. Operations of one size share a folder:
`write` leaves shards there, `publish` a cache, all others read them.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import MappingProxyType

import numpy as np

from engine.core.contingency import Contingency, tabulate
from engine.core.types import BoolArray, FloatArray
from engine.features import columns_of, feature
from engine.gaps import permutation_test_of_counts, trend_test
from engine.kernel import nw_regress, nw_surface, scott_bandwidth, solve_temperature
from engine.store import Cache, open_cache, publish, verify_shard, write_shard
from engine.sweep import diagnose
from tests.bench.data import synthetic_run
from tests.bench.runner import Work

RUN_ID = "run-0000"
FEATURE = "r_std"
_MOST_REPEATS = 5
_ENOUGH_SECONDS = 1.0
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Size:
    """A cache of so many runs, samples each and classes; None for runs without logits."""

    runs: int
    samples: int
    classes: int | None = None

    @property
    def in_all(self) -> int:
        """Samples of all runs together."""
        return self.runs * self.samples


def _field(name: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def held_mb() -> float:
    """Resident memory now; where the system does not say, the most so far."""
    return _field("VmRSS") if _STATUS.exists() else peak_mb()


def peak_mb() -> float:
    """Most resident memory so far; `ru_maxrss` would start from the parent's, which a child inherits on Linux."""
    if _STATUS.exists():
        return _field("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS


def forget_peak() -> None:
    """Start the peak anew from what is held now; only Linux can, elsewhere the peak includes the preparation."""
    if _CLEAR.exists():
        _CLEAR.write_text("5")


def _typical(work: Work) -> float:
    """Median seconds of a few calls; of one call if that takes a second."""
    forget_peak()
    laps: list[float] = []
    while len(laps) < _MOST_REPEATS and sum(laps) < _ENOUGH_SECONDS:
        laps.append(_once(work))
    return median(laps)


def _once(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _cache(folder: Path) -> Path:
    return folder / "cache.duckdb"


def _write(folder: Path, size: Size) -> float:
    seconds = 0.0
    for number in range(size.runs):
        record = synthetic_run(number, size.samples, size.classes)
        if number == 0:
            forget_peak()
        seconds += _once(lambda record=record: write_shard(record, folder / "shards"))
    return seconds


def _publish(folder: Path, size: Size) -> float:  # noqa: ARG001
    return _once(lambda: publish(folder / "shards", _cache(folder)))


def _verify(folder: Path, size: Size) -> float:  # noqa: ARG001
    return _typical(lambda: verify_shard(folder / "shards" / f"{RUN_ID}.parquet"))


def _open(folder: Path, size: Size) -> float:  # noqa: ARG001
    def work() -> None:
        with open_cache(_cache(folder)) as cache:
            cache.runs()

    return _typical(work)


def _load(folder: Path, size: Size) -> float:  # noqa: ARG001
    with open_cache(_cache(folder)) as cache:
        return _typical(lambda: cache.load(RUN_ID))


def _counts(cache: Cache) -> Contingency:
    """What the paper's gap needs, of the columns that the feature needs."""
    run = cache.load(RUN_ID, columns_of(FEATURE))
    return tabulate(run.confidence, run.correct, feature(run, FEATURE))


def _count(folder: Path, size: Size) -> float:  # noqa: ARG001
    with open_cache(_cache(folder)) as cache:
        return _typical(lambda: _counts(cache))


def _exact_test(folder: Path, size: Size) -> float:  # noqa: ARG001
    with open_cache(_cache(folder)) as cache:
        counts = _counts(cache)
    return _typical(lambda: permutation_test_of_counts(counts).p_value)


def _null(folder: Path, size: Size) -> float:  # noqa: ARG001
    with open_cache(_cache(folder)) as cache:
        counts = _counts(cache)
    return _typical(lambda: permutation_test_of_counts(counts).null)


def _trend_test(folder: Path, size: Size) -> float:  # noqa: ARG001
    regressors, correct = _regression_data(folder)
    confidence, rho = np.ascontiguousarray(regressors[:, 0]), np.ascontiguousarray(regressors[:, 1])
    return _typical(lambda: trend_test(confidence, correct, rho))


def _regression_data(folder: Path) -> tuple[FloatArray, BoolArray]:
    """Confidence and feature of every sample, and correctness."""
    with open_cache(_cache(folder)) as cache:
        run = cache.load(RUN_ID, columns_of(FEATURE))
    return np.column_stack([run.confidence, feature(run, FEATURE)]), run.correct


def _surface(folder: Path, size: Size) -> float:  # noqa: ARG001
    points, correct = _regression_data(folder)
    bandwidth, target = scott_bandwidth(points), correct.astype(np.float64)
    first, second = (np.linspace(column.min(), column.max(), 128) for column in points.T)
    return _typical(lambda: nw_surface(points, target, bandwidth, (first, second)))


def _regression(folder: Path, size: Size) -> float:  # noqa: ARG001
    points, correct = _regression_data(folder)
    fitted, target, asked = points[::2], correct[::2].astype(np.float64), points[1::2]
    bandwidth = scott_bandwidth(fitted)
    return _typical(lambda: nw_regress(fitted, target, asked, bandwidth))


def _temperatures(folder: Path, size: Size) -> float:
    if size.classes is None:
        raise ValueError("temperatures need logits")
    with open_cache(_cache(folder)) as cache:
        run = cache.load(RUN_ID)
    target = np.clip(0.9 * run.confidence, 1 / size.classes + 1e-6, 1 - 1e-6)
    logits = run.logits
    assert logits is not None
    return _typical(lambda: solve_temperature(logits, target))


def _diagnose(folder: Path, size: Size) -> float:  # noqa: ARG001
    with open_cache(_cache(folder)) as cache:
        forget_peak()
        return _once(lambda: diagnose(cache))


@dataclass(frozen=True)
class Operation:
    """What is measured, in words, and how: a function of the folder and the size that returns seconds."""

    label: str
    measure: Callable[[Path, Size], float]


OPERATIONS: Mapping[str, Operation] = MappingProxyType({
    "write": Operation("write shards", _write),
    "publish": Operation("publish", _publish),
    "verify": Operation("verify a shard", _verify),
    "open": Operation("open", _open),
    "load": Operation("load one run", _load),
    "count": Operation("read a feature and count", _count),
    "exact_test": Operation("exact p from counts", _exact_test),
    "null": Operation("whole null from counts", _null),
    "trend_test": Operation("primary p from rows", _trend_test),
    "surface": Operation("NW surface, quick", _surface),
    "regression": Operation("NW, half on half", _regression),
    "temperatures": Operation("temperatures", _temperatures),
    "diagnose": Operation("diagnose every run", _diagnose),
})  # fmt: skip


def measure_here(operation: str, folder: Path, size: Size) -> dict[str, float]:
    """Seconds of an operation in this process, its peak memory, and the memory held before it."""
    libraries = held_mb()
    seconds = OPERATIONS[operation].measure(folder, size)
    return {"seconds": seconds, "peak_mb": peak_mb(), "libraries_mb": libraries}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    size_asked = Size(asked["runs"], asked["samples"], asked["classes"])
    print(json.dumps(measure_here(asked["operation"], Path(asked["folder"]), size_asked)))
