"""The benches run, on small inputs, and write what they found; never a promise about seconds."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from engine.core.types import CELL
from engine.store import open_cache, publish
from tests.bench import models, probes
from tests.bench.__main__ import MODULES, main
from tests.bench.data import SEEDS_PER_CELL, write_sweep
from tests.bench.runner import Case, Timing
from tests.bench.scale import GRIDS, Cell, Grid, growth, measure_grids
from tests.bench.scale_plot import draw, spread
from tests.bench.scale_work import OPERATIONS, Size, measure_here

SIZES = [Size(1, 300), Size(1, 600)]
SMALL = Grid("samples", "samples", lambda size: size.samples, SIZES, ("write", "publish", "open"))


def test_a_ratio_is_against_the_fastest_peer_and_a_ceiling_is_a_promise_too():
    timing = Timing("work", 0.5, {"slow": 10.0, "quick": 2.0}, target=3.0, limit_seconds=None)
    assert (timing.ratio, timing.kept) == (4.0, True)
    assert Timing("work", 0.5, {"quick": 1.0}, target=3.0, limit_seconds=None).kept is False
    assert [Timing("work", 0.5, {}, None, limit).kept for limit in (1.0, 0.1, None)] == [True, False, None]


def test_the_command_times_ours_and_every_peer(tmp_path: Path, monkeypatch, capsys):
    quick = (Case("nothing", lambda: (lambda: None, {"peer": lambda: sum(range(1000))}), target=1.0, repeats=1),)
    for name in MODULES:
        part = importlib.import_module(f"tests.bench.{name}")
        assert all(isinstance(case, Case) for case in part.CASES)
        monkeypatch.setattr(part, "CASES", quick)
    assert main(["--json", str(tmp_path / "bench.json")]) == 0
    timings = json.loads((tmp_path / "bench.json").read_text())["timings"]
    assert [timing["part"] for timing in timings] == list(MODULES)
    assert all(timing["ratio"] > 1 for timing in timings)
    assert "kept" in capsys.readouterr().out


@pytest.mark.parametrize("case", probes.CASES, ids=lambda case: case.name)
def test_every_contender_of_the_probes_runs(case: Case, monkeypatch):
    sizes = {"N_SAMPLES": 40, "N_LAYERS": 2, "N_INITS": 1, "N_SHUFFLES": 1, "N_BESIDE_SCIKIT_LEARN": 1}
    for name, size in sizes.items():
        monkeypatch.setattr(probes, name, size)
    ours, peers = case.prepare()
    for work in (ours, *peers.values()):
        work()


@pytest.mark.parametrize(
    ("routing", "growth", "code", "n_missed"), [(1.1, 5.0, 0, 0), (1.3, 5.0, 1, 1), (1.1, 50.0, 1, 1)]
)
def test_a_limit_that_the_models_miss_is_the_exit_code(monkeypatch, capsys, routing, growth, code, n_missed):
    monkeypatch.setattr(sys, "argv", ["bench"])
    monkeypatch.setattr(models, "COSTS", (models.Cost("micro_vit", 8, 1, 1.2), models.Cost("micro_swin", 8, 1, None)))
    monkeypatch.setattr(models, "measure", lambda _cost: (0.001, routing, 1.0))
    monkeypatch.setattr(models, "tapped_ratio", lambda *_: 1.0)
    monkeypatch.setattr(models, "extraction_growth", lambda: (growth, 1.0))
    assert models.main() == code
    assert capsys.readouterr().out.count("MISSED") == n_missed


def test_a_sweep_is_made_of_cells_of_five_seeds(tmp_path: Path):
    write_sweep(tmp_path / "shards", 2 * SEEDS_PER_CELL, 40)
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        runs = cache.runs()
    assert runs.groupby(list(CELL), dropna=False)["seed"].apply(list).tolist() == [[0, 1, 2, 3, 4]] * 2


def cell(operation: str, x: int, seconds: float | None = None, mb: float | None = None, note: str = "") -> Cell:
    return Cell("samples", operation, Size(1, x), x, 60.0, seconds, mb, None if mb is None else 0.0, note)


def test_growth_is_the_slope_between_the_two_largest_sizes_measured():
    cells = [cell("load", 10, 5.0), cell("load", 100, 1.0), cell("load", 1000, 100.0), cell("load", 10_000, note="x")]
    assert growth(cells, lambda one: one.seconds) == pytest.approx(2.0)
    assert growth(cells[:1], lambda one: one.seconds) is None
    assert growth(cells, lambda one: one.added_mb) is None


def test_every_operation_of_the_grids_runs(tmp_path: Path):
    assert {name for grid in GRIDS for name in grid.operations} == set(OPERATIONS)
    for name in OPERATIONS:
        measured = measure_here(name, tmp_path, Size(2, 400, 3))
        assert measured["seconds"] > 0, name
        assert measured["peak_mb"] > 0, name


def test_a_child_that_is_killed_leaves_a_gap_in_the_table(monkeypatch):
    killed = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    run = subprocess.run
    monkeypatch.setattr("tests.bench.scale.subprocess.run", lambda _, **options: run(killed, **options))
    cells = list(measure_grids([SMALL], largest=300))
    assert [one.note for one in cells] == ["killed by SIGKILL", *["not measured: write shards did not finish"] * 2]


def test_a_plot_names_every_line_and_says_what_was_stopped(tmp_path: Path):
    cells = [cell(name, x, x * 1e-6, x * 1e-2) for name in SMALL.operations[:2] for x in (300, 600)]
    cells += [cell("open", 300, 1e-3, 3.0), cell("open", 600, note="stopped after 60 s")]
    draw(SMALL, cells, tmp_path / "samples.svg")
    drawn = ET.parse(tmp_path / "samples.svg")
    texts = ["".join(text.itertext()) for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert [texts.count(OPERATIONS[name].label) for name in SMALL.operations] == [2, 2, 2], "time and memory"
    assert "stopped after 60 s" in texts
    apart = spread([0.2, 0.2, 0.99, 1.0, 1.0])
    assert apart[-1] == 1.0
    assert all(above - below > 0.04 for below, above in pairwise(apart))


def test_the_command_measures_in_children_and_draws_again_what_it_wrote(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr("tests.bench.scale.GRIDS", (SMALL,))
    assert main(["--scale", "--out", str(tmp_path)]) == 0
    cells = json.loads((tmp_path / "figures.json").read_text())["cells"]
    assert [(one["operation"], one["x"]) for one in cells] == [
        (operation, size.samples) for size in SMALL.sizes for operation in SMALL.operations
    ]
    printed = capsys.readouterr().out
    assert "1 x 600" in printed
    assert "by samples" in printed
    plot = (tmp_path / "samples.svg").read_bytes()
    (tmp_path / "samples.svg").unlink()
    assert main(["--redraw", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "samples.svg").read_bytes() == plot
