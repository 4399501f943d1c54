"""The Feature lab: its numbers are the engine's, its choices live in the address, it says what a run cannot show."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.plots.features import search_rows, shuffled_best
from app.plots.theme import Theme
from engine.benchmark import contrast_in_run, feature_ablation, run_benchmark
from engine.features import FEATURES, CustomFeature, feature
from engine.features.search import search_features
from engine.gaps import TestSettings, combined_test, permutation_test
from engine.verdict import judge
from engine.verdict.features import search_sentence
from tests.app.driver import figures, load, numbers, open_app, published, shown, traces, verdict

ALL = (1, 2, 3, 4, 5, 6)


def table(app: AppTest) -> pd.DataFrame:
    """The candidates, the first table on the page."""
    return app.dataframe[0].value.set_index("Scalar")


def test_verdict_and_search_are_the_engines(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "features", variant="Full-AR", shuffles="100", test="the paper's test")
    search = search_features(load(cache_of_kinds, "full-s0"), n_shuffles=100)
    assert search_sentence(search) in verdict(app)
    paper = search.tests["paper"]
    histogram, rows = figures(app)[:2]
    assert numbers(histogram["data"][0]["y"]).sum() == 100
    assert f"Shuffled routing performs as well in {paper.n_as_good} of 100 searches" in shown(app)
    drawn = np.concatenate([numbers(trace["x"]) for trace in rows["data"]])
    tested = np.isfinite(paper.p_values)
    assert np.sort(10**drawn) == pytest.approx(np.sort(paper.p_values[tested]))
    listed = app.dataframe[-1].value.set_index("Scalar")
    assert len(listed) == 2 * (6 + 6)
    best = search.candidates[paper.best].label
    assert listed.index[0] == best
    assert listed.loc[best, "p, paper's"] == pytest.approx(paper.best_p)
    assert listed.loc[best, "Holm, paper's"] == pytest.approx(min(1, paper.n_tested * paper.best_p))


def test_a_scalar_of_ones_own_recomputes_everything(cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds, monkeypatch, "features", variant="Full-AR", layers6=["2", "5"], summary="range", times="true"
    )
    run, own = load(cache_of_kinds, "full-s0"), CustomFeature((2, 5), "range", True)
    rho = feature(run, own)
    assert judge(run.confidence, run.correct, rho, feature=own.label).sentence in shown(app)
    paper, tested = permutation_test(run.confidence, run.correct, rho), combined_test(run.confidence, run.correct, rho)
    row = table(app).loc[f"yours: {own.label}"]
    assert row["Largest gap"] == pytest.approx(paper.observed)
    assert row["p, paper's"] == pytest.approx(paper.p_value)
    assert row["p, verdict"] == pytest.approx(tested.p_value)
    low = traces(app, 2)["low tertile"]
    assert numbers(low["y"]) == pytest.approx(paper.gap.bins.query("n_low > 0")["accuracy_low"].to_numpy())
    contrasts = contrast_in_run(run_benchmark(run, ("nw_conf", "nw_conf_entropy", "nw_conf_routing"), feature=own))
    drawn = [numbers(trace["x"]) for trace in figures(app)[3]["data"]]
    expected = [part["difference"].to_numpy() for _, part in contrasts.groupby("control", sort=False)]
    assert drawn == [pytest.approx(differences) for differences in expected]


def test_the_candidates_are_those_of_the_tests_and_the_ablation(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "features", variant="Full-AR")
    run, own = load(cache_of_kinds, "full-s0"), CustomFeature(ALL, "std")
    shown_table = table(app)
    assert list(shown_table.index) == [*(entry.label for entry in FEATURES.values()), f"yours: {own.label}"]
    ablation = feature_ablation(run, (*FEATURES, own)).pivot_table(index="feature", columns="metric", values="value")
    for name, row in zip((*FEATURES, own.name), shown_table.to_dict("records"), strict=True):
        assert row["ECE"] == pytest.approx(ablation.loc[name, "ece"])
        assert row["Worst tertile"] == pytest.approx(ablation.loc[name, "worst_tertile_ece"])
        assert row["NLL"] == pytest.approx(ablation.loc[name, "nll"])
    entropy = combined_test(run.confidence, run.correct, feature(run, "pred_entropy"))
    assert shown_table.loc["predictive entropy", "p, verdict"] == pytest.approx(entropy.p_value)


def test_below_a_hundred_samples_no_scalar_has_a_verdicts_p(tmp_path: Path, monkeypatch, make_run):
    """Too few samples to match confidence: the engine shows none, neither for the seven nor for one's own."""
    path = published([make_run("small", n=90)], tmp_path)
    app = open_app(path, monkeypatch, "features", layers6=["2", "5"], summary="range")
    listed = table(app)
    assert any(label.startswith("yours:") for label in listed.index)
    assert listed["p, verdict"].isna().all()
    assert listed["p, paper's"].notna().any()


def test_settings_and_slice_apply_and_the_sidebars_feature_does_not(cache_of_kinds: Path, monkeypatch):
    chosen = {"variant": "Full-AR", "bins": "10", "support": "8", "shuffles": "100"}
    app = open_app(cache_of_kinds, monkeypatch, "features", **chosen)
    run = load(cache_of_kinds, "full-s0")
    assert search_sentence(search_features(run, n_shuffles=100, settings=TestSettings(10, 8))) in verdict(app)
    other = open_app(cache_of_kinds, monkeypatch, "features", feature="confidence itself", **chosen)
    assert verdict(other) == verdict(app)
    half = open_app(cache_of_kinds, monkeypatch, "features", band=["0.0", "0.7"], **chosen)
    part = run.subset(run.confidence <= 0.7)
    assert search_sentence(search_features(part, n_shuffles=100, settings=TestSettings(10, 8))) in verdict(half)


