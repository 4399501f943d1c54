"""The overview: what it counts, where it sends the reader, and that its numbers are the engine's."""

from __future__ import annotations

import html
import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pandas as pd
import pytest

from app.plots import overview as plots
from app.plots.theme import Theme
from app.state.links import run_query
from app.state.selection import Protocol, Selection, Slice
from app.state.view import View
from engine.core.labels import run_names
from engine.store import open_cache
from engine.sweep import diagnose, look_first, single_models
from engine.verdict.cache import judge_cache, reason
from tests.app.driver import bodies, figures, numbers, open_app, published, shown, traces, uncounted, verdict


@pytest.fixture(scope="module")
def cache_path(tmp_path_factory, make_run) -> Path:
    """Two cells of three seeds, one of them with a real effect; an ensemble, a baseline, an imported run, no logits."""
    records = [make_run(f"null-s{seed}", seed=seed, logits=seed > 0) for seed in range(3)]
    for seed in range(3):
        base = make_run(f"real-s{seed}", seed=10 + seed, logits=False, variant="block_ar", block_size=2)
        rho = base.entropies.mean(axis=1)
        lift = 0.12 * (rho - rho.mean()) / rho.std()
        chance = np.clip(base.confidence + lift, 0.02, 0.98)
        correct = np.random.default_rng(seed).random(chance.size) < chance
        records.append(replace(base, correct=correct, labels=None, predictions=None, seed=seed))
    return published([*records, *uncounted(make_run)], tmp_path_factory.mktemp("overview"))


@pytest.fixture(scope="module")
def rows(cache_path: Path) -> pd.DataFrame:
    with open_cache(cache_path) as cache:
        return single_models(diagnose(cache))


def _tiles(app) -> dict:
    """The trace of the only inventory panel: these caches hold one data set."""
    return figures(app)[0]["data"][0]


def _marks(app) -> set[str]:
    """What is written beside and above the tiles."""
    return {annotation["text"] for annotation in figures(app)[0]["layout"]["annotations"]}


def test_verdict_is_the_engines(cache_path: Path, rows: pd.DataFrame, monkeypatch):
    app = open_app(cache_path, monkeypatch, "overview")
    judged = judge_cache(rows, feature="mean routing entropy")
    assert judged.detail in verdict(app)


def test_caption_says_what_is_left_out(cache_path: Path, monkeypatch):
    caption = open_app(cache_path, monkeypatch, "overview").caption[0].value
    assert "8 runs in 4 cells" in caption
    assert "1 ensemble of last epochs left out of the counts" in caption
    assert "this page ignores the sidebar's" in caption


def test_slices_and_populations_change_nothing(cache_path: Path, monkeypatch):
    plain = open_app(cache_path, monkeypatch, "overview")
    sliced = open_app(
        cache_path,
        monkeypatch,
        "overview",
        outcome="wrong only",
        population="benchmark (held-out half)",
        bins="30",
        outer="0.2",
    )
    assert verdict(sliced) == verdict(plain)
    assert sliced.dataframe[0].value.equals(plain.dataframe[0].value)


def test_support_and_feature_do_change_it(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "overview", feature="confidence itself", support="9")
    assert "at least 9 samples in each outer third" in app.caption[0].value
    assert "Over the 8 runs that can be tested for confidence itself" in verdict(app)


def test_inventory_has_a_tile_per_counted_run_with_the_engines_numbers(
    cache_path: Path, rows: pd.DataFrame, monkeypatch
):
    for measure in ("accuracy", "raw_ece"):
        tiles = _tiles(open_app(cache_path, monkeypatch, "overview", tiles=plots.MEASURES[measure]))
        assert sorted(tiles["text"]) == sorted(f"{value:.3f}" for value in rows[measure])
    app = open_app(cache_path, monkeypatch, "overview")
    p_values = _tiles(app)["text"]
    assert len(p_values) == 8
    assert p_values.count("–") == 1
    assert {"seed 0", "seed 1", "seed 2", "seed 3", "imported", "Block-AR (b = 2)", "<b>toy</b>"} <= _marks(app)
    assert not any("last-5" in mark for mark in _marks(app))


def test_every_data_set_has_a_panel_of_its_own_runs(tmp_path: Path, monkeypatch, make_run):
    data = {"a": "cifar10", "b": "digits", "c": "digits"}
    records = [make_run(run_id, seed=seed, n=300, dataset=name) for seed, (run_id, name) in enumerate(data.items())]
    drawn = figures(open_app(published(records, tmp_path), monkeypatch, "overview", tiles="accuracy"))
    assert [len(panel["data"][0]["text"]) for panel in drawn[:2]] == [1, 2]


def test_many_seeds_have_tiles_without_numbers_and_the_numbers_in_the_tooltip(rows: pd.DataFrame):
    many = pd.concat([rows.assign(slot=f"seed {seed}", seed=seed) for seed in range(13)])
    named = many.assign(run=many["run_id"], backbone_name="toy", dataset_name="dice", variant_name=many["variant"])
    tiles = plots.inventory(named, "accuracy", judge_cache(rows), Theme())["dice"].data[0]
    assert set(tiles.text) == {""}
    assert all("accuracy 0." in text for text in tiles.hovertext)


