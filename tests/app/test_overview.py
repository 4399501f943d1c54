"""The overview: what it counts, where it sends the reader, and that its numbers are the engine's."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.links import run_query
from app.plots import overview as plots
from app.plots.theme import Theme
from app.registry import page_for
from app.selection import Protocol, Selection, Slice, run_label
from app.view import View
from engine.store import open_cache, publish, write_shard
from engine.sweep import diagnose, look_first, single_models
from engine.verdict_sweep import judge_cache, reason

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cache_path(tmp_path_factory, make_run) -> Path:
    """Two cells of three seeds, one of them with a real effect; an ensemble, a baseline, an imported run, no logits."""
    folder = tmp_path_factory.mktemp("overview")
    records = [make_run(f"null-s{seed}", seed=seed, logits=seed > 0) for seed in range(3)]
    for seed in range(3):
        base = make_run(f"real-s{seed}", seed=10 + seed, logits=False, variant="block_ar", block_size=2)
        rho = base.entropies.mean(axis=1)
        lift = 0.12 * (rho - rho.mean()) / rho.std()
        chance = np.clip(base.confidence + lift, 0.02, 0.98)
        correct = np.random.default_rng(seed).random(chance.size) < chance
        records.append(replace(base, correct=correct, labels=None, predictions=None, seed=seed))
    records += [
        make_run("null-s0-last5", seed=0, suite="test-last5"),
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


def open_app(path: Path, monkeypatch, page: str = "overview", **query: str) -> AppTest:
    monkeypatch.setenv("ROUTECAL_CACHE", str(path))
    app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    app.switch_page(str(page_for(page).script))
    return app.run()


def html_of(app: AppTest) -> list[str]:
    return [element.proto.body for element in app.get("html")]


def spec_of(app: AppTest, position: int) -> dict:
    return json.loads(app.get("plotly_chart")[position].proto.spec)


def numbers(values: object) -> list[float]:
    """A list, or the base64 form that Plotly sends arrays in."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).tolist()
    return list(values)


def test_verdict_and_headline_numbers_are_the_engines(cache_path: Path, rows: pd.DataFrame, monkeypatch):
    app = open_app(cache_path, monkeypatch)
    assert not app.exception
    verdict = judge_cache(rows, feature="mean routing entropy")
    assert html.escape(verdict.sentence) in html_of(app)[0]
    assert [metric.value for metric in app.metric] == [
        "8", "7", str(verdict.counts.loc["paper", "nominal"]), str(verdict.counts.loc["audited", "nominal"])
    ]  # fmt: skip
    assert verdict.counts.loc["audited", "holm"] >= 3
    assert app.metric[3].delta == "0.4 expected by chance"  # 7 runs x 0.05 = 0.35


def test_caption_says_what_is_left_out(cache_path: Path, monkeypatch):
    caption = open_app(cache_path, monkeypatch).caption[0].value
    assert "8 runs in 4 cells" in caption
    assert "1 last-5 ensemble left out of the counts" in caption
    assert "do not apply to this page" in caption


def test_slices_and_populations_change_nothing(cache_path: Path, monkeypatch):
    plain = open_app(cache_path, monkeypatch)
    sliced = open_app(
        cache_path, monkeypatch, outcome="wrong only", population="benchmark (held-out half)", bins="30", outer="0.2"
    )
    assert html_of(sliced)[0] == html_of(plain)[0]
    assert sliced.dataframe[0].value.equals(plain.dataframe[0].value)


def test_support_and_feature_do_change_it(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, feature="confidence itself", support="9")
    assert "at least 9 samples a side" in app.caption[0].value
    assert "8 of 8 runs can be tested for confidence itself" in html_of(app)[0]


def test_inventory_has_a_tile_per_counted_run_with_the_engines_numbers(
    cache_path: Path, rows: pd.DataFrame, monkeypatch
):
    app = open_app(cache_path, monkeypatch)
    for position, measure in enumerate(("accuracy", "raw_ece")):
        tiles = spec_of(app, position)["data"][0]
        assert sorted(tiles["text"]) == sorted(f"{value:.3f}" for value in rows[measure])
    p_values = spec_of(app, 2)["data"][0]["text"]
    assert len(p_values) == 8
    assert p_values.count("–") == 1
    marks = {annotation["text"] for annotation in spec_of(app, 0)["layout"]["annotations"]}
    assert {"seed 0", "seed 1", "seed 2", "seed 3", "imported", "toy · dice · Block-AR (b = 2)"} <= marks
    assert not any("last-5" in mark for mark in marks)


def test_rejections_are_drawn_beside_chance(cache_path: Path, rows: pd.DataFrame, monkeypatch):
    counts = judge_cache(rows).counts
    traces = {trace["name"]: trace for trace in spec_of(open_app(cache_path, monkeypatch), 3)["data"]}
    for test, name in (("paper", "the paper's test"), ("audited", "the audited test")):
        expected = [counts.loc[test, kind] for kind in ("nominal", "benjamini_hochberg", "holm")]
        assert numbers(traces[name]["x"]) == expected
    assert traces["the paper's test"]["marker"]["symbol"] == "circle-open"
    assert traces["the audited test"]["marker"]["symbol"] == "circle"
    assert "95 % of what chance gives" in traces


