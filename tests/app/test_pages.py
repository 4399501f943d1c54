"""Every page of the registry over every kind of run and cache: no exception, a verdict, the settings in force."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.export import Item, page_html
from app.plots.theme import Theme, empty_figure
from app.registry import PAGES, page_for
from engine.features import feature
from engine.gaps.settings import TestSettings
from engine.store import open_cache, publish, write_shard
from engine.verdict import judge
from tests.app.driver import figures, headline, keyed, load, open_app, shown, verdict

RUNS = {
    "full": {"backbone": "toy", "variant": "Full-AR"},
    "no-logits": {"backbone": "toy", "variant": "Block-AR (b = 2)"},
    "no-profile": {"backbone": "toy", "variant": "plain residual"},
    "imported": {"backbone": "unknown"},
}


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_every_page_copes_with_every_kind_of_run(page: str, kind: str, cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, page, **RUNS[kind])
    assert app.title[0].value == page_for(page).question
    state, answer = headline(app)
    assert state in ("evidence", "no evidence", "cannot tell", "measured")
    assert 0 < len(answer.split()) <= 12, answer
    assert answer in verdict(app)
    with open_cache(cache_of_kinds) as cache:
        assert cache.fingerprint in shown(app)


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_every_page_copes_with_an_empty_and_a_missing_cache(page: str, empty_cache: Path, tmp_path: Path, monkeypatch):
    app = open_app(empty_cache, monkeypatch, page)
    assert "cache_builder sweep" in app.info[0].value
    app = open_app(tmp_path / "missing.duckdb", monkeypatch, page)
    assert "missing.duckdb: no such cache" in app.warning[0].value
    assert str(tmp_path) not in shown(app)


def test_a_broken_cache_says_so(tmp_path: Path, monkeypatch):
    (tmp_path / "cache.duckdb").write_bytes(b"not a database" * 100)
    app = open_app(tmp_path / "cache.duckdb", monkeypatch, "gap")
    assert "cannot be read" in app.warning[0].value


def test_a_new_cache_is_picked_up(cache_of_kinds: Path, tmp_path: Path, monkeypatch, make_run):
    shutil.copytree(cache_of_kinds.parent / "shards", tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    app = open_app(tmp_path / "cache.duckdb", monkeypatch, "gap")
    before = app.caption[0].value
    write_shard(make_run("new", seed=9, backbone="another"), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    app.run()
    assert not app.exception
    assert "another" in app.selectbox(key="backbone").options
    assert app.caption[0].value != before


def test_a_second_cache_can_be_chosen(cache_of_kinds: Path, empty_cache: Path, tmp_path: Path, monkeypatch):
    shutil.copy(cache_of_kinds, tmp_path / "a.duckdb")
    shutil.copy(empty_cache, tmp_path / "b.duckdb")
    assert "cache_builder sweep" in open_app(tmp_path / "a.duckdb", monkeypatch, "gap", cache="b.duckdb").info[0].value
    app = open_app(tmp_path / "a.duckdb", monkeypatch, "gap")
    assert app.selectbox(key="cache").options == ["a.duckdb", "b.duckdb"]
    assert not app.info


def test_invalid_parameters_fall_back_and_the_settings_in_force_are_printed(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "gap", bins="9999", feature="<b>nonsense</b>", band="3_7", run="nobody")
    assert "15 bins" in app.caption[0].value
    assert "mean routing entropy" in app.caption[0].value


def test_what_a_link_asks_for_in_vain_is_said_once_and_can_be_closed(cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds, monkeypatch, "gap", **RUNS["full"], feature="<b>nonsense</b>", run="nobody", of="abc"
    )
    (bar,) = keyed(app, "lost")[0].get("warning")
    said = bar.value.replace("\\", "")
    assert "This cache has no run “nobody”" in said
    assert "This cache has no feature “<b>nonsense</b>”" in said
    assert "The cache has changed since this link was made: it was abc" in said
    app.button(key="lost-close").click().run()
    assert not keyed(app, "lost")[0].get("warning")
    with open_cache(cache_of_kinds) as cache:
        whole = open_app(cache_of_kinds, monkeypatch, "gap", **RUNS["full"], of=cache.fingerprint)
    assert not keyed(whole, "lost")[0].get("warning")


def test_every_departure_has_a_chip_that_takes_it_back(cache_of_kinds: Path, monkeypatch):
    chosen = {"bins": "10", "outer": "0.2", "tertile": "low", "band": ["0.2", "0.9"], "predicted": "2"}
    app = open_app(cache_of_kinds, monkeypatch, "reliability", **RUNS["full"], **chosen)
    chips = {button.key: button.label for button in app.button if str(button.key).startswith("chip-")}
    assert list(chips) == ["chip-tertile", "chip-band", "chip-predicted", "chip-bins", "chip-outer", "chip-reset"]
    assert chips["chip-band"] == "confidence 0.20 to 0.90"
    app.button(key="chip-bins").click().run()
    assert "15 bins" in app.caption[0].value
    assert "slice: low tertile" in app.caption[0].value
    app.button(key="chip-reset").click().run()
    assert "slice" not in app.caption[0].value
    assert not [button for button in app.button if str(button.key).startswith("chip-")]
    of_cache = open_app(cache_of_kinds, monkeypatch, "overview", **chosen, support="9")
    assert [b.key for b in of_cache.button if str(b.key).startswith("chip-")] == ["chip-support", "chip-reset"]


def test_settings_in_the_address_are_in_force(cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds, monkeypatch, "gap", **RUNS["full"],
        bins="10", support="8", feature="confidence itself", predicted="2",
    )  # fmt: skip
    assert "10 bins, at least 8 samples in each outer third" in app.caption[0].value
    assert "confidence itself" in app.caption[0].value
    assert "predicted class 2" in app.caption[0].value


def test_the_sentence_and_the_figure_use_the_same_settings(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "gap", **RUNS["full"], bins="6", support="9", outer="0.2")
    run = load(cache_of_kinds, "full-s0")
    settings = TestSettings(6, 9, (0.2, 0.8))
    expected = judge(
        run.confidence, run.correct, feature(run, "r_agg"), feature="mean routing entropy", settings=settings
    )
    assert expected.sentence in verdict(app)
    assert f"The largest gap is {expected.paper.observed:.2f}" in shown(app)


def test_a_run_to_compare_with_computes_nothing_anew(cache_of_kinds: Path, monkeypatch):
    open_app(cache_of_kinds, monkeypatch, "gap", **RUNS["full"], bins="9")
    monkeypatch.setattr("app.compute.gap.judge", None)  # cannot be called
    open_app(cache_of_kinds, monkeypatch, "gap", **RUNS["full"], bins="9", **{"with": "toy · dice · Full-AR · seed 1"})


def test_a_slice_that_a_run_cannot_be_cut_by_is_not_claimed(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "reliability", backbone="unknown", tertile="low", outcome="wrong only")
    assert "slice: wrong predictions" in app.caption[0].value
    assert "this run lacks the feature, so that slice is ignored" in app.caption[0].value
    assert app.selectbox(key="predicted").help == "The classes of this run are not known."


@pytest.mark.parametrize("page", ["gap", "null", "controls", "features", "probes"])
def test_pages_that_test_refuse_a_slice_by_outcome_and_offer_another(page: str, cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, page, **RUNS["full"], **{"class": "3", "outcome": "wrong only"})
    assert "Selecting by true class uses the outcome, so tests on it reject without cause. Slice by" in verdict(app)
    assert not figures(app)
    assert app.button(key="testable-slice").label == "Use predicted class 3"
    if page == "gap":
        app.button(key="testable-slice").click().run()
        assert not app.exception
        assert "slice: predicted class 3" in app.caption[0].value
        assert (app.selectbox(key="class").value, app.selectbox(key="outcome").value) == ("all", "all")
        assert figures(app)


@pytest.mark.parametrize("page", ["reliability", "mechanism"])
def test_pages_that_describe_show_a_slice_by_outcome(page: str, cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, page, **RUNS["full"], **{"class": "3"})
    assert "slice: true class 3" in app.caption[0].value
    assert figures(app)


def test_an_empty_slice_says_so(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "gap", band=["0.0", "0.01"])
    assert "No sample" in app.info[0].value


def test_exported_page_is_self_contained_and_inert():
    items = [Item("verdict", "<script>alert(1)</script>"), Item("figure", empty_figure(Theme(), "nothing"))]
    text = page_html("A <b>title</b>", items)
    assert "<script>alert" not in text
    assert "&lt;b&gt;title" in text
    assert "plotly" in text
    assert 'src="http' not in text