def test_one_layer_is_taken_as_it_is_and_no_layer_is_asked_for(cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds, monkeypatch, "features", variant="Full-AR", layers6=["4"], summary="slope over depth"
    )
    assert app.selectbox(key="summary").disabled
    assert "yours: routing entropy of layer 4" in table(app).index
    app.button_group(key="layers6").set_value([]).run()
    assert not app.exception
    assert "at least one layer" in shown(app)
    assert len(table(app)) == len(FEATURES)


def test_a_run_without_logits_shows_all_but_the_calibrator(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "features", variant="Block-AR (b = 2)")
    assert "AR-CondCal cannot be fitted here: this run has no logits" in shown(app)
    assert len(figures(app)) == 3
    found = table(app)
    assert found[["ECE", "Worst tertile", "NLL"]].isna().all(axis=None)
    assert "predictive entropy" not in found.index, "what the run lacks is left out"
    assert np.isfinite(found.loc["mean routing entropy", "p, verdict"])


def test_a_run_without_profile_says_so_and_shows_what_it_holds(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "features", variant="plain residual")
    assert "no routing profile" in verdict(app)
    assert figures(app) == []
    found = table(app)
    assert np.isfinite(found.loc["predictive entropy", ["p, verdict", "ECE", "NLL"]].to_numpy(dtype=float)).all()
    assert "mean routing entropy" not in found.index, "what the run lacks is left out"


def test_a_column_of_ones_own_is_listed_and_nothing_that_is_lacking(tmp_path: Path, monkeypatch, make_run):
    base = make_run("own", n=400, profile=False, logits=False)
    own = replace(base, extra={"margin": np.random.default_rng(1).random(400)})
    found = table(open_app(published([own], tmp_path), monkeypatch, "features"))
    assert list(found.index) == ["confidence itself", "margin"]
    assert np.isfinite(found.loc["margin", "p, verdict"])


def test_samples_that_cannot_be_tested(tmp_path: Path, monkeypatch, make_run):
    right = replace(make_run("right", n=200, logits=False), correct=np.ones(200, dtype=bool))
    app = open_app(published([right], tmp_path), monkeypatch, "features", shuffles="100")
    assert "Nothing can be said about this run" in verdict(app)


def test_a_single_sample_is_no_search_and_cannot_be_halved(tmp_path: Path, monkeypatch, make_run):
    cache = published([make_run("one", n=1, backbone="one"), make_run("many", n=300, backbone="many")], tmp_path)
    assert "One sample is too few" in verdict(open_app(cache, monkeypatch, "features", backbone="one"))
    app = open_app(cache, monkeypatch, "reliability", backbone="many", population="benchmark (held-out half)")
    assert "one · dice" in shown(app)


def test_an_untrained_router_and_a_single_layer(tmp_path: Path, monkeypatch, make_run):
    base = make_run("fresh", n=300, profile=False)
    fresh = type(base)(
        run_id="fresh", suite="test", backbone="toy", dataset="dice", variant="full_ar", seed=0,
        logits=base.logits, labels=base.labels, entropies=np.ones((300, 1)),
    )  # fmt: skip
    app = open_app(published([fresh], tmp_path), monkeypatch, "features", shuffles="100")
    assert "Of 1 scalar the best" in verdict(app)  # one times confidence is confidence itself


def test_a_search_that_was_not_finished_gives_no_verdict(cache_of_kinds: Path, monkeypatch):
    monkeypatch.setattr("app.shell.long_work.FIRST_LOOK", 0.0)
    app = open_app(cache_of_kinds, monkeypatch, "features", variant="Full-AR", shuffles="1000", run="seed 1")
    assert "The search over 24 scalars is still running" in verdict(app)
    assert app.button(key="stop-search").label == "Stop"
    assert len(figures(app)) == 1, "the rest of the page does not wait"


@pytest.mark.parametrize("work", ["own", "fitted", "candidates"])
def test_what_was_stopped_leaves_the_rest_of_the_lab_alone(work: str, cache_of_kinds: Path, monkeypatch):
    gate = threading.Event()
    slow = {"own": "judge", "fitted": "run_benchmark", "candidates": "judge_scores"}
    monkeypatch.setattr(f"app.compute.features.{slow[work]}", lambda *_, **__: gate.wait(20))
    monkeypatch.setattr("app.shell.long_work.FIRST_LOOK", 1.0)
    layer = {"own": "1", "fitted": "2", "candidates": "3"}[work]  # and as many bins that nobody else has asked for
    try:
        app = open_app(
            cache_of_kinds, monkeypatch, "features", variant="Full-AR", shuffles="100", bins=f"2{layer}",
            layers6=[layer],
        )  # fmt: skip
        app.button(key=f"stop-{work}").click().run()
        assert not app.exception
        assert "Stopped." in shown(app)
        assert figures(app)
    finally:
        gate.set()


def test_figures_of_a_strong_find(cache_of_kinds: Path):
    run = load(cache_of_kinds, "full-s0")
    found = type(run)("x", run.confidence, run.entropies[:, 2] > np.median(run.entropies[:, 2]), run.entropies)
    search = search_features(found, n_shuffles=30)
    fig = search_rows(search, "verdict", Theme(dark=True))
    assert "The best is routing entropy of layer 3 (p < 0.001); it beats" in fig.layout.title.text
    assert "in 0 of 30 searches" in shuffled_best(search.tests["verdict"], Theme()).layout.title.text