def test_where_to_look_first_names_the_engines_runs_and_its_links_open_them(
    cache_path: Path, rows: pd.DataFrame, monkeypatch
):
    app = open_app(cache_path, monkeypatch)
    anchors = [
        re.fullmatch(r'<a href="([^"]+)" target="_self" style="color: inherit">(.+)</a>', body)
        for body in html_of(app)[1:]
    ]
    first = look_first(rows)
    with open_cache(cache_path) as cache:
        runs = cache.runs().set_index("run_id")
    assert [html.unescape(anchor[2]) for anchor in anchors] == [run_label(runs.loc[run]) for run in first["run_id"]]
    assert first["run_id"].str.startswith("real").iloc[:3].all()
    captions = {caption.value.replace("\\", "") for caption in app.caption}
    assert {reason(row) for row in first.to_dict("records")} <= captions
    for anchor in anchors[:1] + anchors[-1:]:
        page, _, query = html.unescape(anchor[1]).partition("?")
        opened = open_app(cache_path, monkeypatch, page, **dict(parse_qsl(query)))
        assert opened.caption[0].value.startswith(html.unescape(anchor[2]))


def test_every_run_can_be_reached_by_its_link(cache_path: Path, monkeypatch):
    selection = Selection("", "", None, "r_std", Slice(), Protocol(min_support=8))
    with open_cache(cache_path) as cache:
        view = View(cache, cache.runs().set_index("run_id", drop=False), selection)
    for run_id in view.runs["run_id"]:
        app = open_app(cache_path, monkeypatch, "sweep", **run_query(view, run_id))
        assert app.selectbox(key="run").value == run_id
        assert app.selectbox(key="feature").value == "r_std"
        assert app.slider(key="support").value == 8


def test_links_keep_the_cache_and_the_presentation(cache_path: Path, tmp_path: Path, monkeypatch):
    for name in ("first.duckdb", "second.duckdb"):
        shutil.copy(cache_path, tmp_path / name)
    app = open_app(tmp_path / "first.duckdb", monkeypatch, cache="second.duckdb", present="1")
    anchors = [body for body in html_of(app) if body.startswith("<a ")]
    assert len(anchors) == 5
    assert all("cache=second.duckdb" in anchor and "present=1" in anchor for anchor in anchors)


def test_all_runs_are_in_the_table_and_ensembles_are_marked(cache_path: Path, monkeypatch):
    shown = open_app(cache_path, monkeypatch).dataframe[0].value.set_index("Run")
    assert len(shown) == 9
    assert shown.loc["toy · dice · Full-AR · seed 0, last-5 ensemble", "Note"] == "ensemble, not counted"
    assert "routing profile" in shown.loc["toy · dice · plain residual · seed 3", "Note"]


def test_nothing_testable_still_shows_the_inventory(tmp_path: Path, monkeypatch, make_run):
    for seed in range(2):
        write_shard(make_run(f"b{seed}", seed=seed, profile=False, variant="baseline"), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    app = open_app(tmp_path / "cache.duckdb", monkeypatch)
    assert not app.exception
    assert "None of the 2 runs can be tested" in html_of(app)[0]
    assert len(spec_of(app, 0)["data"][0]["text"]) == 2
    assert "No run can be tested" in " ".join(text.value for text in app.markdown)


def test_only_ensembles(tmp_path: Path, monkeypatch, make_run):
    write_shard(make_run("e", suite="test-last5"), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    app = open_app(tmp_path / "cache.duckdb", monkeypatch)
    assert not app.exception
    assert "ensembles only" in " ".join(text.value for text in app.markdown)


def test_suites_and_repeated_runs_keep_their_own_tiles(tmp_path: Path, monkeypatch, make_run):
    for run_id, identity in {"a": {}, "b": {"suite": "again"}, "c": {}}.items():
        write_shard(make_run(run_id, seed=0, n=300, **identity), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    layout = spec_of(open_app(tmp_path / "cache.duckdb", monkeypatch), 0)["layout"]
    marks = {annotation["text"] for annotation in layout["annotations"]}
    assert {"toy · dice · Full-AR (test)", "toy · dice · Full-AR (again)", "seed 0", "seed 0 (2)"} <= marks


def test_an_empty_cache_says_what_to_do(empty_cache: Path, monkeypatch):
    app = open_app(empty_cache, monkeypatch)
    assert not app.exception
    assert "cache_builder sweep" in app.info[0].value


@pytest.mark.parametrize("theme", [Theme(), Theme(dark=True), Theme(large=True)])
def test_text_is_never_small_and_solid_tiles_are_readable(rows: pd.DataFrame, theme: Theme):
    named = rows.assign(cell=rows["variant"], slot="seed 0", run=rows["run_id"])
    fig = plots.p_grid(named, judge_cache(rows), theme)
    assert fig.layout.font.size >= 13
    assert fig.data[0].textfont.size >= 13
    pairs = list(zip((shape.fillcolor for shape in fig.layout.shapes), fig.data[0].textfont.color, strict=True))
    assert (theme.text, theme.paper) in pairs
    assert all(fill != ink for fill, ink in pairs)
