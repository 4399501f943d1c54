"""The Calibrators page: its numbers are the benchmark's, and it says what a run cannot show."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.parts.calibrators import full_name
from app.plots.calibrators import contrast_panel, metric_panel, rank_dots, short_name, size_curves
from app.plots.theme import METHOD_COLOURS, OTHER_METHOD, Theme
from engine import benchmark
from engine.benchmark import HEADLINE, METRICS, BenchmarkResult, run_benchmark, scoreboard
from engine.calibrators import CALIBRATORS
from engine.core.labels import METHODS
from engine.metrics import ece
from engine.verdict.benchmark import judge_run, judge_seeds
from tests.app.driver import figures, load, numbers, open_app, published, shown, verdict

N = 600


@pytest.fixture(scope="module")
def cache_path(tmp_path_factory, make_run) -> Path:
    """A cell of three seeds, an ensemble, a baseline, a run without logits and one too small to be halved."""
    records = [make_run(f"full-s{seed}", seed=seed, n=N) for seed in range(3)]
    records += [
        make_run("full-s0-last5", seed=0, n=N, suite="test-last5"),
        make_run("baseline-s0", seed=3, n=N, profile=False, variant="baseline"),
        make_run("bare-s0", seed=4, n=N, logits=False, variant="block_ar", block_size=2),
        make_run("small-s0", seed=5, n=30, variant="drloc"),
    ]
    return published(records, tmp_path_factory.mktemp("calibrators"))


@pytest.fixture(scope="module")
def expected(cache_path: Path) -> list[BenchmarkResult]:
    return [run_benchmark(load(cache_path, f"full-s{seed}")) for seed in range(3)]


def table(app: AppTest, column: str) -> pd.DataFrame:
    """The first table with this column, by method."""
    found = next(frame.value for frame in app.dataframe if column in frame.value and "Method" in frame.value)
    return found.set_index("Method")


def panel(app: AppTest, axis: str) -> dict[str, dict]:
    """The traces of the first figure with this horizontal axis."""
    found = next(figure for figure in figures(app) if figure["layout"]["xaxis"]["title"]["text"] == axis)
    return {trace["name"]: trace for trace in found["data"]}


def test_numbers_of_one_run_are_the_benchmarks(cache_path: Path, expected, monkeypatch):
    app = open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0")
    result = expected[0]
    assert judge_run(result).sentence in verdict(app)
    wide, scores = result.table(), table(app, "ECE")
    for metric in [*HEADLINE, "mce", "classwise_ece", "smooth_ece", "accuracy"]:
        np.testing.assert_array_equal(scores[METRICS[metric].label], wide[metric])
    changes = table(app, "Change of NLL")
    for metric in ("delta_nll", "delta_brier", "delta_accuracy"):
        np.testing.assert_array_equal(changes[METRICS[metric].label], wide[metric])
    row = result.scores[(result.scores["method"] == "ts") & (result.scores["metric"] == "ece")].iloc[0]
    interval = f"{row['debiased']:.4f} [{row['ci_low']:.4f}, {row['ci_high']:.4f}]"
    assert scores.loc["Temperature scaling (TS)", "ECE, debiased and 95 % interval"] == interval
    assert "NLL, 95 % interval" in scores
    assert not [name for name in scores if name.startswith("Worst-tertile ECE,")]


def test_panels_draw_values_and_intervals(cache_path: Path, expected, monkeypatch):
    app = open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0")
    scores = expected[0].scores
    for metric in HEADLINE:
        rows, drawn = scores[scores["metric"] == metric], panel(app, METRICS[metric].label)
        np.testing.assert_array_equal(numbers(drawn["value"]["x"]), rows["value"])
        if rows["debiased"].notna().any():
            np.testing.assert_array_equal(numbers(drawn["debiased"]["x"]), rows["debiased"])
        assert drawn["value"]["marker"]["color"][-1] == METHOD_COLOURS["nw_conf_routing"]
        assert drawn["value"]["marker"]["color"][1] == OTHER_METHOD
    contrasts = judge_run(expected[0]).contrasts
    for metric, part in contrasts.groupby("metric"):
        drawn = panel(app, f"Δ {METRICS[metric].label}")
        np.testing.assert_allclose(numbers(drawn["difference"]["x"]), part["difference"])


def test_population_and_what_is_in_force_are_printed(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0", outcome="wrong only")
    caption = app.caption[0].value
    assert "benchmark split of all 600 samples (seed 42), 300 for fitting and 300 for evaluation" in caption
    assert "this page ignores the sidebar's slice, population, feature, bins and cuts" in caption
    sliced = table(app, "ECE")["ECE"]
    whole = table(open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0"), "ECE")["ECE"]
    assert sliced.tolist() == whole.tolist()


def test_a_run_too_small_to_be_fitted_on_less_says_so(tmp_path: Path, monkeypatch, make_run):
    app = open_app(published([make_run("few", n=498)], tmp_path), monkeypatch, "calibrators")
    assert "at least 250 samples for fitting; there are 249" in shown(app)
    assert not [button for button in app.button if button.key == "start-sizes"]


def test_an_empty_slice_does_not_stop_a_page_that_ignores_it(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", band=["0.0", "0.01"])
    assert not app.info
    assert len(app.dataframe) > 2


def test_pooled_over_seeds(cache_path: Path, expected, monkeypatch):
    app = open_app(
        cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 1", over="all seeds of its cell"
    )
    stacked = pd.concat([result.scores for result in expected])
    assert judge_seeds(stacked).sentence in verdict(app)
    assert "Pooled: seed 0, seed 1, seed 2" in shown(app)  # the ensemble is another cell
    values = stacked[stacked["metric"] == "ece"].groupby("method", sort=False)["value"]
    scores = table(app, "ECE")
    np.testing.assert_allclose(scores["ECE"], values.mean())
    assert scores["ECE, ± over seeds"].tolist() == [f"± {std:.4f}" for std in values.std(ddof=0)]
    drawn = panel(app, "ECE")
    np.testing.assert_allclose(numbers(drawn["value"]["x"]), values.mean())
    assert sorted(numbers(drawn["seeds"]["x"])) == sorted(stacked[stacked["metric"] == "ece"]["value"])
    assert "Reliability before and after, on the chosen run" in shown(app)
    own = expected[1]
    assert f"ECE {ece(own.confidence['none'], own.correct['none']):.4f}" in shown(app)


def test_one_seed_says_that_there_is_no_spread(cache_path: Path, monkeypatch):
    app = open_app(
        cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0, last-5 ensemble",
        over="all seeds of its cell",
    )  # fmt: skip
    assert "cannot be compared with a spread over seeds" in verdict(app)
    assert "no interval from one run" in shown(app)


def test_best_and_second_best_are_marked(cache_path: Path, expected, monkeypatch):
    app = open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0")
    board = scoreboard(expected[:1])
    rows = board.metric("brier")
    standing = table(app, "ECE")["Best and second-best in"]
    for method, place in rows["place"].items():
        words = standing[full_name(method)]
        best, _, second = words.partition("second")
        assert ("Brier" in best) == (place == 1), words
        assert ("Brier" in second) == (place == 2), words
    assert standing["No calibration"] == ""


def test_reliability_of_the_chosen_method(cache_path: Path, expected, monkeypatch):
    app = open_app(
        cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0", calibrator="Isotonic regression"
    )
    for method in ("none", "isotonic"):
        value = ece(expected[0].confidence[method], expected[0].correct[method])
        assert f"{CALIBRATORS[method].label}: ECE {value:.4f}" in shown(app)


def test_what_was_learnt(cache_path: Path, expected, monkeypatch):
    app = open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0")
    learnt = table(app, "Fitted parameters")["Fitted parameters"]
    assert learnt["Temperature scaling (TS)"] == expected[0].fitted["ts"].summary
    assert learnt["AR-CondCal"].startswith(expected[0].fitted["nw_conf_routing"].summary)
    assert "targets clipped" in learnt["AR-CondCal"]


def test_long_parts_wait_for_their_button_and_are_the_engines(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0")
    before = len(figures(app))
    app.button(key="start-sizes").click().run()
    app.button(key="start-splits").click().run()
    assert not app.exception
    assert len(figures(app)) == before + 2
    run = load(cache_path, "full-s0")
    curves = benchmark.size_curves(benchmark.calibration_size_sensitivity(run), "ece")
    drawn = {trace["name"]: trace for trace in figures(app)[before]["data"]}
    own = curves[curves["method"] == "nw_conf_routing"]
    np.testing.assert_allclose(numbers(drawn["AR-CondCal"]["y"]), own["mean"])
    trials = benchmark.split_trials(benchmark.split_variance(run))
    counts = benchmark.rank_one_counts(trials, "trial").set_index("method")
    ranked = table(app, "Times first")
    for method, row in counts.iterrows():
        assert ranked.loc[full_name(method), "Times first"] == row["n_first"]
        assert ranked.loc[full_name(method), "Mean rank"] == pytest.approx(row["mean_rank"])
    app.selectbox(key="split-metric").set_value("nll").run()
    assert "Lowest NLL most often" in shown(app)
    again = open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0")
    assert len(figures(again)) == before + 2, "what was computed is remembered for every viewer"


def test_a_run_without_a_profile_leaves_routing_out(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "calibrators", variant="plain residual")
    assert "AR-CondCal, which needs a routing profile, was not fitted" in verdict(app)
    assert "AR-CondCal is left out: this run has no routing profile" in shown(app)
    assert "Does routing add" not in shown(app)
    scores = table(app, "ECE")
    assert "AR-CondCal" not in scores.index
    assert "Worst-tertile ECE" not in scores
    app.button(key="start-sizes").click().run()
    assert not app.exception
    assert "Worst-tertile ECE" not in app.selectbox(key="size-metric").options


@pytest.mark.parametrize(
    ("variant", "words"),
    [("Block-AR (b = 2)", "this run has no logits"), ("DrLoc control", "at least 40 samples")],
)
def test_runs_that_cannot_be_calibrated_say_why(cache_path: Path, monkeypatch, variant: str, words: str):
    app = open_app(cache_path, monkeypatch, "calibrators", variant=variant)
    assert "Calibrators cannot be fitted on this run" in verdict(app)
    assert words in verdict(app)
    assert not figures(app)


def test_a_stopped_benchmark_leaves_a_page_with_a_way_on(tmp_path: Path, monkeypatch, make_run):
    monkeypatch.setattr("app.shell.long_work.FIRST_LOOK", 0.0)
    monkeypatch.setattr("app.compute.calibrators.run_benchmark", _never_done)
    app = open_app(published([make_run("one", n=80)], tmp_path), monkeypatch, "calibrators")
    assert "not fitted yet" in verdict(app)
    app.button(key="stop-benchmark-one").click().run()
    assert not app.exception
    assert "Stopped." in shown(app)
    assert app.button(key="start-benchmark-one").label == "Fit all calibrators"


def _never_done(run, progress) -> None:
    while True:
        progress(0.5, f"at work on {run.run_id}")
        time.sleep(0.02)


def test_every_method_has_a_short_name(monkeypatch):
    assert set(METHODS) <= set(CALIBRATORS)
    monkeypatch.setitem(CALIBRATORS, "power", type("Power", (), {"label": "Confidence power"}))
    assert short_name("power") == "Confidence power"  # one that was added by somebody needs no line here
    assert len(set(METHODS.values())) == len(METHODS)
    assert full_name("ts") == "Temperature scaling (TS)"
    assert full_name("bbq") == "Bayesian binning (BBQ)"
    assert full_name("nw_conf") == "Kernel on confidence"


def test_titles_say_the_finding(expected):
    board = scoreboard(expected[:1])
    best = expected[0].table()["ece"].drop("none").min()
    assert f", {best:.4f}" in metric_panel(board, "ece", Theme()).layout.title.text
    contrasts = judge_run(expected[0]).contrasts
    nothing = contrasts.assign(clear=False)
    assert contrast_panel(nothing, "nll", Theme()).layout.title.text == "NLL: no clear difference"
    one = contrasts.assign(clear=contrasts["control"] == "nw_conf", difference=-0.1)
    assert contrast_panel(one, "nll", Theme()).layout.title.text == "NLL: lower than Conf. only"


def test_no_seed_lies_outside_its_panel(expected):
    board = scoreboard(expected)
    for metric in HEADLINE:
        low, high = metric_panel(board, metric, Theme()).layout.xaxis.range
        values = board.runs[board.runs["metric"] == metric]["value"]
        assert low < values.min()
        assert values.max() < high


def test_tied_winners_are_all_named():
    ranked = pd.DataFrame({"method": ["ts", "hb", "ts", "hb"], "rank": [1, 2, 2, 1]})
    counts = pd.DataFrame({"method": ["ts", "hb"], "n_first": [1, 1], "n_trials": [2, 2], "mean_rank": [1.5, 1.5]})
    title = rank_dots(ranked, counts, "ece", Theme()).layout.title.text
    assert title == "Lowest ECE most often: TS and HB, in 1 of 2 splits each"


def test_size_curves_draw_the_three_kernels_over_grey():
    rows = [(method, size, 0.1, 0.01, 5) for method in ("none", "ts", "nw_conf_routing") for size in (250, 500)]
    fig = size_curves(pd.DataFrame(rows, columns=["method", "size", "mean", "std", "n"]), "ece", Theme())
    names = [trace.name for trace in fig.data]
    assert names[-1] == "AR-CondCal"
    assert fig.data[-1].line.color == METHOD_COLOURS["nw_conf_routing"]
    assert fig.data[names.index("TS")].line.color == OTHER_METHOD


def test_a_run_is_fitted_once_and_read_once(tmp_path: Path, monkeypatch, make_run):
    path = published([make_run(f"s{seed}", seed=seed, n=80) for seed in range(2)], tmp_path)
    fitted = []

    def counted(run, *, progress):
        fitted.append(run.run_id)
        return run_benchmark(run, ["none", "ts", "hb"], n_bootstrap=10, progress=progress)

    monkeypatch.setattr("app.compute.calibrators.run_benchmark", counted)
    open_app(path, monkeypatch, "calibrators", run="seed 1")
    assert fitted == ["s1"]
    app = open_app(path, monkeypatch, "calibrators", run="seed 1", over="all seeds of its cell")
    assert fitted == ["s1", "s0"]
    assert "Pooled: seed 0, seed 1;" in shown(app)
    monkeypatch.setattr("app.compute.calibrators.load_run", None)  # cannot be called
    monkeypatch.setattr("engine.store.Cache.load", None)
    open_app(path, monkeypatch, "calibrators", run="seed 1", over="all seeds of its cell")


def test_only_the_table_of_scores_says_who_comes_first(cache_path: Path, monkeypatch):
    app = open_app(cache_path, monkeypatch, "calibrators", variant="Full-AR", run="seed 0")
    said = ["Best and second-best in" in frame.value for frame in app.dataframe]
    assert said == [True] + [False] * (len(said) - 1)
