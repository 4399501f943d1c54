"""`python -m engine bench --scale`: measures, prints a table, and writes figures and plots."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from engine.bench.scale import GRIDS, Cell, growth, measure_grids
from engine.bench.scale_plot import scale_svg
from engine.bench.scale_work import OPERATIONS


def run_scale(out: Path, largest: int | None) -> int:
    """Measure every grid; leave `figures.json` and a plot of each grid of more than one size in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    cells: list[Cell] = []
    print(f"{'operation':<24}{'size':>36}{'seconds':>12}{'peak MB':>10}{'libraries':>11}")
    for grid in GRIDS:
        for cell in measure_grids([grid], largest=largest):
            cells.append(cell)
            print(_line(cell), flush=True)
        _write(out, cells)  # after each grid, so that a run that is cut short leaves the grids before
    _print_growth(cells)
    print(f"figures and plots written to {out}", file=sys.stderr)
    return 0


def _write(out: Path, cells: list[Cell]) -> None:
    figures = {"python": platform.python_version(), "cores": os.cpu_count(), "cells": [asdict(cell) for cell in cells]}
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    for grid in GRIDS:
        if len({cell.x for cell in cells if cell.grid == grid.name}) > 1:
            (out / f"{grid.name}.svg").write_text(scale_svg(grid, cells))


def _line(cell: Cell) -> str:
    size = f"{cell.size.runs:,} x {cell.size.samples:,}"
    if cell.size.classes is not None:
        size += f", {cell.size.classes:,} classes"
    start = f"{OPERATIONS[cell.operation].label:<24}{size:>36}"
    if cell.seconds is None or cell.peak_mb is None:
        return f"{start}  {cell.note}"
    return f"{start}{cell.seconds:12.4f}{cell.peak_mb:10.0f}{cell.libraries_mb:11.0f}"


def _print_growth(cells: list[Cell]) -> None:
    """The exponents of time and memory, where at least two sizes were measured."""
    print("\nGrowth between the two largest sizes measured: time ~ size^a, memory ~ size^b")
    for grid in GRIDS:
        for operation in grid.operations:
            own = [cell for cell in cells if (cell.grid, cell.operation) == (grid.name, operation)]
            time, memory = growth(own, lambda cell: cell.seconds), growth(own, lambda cell: cell.added_mb)
            if time is not None:
                printed = "" if memory is None else f"{memory:8.2f}"
                print(f"{OPERATIONS[operation].label:<24}{'by ' + grid.name:<14}{time:8.2f}{printed}")