def test_rejections_are_drawn_beside_chance(cache_path: Path, rows: pd.DataFrame, monkeypatch):
    counts = judge_cache(rows).counts
    drawn = traces(open_app(cache_path, monkeypatch, "overview"), 1)
    for test, name in (("paper", "the paper's test"), ("verdict", "trend and shape combined")):
        expected = [counts.loc[test, kind] for kind in ("nominal", "benjamini_hochberg", "holm")]
        assert numbers(drawn[name]["x"]).tolist() == expected
    assert drawn["the paper's test"]["marker"]["symbol"] == "circle-open"
    assert drawn["trend and shape combined"]["marker"]["symbol"] == "circle"
    assert "95 % of what chance gives" in drawn


def test_where_to_look_first_names_the_engines_runs_and_its_links_open_them(
    cache_path: Path, rows: pd.DataFrame, monkeypatch
):
    app = open_app(cache_path, monkeypatch, "overview")
    anchors = [
        re.fullmatch(r'<a href="([^"]+)" target="_self" style="color: inherit">(.+)</a>', body)
        for body in bodies(app)
        if body.startswith("<a ")
    ]
    first = look_first(rows)
    with open_cache(cache_path) as cache:
        names = run_names(cache.runs())
    assert [html.unescape(anchor[2]) for anchor in anchors] == [names[run_id].full for run_id in first["run_id"]]
    assert first["run_id"].str.startswith("real").iloc[:3].all()
    captions = {caption.value.replace("\\", "").replace("\u00a0", " ") for caption in app.caption}
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
    app = open_app(tmp_path / "first.duckdb", monkeypatch, "overview", cache="second.duckdb", present="1")
    anchors = [body for body in bodies(app) if body.startswith("<a ")]
    assert len(anchors) == 5
    assert all("cache=second.duckdb" in anchor and "present=1" in anchor for anchor in anchors)


def test_all_runs_are_in_the_table_and_ensembles_are_marked(cache_path: Path, monkeypatch):
    table = open_app(cache_path, monkeypatch, "overview").dataframe[0].value.set_index("Run")
    assert len(table) == 9
    assert table.loc["toy · dice · Full-AR · seed 0, last-5 ensemble", "Note"] == "ensemble, not counted"
    assert "routing profile" in table.loc["toy · dice · plain residual · seed 3", "Note"]


def test_nothing_testable_still_shows_the_inventory(tmp_path: Path, monkeypatch, make_run):
    baselines = [make_run(f"b{seed}", seed=seed, profile=False, variant="baseline") for seed in range(2)]
    app = open_app(published(baselines, tmp_path), monkeypatch, "overview")
    assert "None of the 2 runs can be tested" in verdict(app)
    assert len(_tiles(app)["text"]) == 2
    assert "No run can be tested" in shown(app)


def test_only_ensembles(tmp_path: Path, monkeypatch, make_run):
    app = open_app(published([make_run("e", suite="test-last5")], tmp_path), monkeypatch, "overview")
    assert "ensembles only" in shown(app)


def test_suites_and_repeated_runs_keep_their_own_tiles(tmp_path: Path, monkeypatch, make_run):
    suites = {"a": "test", "b": "again", "c": "test"}
    records = [make_run(run_id, seed=0, n=300, suite=suite) for run_id, suite in suites.items()]
    app = open_app(published(records, tmp_path), monkeypatch, "overview")
    assert {"Full-AR (test)", "Full-AR (again)", "seed 0", "seed 0 (2)"} <= _marks(app)


def test_an_empty_cache_says_what_to_do(empty_cache: Path, monkeypatch):
    app = open_app(empty_cache, monkeypatch, "overview")
    assert "cache_builder sweep" in app.info[0].value


@pytest.mark.parametrize("theme", [Theme(), Theme(dark=True), Theme(large=True)])
def test_text_is_never_small_and_solid_tiles_are_readable(rows: pd.DataFrame, theme: Theme):
    named = rows.assign(
        backbone_name="toy", dataset_name="dice", variant_name=rows["variant"], slot="seed 0", run=rows["run_id"]
    )
    fig = plots.inventory(named, "p", judge_cache(rows), theme)["dice"]
    assert fig.layout.font.size >= 13
    assert fig.data[0].textfont.size >= 13
    pairs = dict(zip(_places(fig), fig.data[0].textfont.color, strict=True))
    fills = {place: shape.fillcolor for shape in fig.layout.shapes for place in _outlined(shape.path)}
    assert fills.keys() == pairs.keys()
    found = {(fills[place], ink) for place, ink in pairs.items()}
    assert (theme.text, theme.paper) in found
    assert all(fill != ink for fill, ink in found)


def _places(fig) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(fig.data[0].x, fig.data[0].y, strict=True)]


def _outlined(path: str) -> list[tuple[float, float]]:
    """The middles of the rectangles of a path."""
    corners = re.findall(r"M([-.\d]+),([-.\d]+)H([-.\d]+)V([-.\d]+)H", path)
    middles = [((float(a) + float(c)) / 2, (float(b) + float(d)) / 2) for a, b, c, d in corners]
    return [(round(x, 6), round(y, 6)) for x, y in middles]


def test_tiles_of_a_kind_are_one_shape_however_many_there_are(rows: pd.DataFrame):
    many = pd.concat([rows.assign(slot=f"seed {seed}", seed=seed) for seed in range(40)])
    named = many.assign(run=many["run_id"], backbone_name="toy", dataset_name="dice", variant_name=many["variant"])
    for measure in plots.MEASURES:
        fig = plots.inventory(named, measure, judge_cache(rows), Theme())["dice"]
        assert sum(shape.path.count("M") for shape in fig.layout.shapes) == len(many)
        assert len(fig.layout.shapes) <= len(rows)
