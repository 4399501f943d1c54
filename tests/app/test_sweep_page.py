"""The sweep page: forest, stability, p-values and corrections, all as the engine computes them."""

from __future__ import annotations

import base64
import html
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.registry import page_for
from engine.store import open_cache, publish, write_shard
from engine.sweep import diagnose, effect_intervals, multiplicity, single_models, sorted_pvalues, stability
from engine.verdict_sweep import judge_stability

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cache_path(tmp_path_factory, make_run) -> Path:
    """Two cells of two and three seeds, an ensemble, a baseline and an imported run."""
    folder = tmp_path_factory.mktemp("sweep-page")
    records = [make_run(f"full-s{seed}", seed=seed, n=900, logits=seed > 0) for seed in range(3)]
    records += [make_run(f"block-s{seed}", seed=20 + seed, n=900, variant="block_ar", block_size=2) for seed in (0, 1)]
    records += [
        make_run("full-s0-last5", seed=0, suite="test-last5"),
        make_run("baseline-s0", seed=3, profile=False, variant="baseline"),
        replace(
            make_run("imported", seed=4, logits=False, backbone="other", variant="theirs", suite="mine"), seed=None
        ),
    ]
    for record in records:
        write_shard(record, folder / "shards")
    publish(folder / "shards", folder / "cache.duckdb")
    return folder / "cache.duckdb"


@pytest.fixture(scope="module")
def rows(cache_path: Path) -> pd.DataFrame:
    with open_cache(cache_path) as cache:
        return single_models(diagnose(cache))


def open_app(cache: Path, monkeypatch, **query: str) -> AppTest:
    monkeypatch.setenv("ROUTECAL_CACHE", str(cache))
    app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    app.switch_page(str(page_for("sweep").script))
    return app.run()


def traces(app: AppTest, position: int) -> dict[str, dict]:
    return {trace["name"]: trace for trace in json.loads(app.get("plotly_chart")[position].proto.spec)["data"]}


def numbers(values: object) -> list[float]:
    """A list, or the base64 form that Plotly sends arrays in, without the breaks between lines."""
    if isinstance(values, dict):
        values = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).tolist()
    return [value for value in values if value is not None and not np.isnan(value)]


@pytest.fixture
def app(cache_path: Path, monkeypatch) -> AppTest:
    app = open_app(cache_path, monkeypatch)
    assert not app.exception
    return app


def test_verdict_is_the_engines(app: AppTest, rows: pd.DataFrame):
    sentence = judge_stability(rows, feature="mean routing entropy").sentence
    assert html.escape(sentence) in app.get("html")[0].proto.body
    assert "1 last-5 ensemble left out of the counts" in app.caption[0].value


def test_forest_shows_every_tested_run_with_its_interval(app: AppTest, rows: pd.DataFrame):
    tested = rows[rows["max_gap"].notna()]
    assert len(tested) == 6
    for position, (measure, name) in enumerate((("max_gap", "largest gap"), ("weighted_gap", "weighted gap"))):
        drawn = traces(app, position)
        points = drawn[f"{name}, a seed each"]
        assert sorted(numbers(points["x"])) == sorted(tested[measure])
        ends = numbers(drawn["95 % bootstrap interval"]["x"])
        assert sorted(ends) == sorted([*tested[f"{measure}_low"], *tested[f"{measure}_high"]])
        assert list(drawn).index("95 % bootstrap interval") < list(drawn).index(f"{name}, a seed each")
    null_ends = numbers(traces(app, 0)["97.5 % of permutations"]["x"])
    assert sorted(set(null_ends) - {0.0}) == sorted(set(tested["null_high"]))
    heights = numbers(traces(app, 0)["largest gap, a seed each"]["y"])
    assert len(set(heights)) == 6


