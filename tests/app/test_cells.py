"""Cells of a figure stand for the very samples that the engine counted: in the drawer, the address and a slice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.compute.samples import chosen, images
from app.plots.gap import support_bars, tertile_curves
from app.plots.null import bin_contributions
from app.plots.reliability import class_gaps, diagram, tertile_map
from app.plots.theme import Theme
from app.shell.drawer import behind, leads_to
from app.state.cells import Cell, bin_cell, cell_rows, parse
from app.state.selection import Protocol, Selection, Slice
from app.state.view import View
from engine.core.errors import InvalidInput
from engine.gaps import permutation_test
from engine.metrics import reliability_table
from engine.metrics.mechanism import reliability_map
from engine.metrics.reliability import class_table
from engine.store import open_cache
from tests.app.driver import figures, open_app, shown

FULL = {"variant": "Full-AR", "run": "seed 0"}


@pytest.fixture(scope="module")
def view(cache_of_kinds: Path) -> View:
    cache = open_cache(cache_of_kinds)
    runs = cache.runs().set_index("run_id", drop=False)
    return View(cache, runs, Selection(cache.kept_by, "full-s0", "r_agg", Slice(), Protocol()))


def sizes(figure, view: View, trace: int) -> list[int]:
    """How many samples each point of a trace stands for."""
    points = [{"curve_number": trace, "point_index": i} for i in range(len(figure.data[trace].meta["cells"]))]
    return [int(view.rows_of(behind(figure, [point], "cells")[0]).sum()) for point in points]


@pytest.mark.parametrize("n_bins", [10, 15, 37])  # the product rounds across an edge for 10
def test_bins_hold_what_the_table_counts(view: View, n_bins: int):
    table = reliability_table(view.run.confidence, view.run.correct, n_bins=n_bins)
    figure = diagram(table, Theme(), title="", height=400, cells=True)
    assert sizes(figure, view, len(figure.data) - 1) == table["count"].tolist()
    both = sorted(sizes(figure, view, 1) + sizes(figure, view, 3))
    assert both == sorted(count for count in table["count"] if count)


def test_an_edge_belongs_to_the_bin_above():
    for n_bins in (3, 10, 15):
        edges = np.arange(n_bins + 1) / n_bins
        table = reliability_table(edges, np.zeros(edges.size), n_bins=n_bins)
        of = type("R", (), {"confidence": edges, "n_samples": edges.size, "predictions": None})
        counts = [int(cell_rows(bin_cell(b, n_bins).code, of, None).sum()) for b in range(n_bins)]
        assert counts == table["count"].tolist()


def test_cells_of_the_map_the_curves_and_the_bars_hold_what_they_count(view: View):
    samples = view.samples
    found = reliability_map(*samples)
    figure = tertile_map(found, "x", Theme())
    assert sizes(figure, view, 1) == [n for n in found.counts.T.ravel().tolist() if n]
    test = permutation_test(*samples)
    bins = test.gap.bins
    curves = tertile_curves(test, Theme(), show_mid=True)
    for name, trace in (("low", 1), ("mid", 2), ("high", 3)):
        assert sizes(curves, view, trace) == [n for n in bins[f"n_{name}"].tolist() if n]
    bars = support_bars(test.gap, Theme())
    assert sizes(bars, view, 1) == bins["n_low"].tolist()
    shared = bins[bins["shared"]]
    assert sizes(bin_contributions(test, Theme()), view, 1) == (shared["n_low"] + shared["n_high"]).tolist()
    table = class_table(view.run.confidence, view.run.correct, view.run.predictions, n_bins=15)
    assert sum(sizes(class_gaps(table, Theme()), view, 0)) == view.run.n_samples


def test_a_code_is_read_back_with_all_its_digits():
    cell = Cell((1 / 15, 2 / 15), (-np.inf, 0.1 + 0.2), 7)
    assert parse(f"{cell.code};{bin_cell(3, 15).code}&k=2") == [[cell, bin_cell(3, 15)], [Cell(predicted=2)]]
    assert parse("") == []


@pytest.mark.parametrize("code", ["x", "c=1", "c=0.2:0.1", "c=nan:1", "k=a", "z=0:1", "c=0:1;;", "k=1," * 2000])
def test_what_is_no_cell_is_refused(code: str):
    with pytest.raises(InvalidInput, match="cells"):
        parse(code)


def test_the_drawer_lists_the_samples_of_the_slice_by_their_number_in_the_run(view: View):
    cut = View(view.cache, view.runs, Selection("", "full-s0", "r_agg", Slice(outcome="wrong"), Protocol()))
    table = chosen(cut, bin_cell(14, 15).code)
    whole = view.run
    expected = np.flatnonzero((whole.confidence >= 14 / 15) & ~whole.correct)
    assert table["id"].tolist() == expected.tolist()
    assert table["confidence"].tolist() == whole.confidence[expected].tolist()
    assert table["label"].tolist() == whole.labels[expected].tolist()
    assert table["feature"].tolist() == view.rho[expected].tolist()
    assert set(table["correct"]) <= {"no"}


def test_images_are_shown_where_the_server_has_them(view: View, tmp_path: Path, monkeypatch):
    numbers = chosen(view, "")["id"].head(3)
    assert images(view, numbers) is None
    folder = tmp_path / str(view.row["dataset"])
    folder.mkdir()
    for number in numbers:
        (folder / f"{number}.png").write_bytes(b"png")
    monkeypatch.setenv("ROUTECAL_IMAGES", str(tmp_path))
    assert images(view, numbers) == ["data:image/png;base64,cG5n"] * 3


def test_a_slice_to_cells_is_in_the_address_and_on_a_chip_with_a_cross(cache_of_kinds: Path, monkeypatch, view: View):
    code = bin_cell(14, 15).code
    app = open_app(cache_of_kinds, monkeypatch, "reliability", **FULL, cells=code)
    n = int(view.rows_of(code).sum())
    assert f"{n:,} samples" in shown(app)
    assert "slice: confidence 0.93 to 1.00" in shown(app)
    app.button(key="chip-cells").click().run()
    assert app.text_input(key="cells").value == ""


def test_a_click_on_a_bin_opens_its_drawer(cache_of_kinds: Path, monkeypatch):
    """The event as the browser sends it."""
    monkeypatch.setattr(
        "app.shell.page.behind", lambda _fig, _points, what: [bin_cell(14, 15).code] * (what == "cells")
    )
    app = open_app(cache_of_kinds, monkeypatch, "reliability", **FULL)
    listed = next(frame for frame in app.dataframe if "Id" in frame.value)
    assert len(listed.value) == int((listed.value["Confidence"] >= 14 / 15).sum()) > 0
    next(button for button in app.button if button.label == "Slice to these").click().run()
    assert app.text_input(key="cells").value == bin_cell(14, 15).code
    assert not app.exception


def test_a_tile_and_a_row_open_their_run(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "overview")
    drawn = [trace.get("meta", {}) for figure in figures(app) for trace in figure["data"]]
    assert any("full-s1" in each.get("runs", []) for each in drawn)
    tile = lambda figure, _points, what: ["full-s1"] if what == "runs" and leads_to(figure, what) else []  # noqa: E731
    monkeypatch.setattr("app.shell.page.behind", tile)
    app.run()
    assert not app.exception
    assert "toy · dice · Full-AR · seed 1" in shown(app)
    assert "At the same confidence" in app.title[0].value
