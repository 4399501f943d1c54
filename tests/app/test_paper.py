"""The Paper page: published tables beside the cache's own, the statements of the paper, and its conclusions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.parts import paper as tables
from app.plots.paper import claims_by_topic, table_column
from app.plots.theme import Theme
from engine.benchmark import run_benchmark
from engine.paper import CONCLUSIONS, COUNTERPARTS, counterparts
from engine.paper import published as paper
from engine.paper.claims import audit
from engine.paper.claims import summarise as summarise_claims
from engine.store import RunRecord, open_cache
from engine.sweep import by_cell, diagnose, single_models
from tests.app.driver import figures, load, numbers, open_app, published, shown, verdict

PAPERS = sum(not item.added for item in CONCLUSIONS)
BLOCK = "Swin (micro) · CIFAR-10 · Block-AR (b = 2)"


@pytest.fixture(scope="module")
def make_cache(tmp_path_factory: pytest.TempPathFactory, make_run: Callable[..., RunRecord]) -> Callable[..., Path]:
    """Caches of two variants, two seeds each. What is computed of one is remembered, so some tests want a new one."""

    def make(seed: int, n: int = 600) -> Path:
        records = [
            make_run(
                f"{variant}-s{index}", seed=seed + index, n=n, backbone="micro_swin", dataset="cifar10",
                variant=variant, block_size=2 if variant == "block_ar" else None,
            )
            for variant in ("block_ar", "full_ar") for index in (0, 1)
        ]  # fmt: skip
        return published(records, tmp_path_factory.mktemp("paper"))

    return make


@pytest.fixture(scope="module")
def cache_path(make_cache: Callable[..., Path]) -> Path:
    return make_cache(0)


def title(table: str) -> str:
    return f"{paper.TABLES[table].title} ({paper.TABLES[table].label})"


def points(figure: dict) -> np.ndarray:
    return numbers(figure["data"][-1]["x"])


def table_of(app: AppTest, position: int) -> pd.DataFrame:
    return app.dataframe[position].value


def test_verdict_counts_statements_and_conclusions(make_cache: Callable[..., Path], monkeypatch):
    app = open_app(make_cache(10), monkeypatch, "paper")
    assert summarise_claims(audit()) in verdict(app)
    assert "126 of 180 statements agree with the paper's own tables, 51 differ and 3 cannot be checked" in verdict(app)
    assert f"Of the paper's {PAPERS} conclusions, this cache supports" in verdict(app)
    assert "yet to be computed" in verdict(app)
    for conclusion in CONCLUSIONS:  # the list is the same before and after all are computed
        assert conclusion.claim in shown(app)
    assert "Only the cache setting in the sidebar affects this page" in app.caption[0].value


def test_the_sweep_stands_beside_the_papers(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "paper")
    frame = paper.load("ar_sweep")
    left, right = figures(app)[1:3]
    np.testing.assert_allclose(points(left), frame[frame["column"] == "Max gap"]["value"])
    with open_cache(cache_path) as cache:
        cells = by_cell(single_models(diagnose(cache)))
    np.testing.assert_allclose(np.sort(points(right)), np.sort(cells["max_gap_mean"]))
    assert table_of(app, 0).loc[0, "Max gap"] == "0.193 ± 0.107"
    assert list(table_of(app, 1).columns) == list(table_of(app, 0).columns)
    assert BLOCK in set(table_of(app, 1)["Row"])
    assert "Models and data differ from the paper's; compare patterns, not values." in shown(app)
    assert "5,000 shuffles" in shown(app)


def test_calibrators_of_the_nearest_cell_and_of_another(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "paper", table=title("calibration"), quantity="Worst-tertile ECE")
    for chosen, variant in ((None, "block_ar"), ("Swin (micro) · CIFAR-10 · Full-AR", "full_ar")):
        if chosen:
            app.selectbox(key="cell").select(chosen).run()
        results = [run_benchmark(load(cache_path, f"{variant}-s{seed}"), n_bootstrap=0).table() for seed in (0, 1)]
        values = [result.loc["nw_conf_routing", "worst_tertile_ece"] for result in results]
        drawn = figures(app)[2]
        assert np.isclose(points(drawn), np.mean(values)).any()
        row = table_of(app, 1).set_index("Row").loc["AR-CondCal", "Worst-tertile ECE"]
        assert row == f"{np.mean(values):.4f} ± {np.std(values):.4f}"
    assert "rank correlation" in shown(app)
    assert "AR-CondCal is" in shown(app)


@pytest.mark.parametrize("table", [name for name in paper.TABLES if not name.startswith("calibration_")])
def test_every_kind_of_table_can_be_shown(table: str, cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "paper", table=title(table))
    frame = paper.load(table)
    first = tables.quantities(frame)[0]
    drawn = frame[(frame["column"] == first) & frame["value"].notna()]
    assert 0 < len(points(figures(app)[1])) <= len(drawn)
    needs_button = "probes" in COUNTERPARTS[table].sources if table in COUNTERPARTS else False
    assert needs_button == bool([b for b in app.button if b.label == "Compute: probe audit"])
    assert needs_button or len(figures(app)) == 3 or "has no counterpart" in shown(app)


def test_a_table_that_no_cache_has_says_why(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "paper", table=title("parameter_overhead"))
    assert "not weights" in shown(app)
    assert "From this cache" not in shown(app)


def test_probes_are_computed_when_asked_for(make_cache: Callable[..., Path], monkeypatch):
    app = open_app(make_cache(20, 200), monkeypatch, "paper", table=title("probe_sanity"))
    next(button for button in app.button if button.label == "Compute: probe audit").click()
    app.run()
    own = table_of(app, 1)
    assert list(own["Row"]) == ["conf-lin", "conf-mlp", "full-lin", "shuf-full-mlp", "full-mlp"]
    assert f"Of the paper's {PAPERS} conclusions, this cache supports" in verdict(app)
    assert "Shuffled routing profiles do as well: not computed" not in shown(app)


def test_statements_are_filtered(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "paper", claim="differs", table=title("ablation_plan"))
    assert len(table_of(app, 1)) == 51
    app.selectbox(key="topic").select("Bandwidth").run()
    assert len(table_of(app, 1)) == 1  # Proposition 4
    app.selectbox(key="claim").select("all").run()
    assert len(table_of(app, 1)) == 6
    app.text_input(key="words").set_value("ORACLE").run()
    assert 0 < len(table_of(app, 1)) < 6


def test_all_conclusions_are_asked(make_cache: Callable[..., Path], monkeypatch):
    app = open_app(make_cache(30, 200), monkeypatch, "paper", all="true")
    text = shown(app)
    for conclusion in CONCLUSIONS:
        assert conclusion.claim in text
    assert f"Of the paper's {PAPERS} conclusions, this cache supports" in verdict(app)
    assert "yet to be computed" not in verdict(app)
    assert len(app.dataframe[-2].value) == len(CONCLUSIONS)
    assert list(app.dataframe[-1].value["Cell"]) == [BLOCK, BLOCK.replace("Block-AR (b = 2)", "Full-AR"), "All cells"]


# ---- what is drawn and printed --------------------------------------------------------------------------------------


def test_numbers_are_printed_as_in_the_paper():
    frame = paper.load("feature_ablation")
    style = counterparts.styles(frame)
    assert style == {
        "Block-AR ECE": ".4f", "Full-AR ECE": ".4f", "Δ vs Conf-only": "+.4f", "Δ vs Conf+PE": "+.4f",
    }  # fmt: skip
    own = pd.DataFrame({
        "row": ["a", "a", "b"], "column": ["Block-AR ECE", "Δ vs Conf-only", "Word"], "value": [0.01234, 0.5, np.nan],
        "std": [0.00067, np.nan, np.nan], "printed": ["", "", "yes"],
    })  # fmt: skip
    assert list(counterparts.printed(own, style)["text"]) == ["0.0123 ± 0.0007", "+0.5000", "yes"]
    assert counterparts.wide(own, style).loc[1].tolist() == ["b", "–", "–", "yes"]


@pytest.mark.parametrize("table", paper.TABLES)
def test_published_tables_are_shown_to_the_printed_digit(table: str):
    frame = paper.load(table)
    wide = counterparts.wide(frame, counterparts.styles(frame)).set_index("row")
    for row, column, value, std in zip(
        *(frame[name] for name in ("row", "column", "printed", "printed_std")), strict=True
    ):
        assert wide.loc[row, column] == (f"{value} ± {std}" if std else value or "–")


def test_columns_of_words_and_ends_of_intervals_are_not_drawn():
    assert tables.quantities(paper.load("bandwidth")) == ["Global ECE", "Worst-tertile ECE", "NLL"]
    assert "Wt. gap CI low" not in tables.quantities(paper.load("matched_gap"))


def test_own_columns_of_cells():
    own = pd.DataFrame({"column": ["here ECE", "here AdaECE", "here Worst-tertile ECE"]})
    assert tables.own_column(own, "tin Full-AR Worst-tertile ECE") == "here Worst-tertile ECE"
    assert tables.own_column(own, "tin Full-AR ECE") == "here ECE"
    assert tables.own_column(own, "c10-Full") == "here ECE"


def test_intervals_and_the_row_beyond_the_scale():
    frame = paper.load("calibration")
    figure = table_column(counterparts.printed(frame, counterparts.styles(frame)), "ECE", Theme(), whose="x")
    assert max(figure.data[-1].x) == 0.0113  # the uncalibrated 0.1514 is named instead
    assert any("No calibration: 0.1514 ± 0.0028, off the scale" in note.text for note in figure.layout.annotations)
    intervals = [trace for trace in figure.data if trace.name == "interval"]
    assert len(intervals) == 4  # the three of the kernel family in their colours, and the others
    ends = next(trace for trace in intervals if trace.line.color == "#CC79A7").x
    assert ends[:2] == pytest.approx((0.0100 - 0.0010, 0.0100 + 0.0010))
    frame = paper.load("matched_gap")
    figure = table_column(counterparts.printed(frame, counterparts.styles(frame)), "Wt. gap", Theme(), whose="x")
    assert figure.data[0].x[:2] == (0.012, 0.030)


def test_statements_by_topic():
    results = audit()
    figure = claims_by_topic(results, Theme())
    drawn = {bar.name: sum(value or 0 for value in bar.x) for bar in figure.data}
    assert drawn == {"agrees": 126, "differs": 51, "not checkable": 3}
    topics = list(dict.fromkeys(result.topic for result in results))
    for bar in figure.data:
        for topic, value in zip(topics, bar.x, strict=True):
            assert (value or 0) == sum(r.topic == topic and r.outcome == bar.name for r in results)