def test_stability_view_is_the_engines(app: AppTest, rows: pd.DataFrame):
    cells = stability(rows)
    ends = numbers(traces(app, 2)["smallest to largest"]["x"])
    assert sorted(ends) == sorted([*cells["max_gap_min"], *cells["max_gap_max"]])
    effects = traces(app, 3)
    tested = rows[rows["audited_effect"].notna()]
    assert sorted(numbers(effects["audited effect, a seed each"]["x"])) == sorted(tested["audited_effect"])
    assert effects["audited effect, a seed each"]["marker"]["symbol"] == "circle"
    interval = effect_intervals(tested)
    assert sorted(numbers(effects["95 % interval"]["x"])) == sorted([*interval["low"], *interval["high"]])
    table = app.dataframe[0].value.set_index("Cell")
    assert table["Seeds"].to_dict() == {
        "other · dice · theirs": 1, "toy · dice · Block-AR (b = 2)": 2, "toy · dice · Full-AR": 3
    }  # fmt: skip
    assert table.loc["other · dice · theirs", "Every seed rejects"] == "one seed"


def test_p_values_against_uniform_and_corrections(app: AppTest, rows: pd.DataFrame):
    drawn = traces(app, 4)
    ordered = sorted_pvalues(rows)
    marks = {"paper": ("the paper's test", "circle-open"), "audited": ("the audited test", "circle")}
    for test, (name, symbol) in marks.items():
        part, trace = ordered[ordered["test"] == test], drawn[name]
        assert numbers(trace["y"]) == part["p"].tolist()
        assert numbers(trace["x"]) == part["expected"].tolist()
        assert trace["marker"]["symbol"] == symbol
    band = drawn["95 % band of 6 uniform p-values"]
    part = ordered[ordered["test"] == "paper"]
    assert numbers(band["y"]) == [*part["high"], *part["low"][::-1]]
    shown, expected = app.dataframe[1].value, multiplicity(rows)
    assert shown["Runs tested"].tolist() == [6, 6]
    for column, name in (
        ("nominal", "Rejections"),
        ("holm", "after Holm"),
        ("benjamini_hochberg", "after Benjamini-Hochberg"),
    ):
        assert shown[name].tolist() == expected[column].tolist()
    assert shown["Rejections expected by chance"].tolist() == pytest.approx([0.3, 0.3])


def test_baselines_are_listed_as_not_testable(app: AppTest):
    text = " ".join(element.value for element in app.markdown).replace("\\", "")
    assert "Not testable" in text
    assert "toy · dice · plain residual (seed 3): this run has no routing profile" in text


def test_features_that_few_runs_or_no_bins_can_bear(cache_path: Path, monkeypatch):
    entropy = open_app(cache_path, monkeypatch, feature="predictive entropy")
    assert not entropy.exception
    text = " ".join(element.value for element in entropy.markdown).replace("\\", "")
    assert "seed 0): this run has no logits" in text
    with open_cache(cache_path) as cache:
        expected = single_models(diagnose(cache, feature_name="pred_entropy"))
    sentence = judge_stability(expected, feature="predictive entropy").sentence
    assert html.escape(sentence) in entropy.get("html")[0].proto.body


def test_a_column_of_an_imported_run(tmp_path: Path, monkeypatch, make_run):
    own = make_run("own", seed=5, logits=False, profile=False, backbone="aaa", variant="theirs", suite="mine")
    write_shard(replace(own, extra={"depth": np.random.default_rng(0).random(1500)}), tmp_path / "shards")
    write_shard(make_run("full-s0"), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    app = open_app(tmp_path / "cache.duckdb", monkeypatch, backbone="aaa", feature="depth")
    assert not app.exception
    assert "1 cell of one run each can be tested for depth" in app.get("html")[0].proto.body
    text = " ".join(element.value for element in app.markdown).replace("\\", "")
    assert "toy · dice · Full-AR (seed 0): this run has no column 'depth'" in text


def test_nothing_testable(tmp_path: Path, monkeypatch, make_run):
    write_shard(make_run("b0", profile=False, variant="baseline"), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    app = open_app(tmp_path / "cache.duckdb", monkeypatch)
    assert not app.exception
    assert "No run can be tested for mean routing entropy" in app.get("html")[0].proto.body
    assert not app.get("plotly_chart")


def test_an_empty_cache_says_what_to_do(empty_cache: Path, monkeypatch):
    app = open_app(empty_cache, monkeypatch)
    assert not app.exception
    assert "cache_builder sweep" in app.info[0].value
