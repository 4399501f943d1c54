"""`python -m tests.bench`: everything that claims to be fast, beside its best peer, in one run.

`--scale` measures instead how the store and the tests grow with samples, runs and classes; `--redraw` draws the plots
of an earlier `--scale` again. What routing costs the models is timed by `python -m tests.bench.models`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from tests.bench import scale
from tests.bench.runner import Timing, measure
from tests.bench.scale import Cell, growth, measure_grids
from tests.bench.scale_plot import draw
from tests.bench.scale_work import OPERATIONS, Size

# Each module exposes CASES; a module's name is also what `--only` takes.
MODULES = ("metrics", "gaps", "store", "kernel", "calibrators", "probes")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=MODULES, default=list(MODULES), help="parts to run")
    parser.add_argument("--json", type=Path, default=Path("bench.json"), help="file for the figures")
    parser.add_argument("--scale", action="store_true", help="measure growth with samples, runs and classes instead")
    parser.add_argument("--redraw", action="store_true", help="draw the plots of the figures in --out, measure nothing")
    parser.add_argument("--out", type=Path, default=Path("bench-scale"), help="folder for figures and plots of --scale")
    parser.add_argument(
        "--largest", type=int, metavar="N", help="with --scale: leave out caches of more than N samples in all"
    )
    chosen = parser.parse_args(arguments)
    if chosen.redraw:
        figures = json.loads((chosen.out / "figures.json").read_text())
        _draw(chosen.out, [Cell(**{**cell, "size": Size(**cell["size"])}) for cell in figures["cells"]])
    elif chosen.scale:
        _measure_growth(chosen.out, chosen.largest)
    else:
        _time_parts(chosen.only, chosen.json)
    return 0


def _time_parts(names: list[str], figures: Path) -> None:
    print(f"{'work':<46}{'ours':>13}  {'fastest peer takes':<46}{'promise':<14}")
    timings = []
    for name in names:
        for case in importlib.import_module(f"tests.bench.{name}").CASES:
            timing = measure(case)
            timings.append({"part": name, **asdict(timing)})
            print(_timing_line(timing), flush=True)
    figures.write_text(json.dumps({"python": platform.python_version(), "timings": timings}, indent=2) + "\n")
    print(f"figures written to {figures}", file=sys.stderr)


def _timing_line(timing: Timing) -> str:
    ours = f"{timing.seconds * 1e3:10.2f} ms"
    if timing.ratio is None:
        best = ""
    else:
        name = min(timing.peers, key=lambda peer: timing.peers[peer])
        best = f"{timing.ratio:8.1f}x  {name}"
    promise = []
    if timing.target is not None:
        promise.append(f">= {timing.target:g}x")
    if timing.limit_seconds is not None:
        promise.append(f"<= {timing.limit_seconds * 1e3:g} ms")
    kept = {True: "kept", False: "MISSED", None: ""}[timing.kept]
    return f"{timing.name:<46.46}{ours}  {best:<46.46}{' '.join(promise):<14}{kept}"


def _measure_growth(out: Path, largest: int | None) -> None:
    """Measure every grid; leave `figures.json` and a plot of each grid of more than one size in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    cells: list[Cell] = []
    print(f"{'operation':<24}{'size':>36}{'seconds':>12}{'peak MB':>10}{'libraries':>11}")
    for grid in scale.GRIDS:
        for cell in measure_grids([grid], largest=largest):
            cells.append(cell)
            print(_cell_line(cell), flush=True)
        # After each grid, so that a run that is cut short leaves the grids before.
        machine = {"python": platform.python_version(), "cores": os.cpu_count()}
        figures = {**machine, "cells": [asdict(cell) for cell in cells]}
        (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    _draw(out, cells)
    _print_growth(cells)
    print(f"figures and plots written to {out}", file=sys.stderr)


def _draw(out: Path, cells: list[Cell]) -> None:
    for grid in scale.GRIDS:
        if len({cell.x for cell in cells if cell.grid == grid.name}) > 1:
            draw(grid, cells, out / f"{grid.name}.svg")


def _cell_line(cell: Cell) -> str:
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
    for grid in scale.GRIDS:
        for operation in grid.operations:
            own = [cell for cell in cells if (cell.grid, cell.operation) == (grid.name, operation)]
            time, memory = growth(own, lambda cell: cell.seconds), growth(own, lambda cell: cell.added_mb)
            if time is not None:
                printed = "" if memory is None else f"{memory:8.2f}"
                print(f"{OPERATIONS[operation].label:<24}{'by ' + grid.name:<14}{time:8.2f}{printed}")


if __name__ == "__main__":
    sys.exit(main())
