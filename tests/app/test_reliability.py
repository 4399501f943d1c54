"""The Reliability page: its numbers are the engine's, and it says what a run cannot show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.parts.reliability import MOST_RUNS
from app.plots.reliability import class_gaps, diagram, diagram_title, tertile_map
from app.plots.theme import OVER_CONFIDENT, UNDER_CONFIDENT, Theme
from app.state import view
from engine.benchmark import run_benchmark
from engine.metrics import ece, reliability_table
from engine.metrics.mechanism import reliability_map
from engine.metrics.reliability import calibration_summary, class_table
from engine.verdict.wording import reliability_sentence
from tests.app.driver import figures, load, numbers, open_app, published, shown, verdict

SPREAD = "spread of routing entropy over depth"


def test_verdict_and_bins_are_the_engines(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "reliability", backbone="toy", variant="Full-AR")
    run = load(cache_of_kinds, "full-s0")
    assert reliability_sentence(calibration_summary(run.confidence, run.correct)) in verdict(app)
    expected = reliability_table(run.confidence, run.correct)
    table = app.dataframe[-1].value
    assert table["Samples"].tolist() == expected["count"].tolist()
    np.testing.assert_allclose(table["Accuracy"].to_numpy(float), expected["accuracy"], equal_nan=True)
    drawn = [trace for trace in figures(app)[0]["data"] if trace["type"] == "scatter"]
    together = np.sort(np.concatenate([numbers(trace["y"]) for trace in drawn]))
    assert together == pytest.approx(np.sort(expected["accuracy"].dropna()))


def test_settings_reach_the_page(cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds, monkeypatch, "reliability", variant="Full-AR", bins="7", population="benchmark (held-out half)",
        binning="equal mass",
    )  # fmt: skip
    run = load(cache_of_kinds, "full-s0")
    held_out = np.sort(np.random.default_rng(42).permutation(run.n_samples)[run.n_samples // 2 :])
    part = run.subset(held_out)
    assert reliability_sentence(calibration_summary(part.confidence, part.correct, n_bins=7)) in verdict(app)
    expected = reliability_table(part.confidence, part.correct, n_bins=7, matching="equal_mass")
    assert app.dataframe[-1].value["Samples"].tolist() == expected["count"].tolist()


def test_calibrators_are_shown_on_the_held_out_half(cache_of_kinds: Path, monkeypatch):
    methods = ["Temperature scaling", "Histogram binning", "AR-CondCal"]
    app = open_app(
        cache_of_kinds,
        monkeypatch,
        "reliability",
        variant="Full-AR",
        methods=methods,
        feature="spread of routing entropy over depth",
    )
    run = load(cache_of_kinds, "full-s0")
    result = run_benchmark(run, ["ts", "hb", "nw_conf_routing"], n_bootstrap=0)
    for label, method in zip(methods, ("ts", "hb", "nw_conf_routing"), strict=True):
        assert f"{label}: ECE {ece(result.confidence[method], result.correct[method]):.3f}" in shown(app)
    assert "Population: benchmark. Fitted on 750 samples of the run, shown on the other 750" in shown(app)


def test_a_kernel_on_another_feature_is_not_called_by_the_papers_name(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "reliability", variant="Full-AR", methods=["AR-CondCal"])
    assert "Kernel on confidence and mean routing entropy: ECE" in shown(app)


def test_map_and_classes_are_the_engines(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "reliability", variant="Full-AR")
    run = load(cache_of_kinds, "full-s0")
    found = reliability_map(run.confidence, run.correct, run.entropies.mean(axis=1))
    drawn = next(figure["data"][0] for figure in figures(app) if figure["data"][0]["type"] == "heatmap")
    assert numbers(drawn["z"]).reshape(15, 3) == pytest.approx(found.gap.T, nan_ok=True)
    by_class = class_table(run.confidence, run.correct, run.predictions)
    table = app.dataframe[0].value
    assert table["Predicted class"].tolist() == by_class["predicted"].tolist()
    assert table["ECE"].tolist() == pytest.approx(by_class["ece"].tolist())
    class_ece = ece(run.probs[:, 0], run.labels == 0)
    assert f"Class 0: ECE {class_ece:.3f}" in shown(app)


def test_the_grid_shows_other_cells_or_this_cell(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "reliability", variant="Full-AR")
    run = load(cache_of_kinds, "baseline-s0")
    assert f"toy · dice · plain residual · seed 3: ECE {ece(run.confidence, run.correct):.3f}" in shown(app)
    assert "Full-AR · seed 1: ECE" not in shown(app)
    app.radio(key="grid").set_value("cell").run()
    assert not app.exception
    assert "Full-AR · seed 1: ECE" in shown(app)
    assert "seed 0, last-5 ensemble: ECE" in shown(app)
    assert "plain residual · seed 3: ECE" not in shown(app)


def test_the_run_to_compare_with_stands_beside(cache_of_kinds: Path, monkeypatch):
    alone = len(figures(open_app(cache_of_kinds, monkeypatch, "reliability", variant="Full-AR")))
    app = open_app(
        cache_of_kinds, monkeypatch, "reliability", variant="Full-AR", **{"with": "toy · dice · Full-AR · seed 1"}
    )
    assert len(figures(app)) == alone + 1
    other = load(cache_of_kinds, "full-s1")
    assert f"ECE {ece(other.confidence, other.correct):.3f}. Of" in shown(app)


def test_a_run_without_logits_says_what_is_missing_and_shows_the_rest(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "reliability", variant="Block-AR (b = 2)")
    assert "Not shown: this run has no logits" in shown(app)
    assert "has no predicted classes" in shown(app)
    assert any(figure["data"][0]["type"] == "heatmap" for figure in figures(app))


def test_a_run_without_profile_has_no_map_but_calibrators(cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds,
        monkeypatch,
        "reliability",
        variant="plain residual",
        methods=["Temperature scaling", "AR-CondCal"],
    )
    assert "The map cannot be drawn" in shown(app)
    assert "Temperature scaling: ECE" in shown(app)
    assert "Not shown: this run has no" in shown(app)


def test_an_imported_run_shows_its_diagram(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "reliability", backbone="unknown")
    run = load(cache_of_kinds, "imported")
    assert f"Raw ECE is {ece(run.confidence, run.correct):.3f}" in verdict(app)


def test_a_slice_by_outcome_is_not_read_as_calibration(cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds,
        monkeypatch,
        "reliability",
        variant="Full-AR",
        outcome="wrong only",
        binning="equal mass",
        bins="50",
    )
    assert "chosen by outcome" in shown(app)


def test_empty_bins_are_drawn_empty_and_sides_have_their_colours():
    table = reliability_table([0.95] * 10 + [0.15] * 10, [1] * 5 + [0] * 5 + [1] * 10, n_bins=5)
    fig = diagram(table, Theme(), title="t", height=300)
    over, under = (trace for trace in fig.data if trace.type == "scatter")
    assert (over.marker.color, under.marker.color) == (OVER_CONFIDENT, UNDER_CONFIDENT)
    assert (list(over.y), list(under.y)) == ([0.5], [1.0])
    assert list(fig.data[-1].y) == [10, 0, 0, 0, 10]
    assert diagram_title(table) == "Of 2 filled bins, 1 clearly over-confident and 1 clearly under-confident"


def test_thin_cells_of_the_map_keep_their_counts_and_lose_their_colour():
    confidence, correct = [0.9] * 6 + [0.1] * 3, [1] * 9
    fig = tertile_map(reliability_map(confidence, correct, np.zeros(9), n_bins=2), "x", Theme(dark=True))
    assert fig.data[0].text[1][0] == "+0.10<br>(6)"
    assert fig.data[0].text[0][0] == ""
    assert [note.text for note in fig.layout.annotations] == ["(3)"]


def test_many_classes_show_the_extremes_and_thin_maps_say_so():
    rng = np.random.default_rng(0)
    confidence, predicted = rng.random(5000), rng.integers(0, 100, 5000)
    table = class_table(confidence, rng.random(5000) < 0.5, predicted)
    fig = class_gaps(table, Theme(dark=True))
    assert len(fig.data[0].x) == 24
    assert "of 100 predicted classes" in fig.layout.title.text
    assert min(fig.data[0].x) == pytest.approx(table["gap"].min())
    thin = tertile_map(reliability_map([0.5, 0.6], [1, 0], [0.1, 0.2]), "x", Theme())
    assert thin.layout.annotations[0].text == "no cell holds 5 samples"


def test_a_redraw_reads_no_other_run_and_fits_nothing_again(cache_of_kinds: Path, monkeypatch):
    chosen = {"variant": "Full-AR", "with": "toy · dice · Full-AR · seed 1"}
    first = open_app(cache_of_kinds, monkeypatch, "reliability", **chosen)
    open_app(cache_of_kinds, monkeypatch, "reliability", **chosen, feature=SPREAD)
    load_run = view.load_run

    def only_the_chosen_one(cache, run_id: str, **options: bool):
        assert (run_id, options.get("with_logits", False)) == ("full-s0", False)
        return load_run(cache, run_id, **options)

    monkeypatch.setattr(view, "load_run", only_the_chosen_one)
    monkeypatch.setattr("app.compute.reliability.run_benchmark", None)  # cannot be called
    again = open_app(cache_of_kinds, monkeypatch, "reliability", **chosen)
    assert figures(again) == figures(first)
    open_app(cache_of_kinds, monkeypatch, "reliability", **chosen, feature="confidence itself")


def test_other_bins_draw_the_same_fit(cache_of_kinds: Path, monkeypatch):
    open_app(cache_of_kinds, monkeypatch, "reliability", variant="Full-AR", methods=["Temperature scaling"])
    run = load(cache_of_kinds, "full-s0")
    fitted = run_benchmark(run, ["ts"], n_bootstrap=0)
    monkeypatch.setattr("app.compute.reliability.run_benchmark", None)  # cannot be called
    app = open_app(
        cache_of_kinds, monkeypatch, "reliability", variant="Full-AR", methods=["Temperature scaling"], bins="23"
    )
    expected = ece(fitted.confidence["ts"], fitted.correct["ts"], n_bins=23)
    assert f"Temperature scaling: ECE {expected:.3f}" in shown(app)


def test_of_many_cells_some_are_drawn_and_the_others_can_be_reached(tmp_path: Path, monkeypatch, make_run):
    records = [make_run(f"r{number}", n=60, dataset=f"set {number:02}") for number in range(MOST_RUNS + 3)]
    app = open_app(published(records, tmp_path), monkeypatch, "reliability", methods=["No calibration"])
    assert f"The first {MOST_RUNS} of {MOST_RUNS + 2} runs are shown; choose any other in the sidebar." in shown(app)
    assert len(app.selectbox(key="data").options) == MOST_RUNS + 3
