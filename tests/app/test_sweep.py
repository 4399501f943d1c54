"""The sweep page: effects, pooled ones, p-values and corrections, all as the engine computes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from engine.store import open_cache, publish
from engine.sweep import (
    by_cell,
    chance_range,
    diagnose,
    effect_intervals,
    multiplicity,
    pool_effects,
    single_models,
    sorted_pvalues,
)
from engine.verdict.cache import judge_cache
from tests.app.driver import numbers, open_app, published, shown, traces, uncounted, verdict
from tests.bench.data import write_sweep


@pytest.fixture(scope="module")
def cache_path(tmp_path_factory, make_run) -> Path:
    """Two cells of two and three seeds, an ensemble, a baseline and an imported run."""
    records = [make_run(f"full-s{seed}", seed=seed, n=900, logits=seed > 0) for seed in range(3)]
    records += [make_run(f"block-s{seed}", seed=20 + seed, n=900, variant="block_ar", block_size=2) for seed in (0, 1)]
    return published([*records, *uncounted(make_run)], tmp_path_factory.mktemp("sweep-page"))


@pytest.fixture(scope="module")
def rows(cache_path: Path) -> pd.DataFrame:
    with open_cache(cache_path) as cache:
        return single_models(diagnose(cache))


def unbroken(values: object) -> list[float]:
    """The numbers of a trace without the breaks between its lines."""
    return [value for value in numbers(values).tolist() if not np.isnan(value)]


@pytest.fixture
def app(cache_path: Path, monkeypatch) -> AppTest:
    app = open_app(cache_path, monkeypatch, "sweep")
    return app


def test_verdict_is_the_engines(app: AppTest, rows: pd.DataFrame):
    assert judge_cache(rows, feature="mean routing entropy").detail in verdict(app)
    assert "1 ensemble of last epochs left out of the counts" in app.caption[0].value


def test_effects_of_runs_are_drawn_with_their_pooled_diamonds(app: AppTest, rows: pd.DataFrame):
    tested, drawn = rows[rows["p_value"].notna()], traces(app, 0)
    assert len(tested) == 6
    points = drawn["effect, a seed each"]
    assert sorted(unbroken(points["x"])) == sorted(tested["primary_effect"])
    assert len(set(unbroken(points["y"]))) == 6
    assert points["marker"]["symbol"] == "circle"
    interval = effect_intervals(tested)
    assert sorted(unbroken(drawn["95 % interval"]["x"])) == sorted([*interval["low"], *interval["high"]])
    cells = by_cell(rows)
    several = cells[cells["n"] > 1]
    diamonds = np.reshape(unbroken(drawn["pooled over seeds"]["x"]), (len(several), 5))
    ends = several[["effect_low", "effect", "effect_high"]].to_numpy(float)
    assert np.sort(diamonds[:, :3], axis=0) == pytest.approx(np.sort(ends, axis=0))
    bound = pool_effects(rows).bound
    assert unbroken(drawn["whole cache"]["x"])[:3] == pytest.approx([bound.low, bound.effect, bound.high])
    table = app.dataframe[0].value.set_index("Cell")
    assert table["Seeds"].to_dict() == {
        "other · dice · theirs": 1, "toy · dice · Block-AR (b = 2)": 2, "toy · dice · Full-AR": 3
    }  # fmt: skip
    assert sorted(table["Effect"]) == pytest.approx(sorted(cells["effect"]))


def test_p_values_against_chance_and_corrections(app: AppTest, rows: pd.DataFrame):
    drawn = traces(app, 1)
    ordered = sorted_pvalues(rows)
    marks = {"paper": ("the paper's test", "circle-open"), "verdict": ("trend and shape combined", "circle")}
    for test, (name, symbol) in marks.items():
        part, trace = ordered[ordered["test"] == test], drawn[name]
        assert unbroken(trace["y"]) == part["p"].tolist()
        assert unbroken(trace["x"]) == part["expected"].tolist()
        assert trace["marker"]["symbol"] == symbol
    band = drawn["95 % of what chance gives, all ranks at once"]
    part = ordered[ordered["test"] == "verdict"]
    assert unbroken(band["y"]) == [*part["high"], *part["low"][::-1]]
    table, expected = app.dataframe[1].value, multiplicity(rows)
    assert table["Runs tested"].tolist() == [6, 6, 6]
    for column, name in (
        ("nominal", "Rejections"),
        ("holm", "after Holm"),
        ("benjamini_hochberg", "after Benjamini-Hochberg"),
    ):
        assert table[name].tolist() == expected[column].tolist()
    assert table["expected by chance"].tolist() == pytest.approx([0.3, 0.3, 0.3])
    assert table["95 % range by chance"].iloc[0] == "{} to {}".format(*chance_range(rows[rows["p_value"].notna()]))


def test_forest_shows_every_gap_of_the_paper_with_its_interval(app: AppTest, rows: pd.DataFrame):
    tested = rows[rows["max_gap"].notna()]
    for position, (measure, name) in enumerate((("max_gap", "largest gap"), ("weighted_gap", "weighted gap")), 2):
        drawn = traces(app, position)
        points = drawn[f"{name}, a seed each"]
        assert sorted(unbroken(points["x"])) == sorted(tested[measure])
        ends = unbroken(drawn["95 % bootstrap interval"]["x"])
        assert sorted(ends) == sorted([*tested[f"{measure}_low"], *tested[f"{measure}_high"]])
        assert list(drawn).index("95 % bootstrap interval") < list(drawn).index(f"{name}, a seed each")
    null_ends = unbroken(traces(app, 2)["97.5 % of permutations"]["x"])
    assert sorted(set(null_ends) - {0.0}) == sorted(set(tested["null_high"]))


def test_baselines_are_listed_as_not_testable(app: AppTest):
    text = shown(app)
    assert "toy · dice · plain residual (seed 3): this run has no routing profile" in text


def test_features_that_few_runs_or_no_bins_can_bear(cache_path: Path, monkeypatch):
    entropy = open_app(cache_path, monkeypatch, "sweep", feature="predictive entropy")
    assert not entropy.exception
    text = shown(entropy)
    assert "these runs have no logits" in text
    with open_cache(cache_path) as cache:
        expected = single_models(diagnose(cache, feature_name="pred_entropy"))
    assert judge_cache(expected, feature="predictive entropy").detail in verdict(entropy)


def test_a_column_of_an_imported_run(tmp_path: Path, monkeypatch, make_run):
    own = make_run("own", seed=5, logits=False, profile=False, backbone="aaa", variant="theirs", suite="mine")
    own = replace(own, extra={"depth": np.random.default_rng(0).random(1500)})
    app = open_app(
        published([own, make_run("full-s0")], tmp_path), monkeypatch, "sweep", backbone="aaa", feature="depth"
    )
    assert "Over the 1 run that can be tested for depth" in verdict(app)
    text = shown(app)
    assert "toy · dice · Full-AR (seed 0): this run has no column 'depth'" in text


def test_nothing_testable(tmp_path: Path, monkeypatch, make_run):
    baseline = make_run("b0", profile=False, variant="baseline")
    app = open_app(published([baseline], tmp_path), monkeypatch, "sweep")
    assert "The only run cannot be tested for mean routing entropy" in verdict(app)
    assert not app.get("plotly_chart")


def test_an_empty_cache_says_what_to_do(empty_cache: Path, monkeypatch):
    app = open_app(empty_cache, monkeypatch, "sweep")
    assert "cache_builder sweep" in app.info[0].value


def test_a_large_sweep_is_drawn_one_data_set_at_a_time_and_counted_whole(tmp_path: Path, monkeypatch):
    write_sweep(tmp_path / "shards", 85, 120)  # 75 runs on one data set, 10 on the next
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    app = open_app(tmp_path / "cache.duckdb", monkeypatch, "sweep")
    assert "17 cells" in verdict(app)
    assert len(unbroken(traces(app, 0)["effect, a seed each"]["x"])) == 75
    app.selectbox(key="drawn-data").select("CIFAR-100").run()
    assert len(unbroken(traces(app, 0)["effect, a seed each"]["x"])) == 10
    assert len(unbroken(traces(app, 2)["largest gap, a seed each"]["x"])) == 10
    assert "17 cells" in verdict(app)
