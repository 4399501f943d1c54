"""The Mechanism page: its numbers are the engine's, and it says what a run cannot show."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.plots.mechanism import depth_profile as draw_depth
from app.plots.mechanism import outcomes as draw_outcomes
from app.plots.theme import Theme
from app.registry import page_for
from engine.features import feature
from engine.mechanism import compare_outcomes, depth_profile, relate_to_error
from engine.metrics import ece
from engine.store import open_cache, publish, write_shard
from engine.types import RunData
from engine.verdict_browse import mechanism_sentence

ROOT = Path(__file__).resolve().parents[2]
SPREAD = "spread of routing entropy over depth"


def open_page(cache: Path, monkeypatch: pytest.MonkeyPatch, **query: str | list[str]) -> AppTest:
    monkeypatch.setenv("ROUTECAL_CACHE", str(cache))
    app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    app.switch_page(str(page_for("mechanism").script))
    app.run()
    assert not app.exception, app.exception
    return app


def verdict(app: AppTest) -> str:
    return app.get("html")[0].proto.body


def texts(app: AppTest) -> str:
    return " ".join(element.value for kind in ("markdown", "caption") for element in app.get(kind))


def figures(app: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def numbers(values: object) -> np.ndarray:
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    return np.asarray(values, dtype=float)


def load(cache: Path, run_id: str) -> RunData:
    with open_cache(cache) as opened:
        return opened.load(run_id)


def test_verdict_depth_and_table_are_the_engines(cache_of_kinds: Path, monkeypatch):
    app = open_page(cache_of_kinds, monkeypatch, variant="Full-AR", feature=SPREAD)
    run = load(cache_of_kinds, "full-s0")
    relation = relate_to_error(run.confidence, run.correct, feature(run, "r_std"))
    names = [f"block {layer // 2 + 2} layer" for layer in range(6)]
    profile = depth_profile(run.entropies, run.correct, names=names)
    assert mechanism_sentence(profile, relation, SPREAD) in verdict(app)
    assert numbers(figures(app)[0]["data"][0]["x"]) == pytest.approx(profile.mean)
    assert figures(app)[0]["layout"]["yaxis"]["ticktext"][-1] == "block 4 layer (4)"
    row = app.dataframe[0].value.set_index("Feature").loc[SPREAD]
    assert row["Rank correlation"] == pytest.approx(relation.spearman.value)
    assert row["P(wrong higher)"] == pytest.approx(relation.outcomes.separation)
    assert f"Rank correlation with the error: {relation.spearman.value:.2f}" in texts(app)


def test_training_is_drawn_from_the_epochs_table(cache_of_kinds: Path, monkeypatch):
    with open_cache(cache_of_kinds) as cache:
        epochs = cache.epochs("full-s0")
    for query in ({"variant": "Full-AR"}, {"variant": "Full-AR", "run": "seed 0, last-5 ensemble"}):
        app = open_page(cache_of_kinds, monkeypatch, **query)
        drawn = next(figure["data"][0] for figure in figures(app) if figure["data"][0]["type"] == "heatmap")
        shown = numbers(drawn["z"]).reshape(6, 4)
        assert shown[2, 3] == pytest.approx(epochs.query("layer == 3 and epoch == 4")["mean_entropy"].item())


def test_ensemble_stands_beside_the_last_epoch(cache_of_kinds: Path, monkeypatch):
    app = open_page(cache_of_kinds, monkeypatch, variant="Full-AR")
    table = app.dataframe[-1].value
    both = [load(cache_of_kinds, run_id) for run_id in ("full-s0", "full-s0-last5")]
    assert table["Model"].tolist() == ["last epoch", "ensemble of five"]
    assert table["ECE"].tolist() == pytest.approx([ece(run.confidence, run.correct) for run in both])
    alone = open_page(cache_of_kinds, monkeypatch, variant="Block-AR (b = 2)")
    assert "does not hold both" in texts(alone)


def test_the_run_to_compare_with_stands_beside(cache_of_kinds: Path, monkeypatch):
    app = open_page(cache_of_kinds, monkeypatch, variant="Full-AR", **{"with": "toy · dice · Full-AR · seed 1"})
    other = load(cache_of_kinds, "full-s1")
    assert numbers(figures(app)[1]["data"][0]["x"]) == pytest.approx(other.entropies.mean(axis=0))


def test_a_run_without_logits_replaces_what_needs_them(cache_of_kinds: Path, monkeypatch):
    app = open_page(cache_of_kinds, monkeypatch, variant="Block-AR (b = 2)", feature="predictive entropy")
    assert "It lacks predictive entropy; below, mean routing entropy stands in." in verdict(app)


def test_a_run_without_profile_or_extra_columns_falls_back_to_confidence(cache_of_kinds: Path, monkeypatch):
    for query in ({"variant": "plain residual"}, {"backbone": "unknown"}):
        app = open_page(cache_of_kinds, monkeypatch, **query)
        assert "no routing profile" in verdict(app)
        assert "confidence itself stands in" in verdict(app)
        assert "there is no depth to show" in texts(app)
        assert "No entropy was recorded" in texts(app)
        assert len(figures(app)) == 2


def test_extra_columns_stand_in_for_the_profile(tmp_path: Path, monkeypatch, make_run):
    norms = {f"block {block} norm": np.random.default_rng(block).gamma(5, block, 300) for block in (1, 2, 3)}
    write_shard(make_run("norms", n=300, profile=False, variant="baseline", extra=norms), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    app = open_page(tmp_path / "cache.duckdb", monkeypatch)
    assert "block 3 norm stands in" in verdict(app)
    means = [column.astype(np.float32).mean(dtype=np.float64) for column in norms.values()]
    assert numbers(figures(app)[0]["data"][0]["x"]) == pytest.approx(means)
    chosen = open_page(tmp_path / "cache.duckdb", monkeypatch, feature="block 1 norm")
    assert "stands in" not in verdict(chosen)


def test_an_untrained_router_does_not_break_the_page(tmp_path: Path, monkeypatch, make_run):
    """At initialisation every entropy is 1 and r_std is 0."""
    base = make_run("fresh", n=200, profile=False)
    write_shard(
        type(base)(
            run_id="fresh", suite="test", backbone="toy", dataset="dice", variant="full_ar", seed=0,
            logits=base.logits, labels=base.labels, entropies=np.ones((200, 3)),
        ),
        tmp_path / "shards",
    )  # fmt: skip
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    app = open_page(tmp_path / "cache.duckdb", monkeypatch, feature=SPREAD)
    assert "cannot be ranked" in verdict(app)
    assert "The mean is 1.00 in every layer" in texts(app)


def test_figures_of_one_sided_samples():
    profile = depth_profile([[0.2, 0.4], [0.4, 0.4]], [True, True])
    assert len(draw_depth(profile, Theme(dark=True)).data) == 2
    fig = draw_outcomes(compare_outcomes([0.1, 0.3], [True, True]), "x", Theme())
    assert "Only one kind" in fig.layout.title.text
    assert [trace.name for trace in fig.data] == ["correct (2)"]
