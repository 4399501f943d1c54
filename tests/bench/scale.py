"""How every part of the store and the tests grows: with the samples of a run, the runs of a cache, the classes.

Each operation at each size runs in a process of its own, so that its peak memory is its own, and is stopped when it
takes too long. Growth is the exponent a of time ~ size^a between the two largest sizes that were measured.
"""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import CacheError
from tests.bench.scale_work import OPERATIONS, Size

CAP_SECONDS = 90.0
"""What an operation may take before it is stopped; building, on which the rest depends, may take longer."""
_BUILDING_CAP = 600.0
_BUILDING = ("write", "publish")


@dataclass(frozen=True)
class Grid:
    """Sizes along one axis and what is measured at each; the last size may be a case apart, outside the axis."""

    name: str
    axis: str
    along: Callable[[Size], int]
    sizes: Sequence[Size]
    operations: Sequence[str]


_READING = ("write", "publish", "verify", "open", "load")
GRIDS: tuple[Grid, ...] = (
    Grid(
        "samples",
        "samples in one run, 16 layers, no logits",
        lambda size: size.samples,
        [Size(1, 10**power) for power in (4, 5, 6, 7)],
        (*_READING, "count", "exact_test", "null", "trend_test", "surface", "regression"),
    ),
    Grid(
        "runs",
        "runs of 10,000 samples, 16 layers, 10 classes",
        lambda size: size.runs,
        [Size(runs, 10_000, 10) for runs in (10, 30, 100, 300)],
        ("write", "publish", "open", "load", "count", "diagnose"),
    ),
    Grid(
        "classes",
        "classes, one run of 5,000 samples with logits",
        lambda size: size.classes or 0,
        [Size(1, 5_000, classes) for classes in (10, 100, 1000)],
        (*_READING, "temperatures"),
    ),
    Grid(
        "large",
        "samples in all: 300 runs of 50,000, 16 layers, 10 classes",
        lambda size: size.in_all,
        [Size(300, 50_000, 10)],
        ("write", "publish", "open", "load", "count", "exact_test", "diagnose"),
    ),
)


@dataclass(frozen=True)
class Cell:
    """One operation at one size. Without seconds it was stopped after `cap` of them, killed, or lacked its input."""

    grid: str
    operation: str
    size: Size
    x: int
    cap: float
    seconds: float | None = None
    peak_mb: float | None = None
    libraries_mb: float | None = None
    note: str = ""

    @property
    def added_mb(self) -> float | None:
        """Peak memory beyond that of the imported libraries."""
        return None if self.peak_mb is None or self.libraries_mb is None else self.peak_mb - self.libraries_mb


def measure_grids(grids: Sequence[Grid], *, largest: int | None = None, cap: float = CAP_SECONDS) -> Iterator[Cell]:
    """Every cell as it is measured; sizes of more than `largest` samples in all are left out."""
    for grid in grids:
        for size in grid.sizes:
            if largest is None or size.in_all <= largest:
                yield from _measure_size(grid, size, cap)


def _measure_size(grid: Grid, size: Size, cap: float) -> Iterator[Cell]:
    folder = Path(tempfile.mkdtemp(prefix="routecal-scale-"))
    lacking = ""
    try:
        for operation in grid.operations:
            allowed = max(cap, _BUILDING_CAP) if operation in _BUILDING else cap
            if lacking:
                yield Cell(grid.name, operation, size, grid.along(size), allowed, note=lacking)
                continue
            cell = _measure(grid, operation, size, folder, allowed)
            if cell.seconds is None and operation in _BUILDING:
                lacking = f"not measured: {OPERATIONS[operation].label} did not finish"
            yield cell
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(grid: Grid, operation: str, size: Size, folder: Path, cap: float) -> Cell:
    asked = {"operation": operation, "folder": str(folder)}
    asked |= {"runs": size.runs, "samples": size.samples, "classes": size.classes}
    command = [sys.executable, "-m", "tests.bench.scale_work", json.dumps(asked)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=cap)
    except subprocess.TimeoutExpired:
        return Cell(grid.name, operation, size, grid.along(size), cap, note=f"stopped after {cap:g} s")
    if child.returncode < 0:  # killed from outside: where memory is short, that is what its lack looks like
        note = f"killed by {signal.Signals(-child.returncode).name}"
        return Cell(grid.name, operation, size, grid.along(size), cap, note=note)
    if child.returncode:
        raise CacheError(f"{OPERATIONS[operation].label} at {size} failed:\n{child.stderr.strip()}")
    return Cell(grid.name, operation, size, grid.along(size), cap, **json.loads(child.stdout))


def growth(cells: Sequence[Cell], quantity: Callable[[Cell], float | None]) -> float | None:
    """The exponent between the two largest sizes at which one operation was measured; None with fewer than two."""
    points = sorted((cell.x, value) for cell in cells if (value := quantity(cell)) is not None and value > 0)
    if len(points) < 2 or points[-1][0] == points[-2][0]:
        return None
    (x1, y1), (x2, y2) = points[-2:]
    return math.log(y2 / y1) / math.log(x2 / x1)
