"""The Mechanism page: its numbers are the engine's, and it says what a run cannot show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.plots.mechanism import depth_profile as draw_depth
from app.plots.mechanism import outcomes as draw_outcomes
from app.plots.theme import Theme
from app.shell.wording import typeset
from app.state import view
from engine.features import feature
from engine.metrics import ece
from engine.metrics.mechanism import compare_outcomes, depth_profile, relate_to_error
from engine.store import open_cache
from engine.verdict.wording import mechanism_sentence
from tests.app.driver import figures, load, numbers, open_app, published, shown, verdict

SPREAD = "spread of routing entropy over depth"


def test_verdict_depth_and_table_are_the_engines(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "mechanism", variant="Full-AR", feature=SPREAD)
    run = load(cache_of_kinds, "full-s0")
    relation = relate_to_error(run.confidence, run.correct, feature(run, "r_std"))
    names = [f"block {layer // 2 + 2} layer" for layer in range(6)]
    profile = depth_profile(run.entropies, run.correct, names=names)
    sentence = typeset(mechanism_sentence(profile, relation, SPREAD)).replace("\u00a0", " ")
    assert sentence in verdict(app)
    assert numbers(figures(app)[0]["data"][0]["x"]) == pytest.approx(profile.mean)
    assert figures(app)[0]["layout"]["yaxis"]["ticktext"][-1] == "block 4 layer (4)"
    row = app.dataframe[0].value.set_index("Feature").loc[SPREAD]
    assert row["Rank correlation"] == pytest.approx(relation.spearman.value)
    assert row["P(wrong higher)"] == pytest.approx(relation.outcomes.separation)
    assert typeset(f"Rank correlation with the error: {relation.spearman.value:.2f}") in shown(app)


def test_training_is_drawn_from_the_epochs_table(cache_of_kinds: Path, monkeypatch):
    with open_cache(cache_of_kinds) as cache:
        epochs = cache.epochs("full-s0")
    for query in ({"variant": "Full-AR"}, {"variant": "Full-AR", "run": "seed 0, last-5 ensemble"}):
        app = open_app(cache_of_kinds, monkeypatch, "mechanism", **query)
        drawn = next(figure["data"][0] for figure in figures(app) if figure["data"][0]["type"] == "heatmap")
        entropy = numbers(drawn["z"]).reshape(6, 4)
        assert entropy[2, 3] == pytest.approx(epochs.query("layer == 3 and epoch == 4")["mean_entropy"].item())


def test_ensemble_stands_beside_the_last_epoch(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "mechanism", variant="Full-AR")
    table = app.dataframe[-1].value
    both = [load(cache_of_kinds, run_id) for run_id in ("full-s0", "full-s0-last5")]
    assert table["Model"].tolist() == ["last epoch", "ensemble of 5 epochs"]
    assert table["ECE"].tolist() == pytest.approx([ece(run.confidence, run.correct) for run in both])
    alone = open_app(cache_of_kinds, monkeypatch, "mechanism", variant="Block-AR (b = 2)")
    assert "does not hold both" in shown(alone)


def test_the_run_to_compare_with_stands_beside(cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds, monkeypatch, "mechanism", variant="Full-AR", **{"with": "toy · dice · Full-AR · seed 1"}
    )
    other = load(cache_of_kinds, "full-s1")
    assert numbers(figures(app)[1]["data"][0]["x"]) == pytest.approx(other.entropies.mean(axis=0))


def test_a_run_without_logits_replaces_what_needs_them(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "mechanism", variant="Block-AR (b = 2)", feature="predictive entropy")
    assert "It lacks predictive entropy; below, mean routing entropy stands in." in verdict(app)


def test_a_run_without_profile_or_extra_columns_falls_back_to_confidence(cache_of_kinds: Path, monkeypatch):
    for query in ({"variant": "plain residual"}, {"backbone": "unknown"}):
        app = open_app(cache_of_kinds, monkeypatch, "mechanism", **query)
        assert "no routing profile" in verdict(app)
        assert "confidence itself stands in" in verdict(app)
        assert "routing across depth cannot be shown" in shown(app)
        assert "No entropy was recorded" in shown(app)
        assert len(figures(app)) == 2


def test_extra_columns_stand_in_for_the_profile(tmp_path: Path, monkeypatch, make_run):
    norms = {f"block {block} norm": np.random.default_rng(block).gamma(5, block, 300) for block in (1, 2, 3)}
    cache = published([make_run("norms", n=300, profile=False, variant="baseline", extra=norms)], tmp_path)
    app = open_app(cache, monkeypatch, "mechanism")
    assert "block 3 norm stands in" in verdict(app)
    means = [column.astype(np.float32).mean(dtype=np.float64) for column in norms.values()]
    assert numbers(figures(app)[0]["data"][0]["x"]) == pytest.approx(means)
    chosen = open_app(cache, monkeypatch, "mechanism", feature="block 1 norm")
    assert "stands in" not in verdict(chosen)


def test_an_untrained_router_does_not_break_the_page(tmp_path: Path, monkeypatch, make_run):
    """At initialisation every entropy is 1 and r_std is 0."""
    fresh = make_run("fresh", n=200, profile=False, entropies=np.ones((200, 3)))
    cache = published([fresh], tmp_path)
    app = open_app(cache, monkeypatch, "mechanism", feature=SPREAD)
    assert "cannot be ranked" in verdict(app)
    assert "The mean is 1.00 in every layer" in shown(app)


def test_figures_of_one_sided_samples():
    profile = depth_profile([[0.2, 0.4], [0.4, 0.4]], [True, True])
    assert len(draw_depth(profile, Theme(dark=True)).data) == 2
    fig = draw_outcomes(compare_outcomes([0.1, 0.3], [True, True]), "x", Theme())
    assert "Only one kind" in fig.layout.title.text
    assert [trace.name for trace in fig.data] == ["correct (2)"]


def test_a_redraw_reads_neither_logits_nor_other_runs(cache_of_kinds: Path, monkeypatch):
    chosen = {"variant": "Full-AR", "run": "seed 0", "with": "toy · dice · Full-AR · seed 1"}
    first = open_app(cache_of_kinds, monkeypatch, "mechanism", **chosen)
    assert "predictive entropy" in first.dataframe[0].value["Feature"].tolist()
    load_run = view.load_run

    def only_the_chosen_one(cache, run_id: str, **options: bool):
        assert (run_id, options.get("with_logits", False)) == ("full-s0", False)
        return load_run(cache, run_id, **options)

    for module in ("app.state.view", "app.compute.cache"):
        monkeypatch.setattr(f"{module}.load_run", only_the_chosen_one)
    again = open_app(cache_of_kinds, monkeypatch, "mechanism", **chosen)
    assert figures(again) == figures(first)
    assert again.dataframe[0].value.equals(first.dataframe[0].value)
