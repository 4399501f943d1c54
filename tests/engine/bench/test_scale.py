"""The scale bench: its arithmetic, its children, its plots; never a promise about seconds."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.bench.scale import GRIDS, Cell, Grid, growth, measure_grids
from engine.bench.scale_data import SEEDS_PER_CELL, made_up_run, write_sweep
from engine.bench.scale_plot import scale_svg
from engine.bench.scale_work import OPERATIONS, Size, measure_here
from engine.core.types import CELL
from engine.store import open_cache, publish

SIZES = [Size(1, 300), Size(1, 600)]
SMALL = Grid("samples", "samples", lambda size: size.samples, SIZES, ("write", "publish", "open"))
TEXT = "{http://www.w3.org/2000/svg}text"


def cell(operation: str, x: int, seconds: float | None = None, mb: float | None = None, note: str = "") -> Cell:
    return Cell("samples", operation, Size(1, x), x, 60.0, seconds, mb, None if mb is None else 0.0, note)


def test_growth_is_the_slope_between_the_two_largest_sizes_measured():
    cells = [cell("load", 10, 5.0), cell("load", 100, 1.0), cell("load", 1000, 100.0), cell("load", 10_000, note="x")]
    assert growth(cells, lambda one: one.seconds) == pytest.approx(2.0)
    assert growth(cells[:1], lambda one: one.seconds) is None
    assert growth(cells, lambda one: one.added_mb) is None


def test_every_grid_asks_for_known_operations_and_begins_with_what_the_others_read():
    for grid in GRIDS:
        assert set(grid.operations) <= set(OPERATIONS)
        assert grid.operations[:2] == ("write", "publish")
        along = [grid.along(size) for size in grid.sizes]
        assert along == sorted(set(along))


def test_a_sweep_is_made_of_cells_of_five_seeds(tmp_path: Path):
    write_sweep(tmp_path / "shards", 2 * SEEDS_PER_CELL, 40)
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        runs = cache.runs()
    assert runs.groupby(list(CELL), dropna=False)["seed"].apply(list).tolist() == [[0, 1, 2, 3, 4]] * 2


def test_no_two_cells_of_a_large_sweep_are_alike():
    firsts = [made_up_run(number, 4) for number in range(0, 700, SEEDS_PER_CELL)]
    assert len({(run.suite, run.backbone, run.dataset, run.variant) for run in firsts}) == len(firsts)


@pytest.mark.parametrize("classes", [None, 3])
def test_every_operation_runs(tmp_path: Path, classes: int | None):
    for name in OPERATIONS:
        if name == "temperatures" and classes is None:
            continue
        measured = measure_here(name, tmp_path, Size(2, 400, classes))
        assert measured["seconds"] > 0, name
        assert measured["peak_mb"] > 0, name


def test_children_measure_each_size_and_larger_ones_are_left_out():
    cells = list(measure_grids([SMALL], largest=300))
    assert [(one.operation, one.x) for one in cells] == [("write", 300), ("publish", 300), ("open", 300)]
    assert all(one.seconds > 0 and one.added_mb > 0 and one.libraries_mb > 0 for one in cells)


def test_what_takes_too_long_is_stopped_and_said_so(monkeypatch):
    monkeypatch.setattr("engine.bench.scale._BUILDING", ("write",))
    cells = list(measure_grids([SMALL], largest=300, cap=0.01))
    assert cells[0].seconds is not None
    assert [one.note for one in cells] == ["", "stopped after 0.01 s", "stopped after 0.01 s"]
    assert cells[1].seconds is cells[1].added_mb is None


def test_without_what_comes_before_nothing_is_measured(monkeypatch):
    monkeypatch.setattr("engine.bench.scale._BUILDING_CAP", 0.01)
    notes = [one.note for one in measure_grids([SMALL], largest=300, cap=0.01)]
    assert notes == ["stopped after 0.01 s", *["not measured: write shards did not finish"] * 2]


def test_a_killed_child_is_a_gap_in_the_table_and_not_the_end_of_it(monkeypatch):
    killed = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    run = subprocess.run
    monkeypatch.setattr("engine.bench.scale.subprocess.run", lambda _, **options: run(killed, **options))
    cells = list(measure_grids([SMALL], largest=300))
    assert [one.note for one in cells] == ["killed by SIGKILL", *["not measured: write shards did not finish"] * 2]


def test_plot_names_every_line_apart_from_its_neighbours():
    cells = [cell(name, x, x * 1e-6, x * 1e-2) for name in SMALL.operations[:2] for x in (300, 600)]
    cells += [cell("open", 300, 1e-3, 3.0), cell("open", 600, note="stopped after 60 s")]
    drawn = ET.fromstring(scale_svg(SMALL, cells))
    texts = [(float(text.get("y", 0)), "".join(text.itertext())) for text in drawn.iter(TEXT)]
    for name in SMALL.operations:
        assert [said for _, said in texts].count(OPERATIONS[name].label) == 2, "time and memory"
    assert "stopped after 60 s" in [said for _, said in texts]
    names = {OPERATIONS[name].label for name in SMALL.operations}
    labels = [y for y, said in texts if said in names]
    for panel in (sorted(labels[:3]), sorted(labels[3:])):
        assert all(below - above >= 16.9 for above, below in pairwise(panel))
    assert min(float(node.get("font-size", 14)) for node in drawn.iter()) >= 13


def test_command_writes_figures_and_plots(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr("engine.commands.bench_scale.GRIDS", (SMALL,))
    assert main(["bench", "--scale", "--out", str(tmp_path / "out")]) == 0
    figures = json.loads((tmp_path / "out/figures.json").read_text())
    assert [(one["operation"], one["x"]) for one in figures["cells"]] == [
        (operation, size.samples) for size in SMALL.sizes for operation in SMALL.operations
    ]
    ET.parse(tmp_path / "out/samples.svg")
    printed = capsys.readouterr().out
    assert "1 x 600" in printed
    assert "by samples" in printed
