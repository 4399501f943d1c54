"""Gap, Null and Controls: sentence and figures agree, nothing is computed twice, nothing long holds a page up."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from app.compute import controls as results_controls
from app.compute.controls import controls
from app.state.selection import N_SIMULATIONS, Protocol, Selection, Slice
from app.state.view import View
from engine.controls import false_alarm_rate, power_curve
from engine.core.types import RunData
from engine.features import feature
from engine.gaps import STATISTICS, TESTS, TestSettings, permutation_test
from engine.store import open_cache
from engine.verdict import judge
from engine.verdict.wording import controls_sentence
from tests.app.driver import figures, headline, load, numbers, open_app, shown, verdict

FULL = {"backbone": "toy", "variant": "Full-AR"}


def arrays(run: RunData) -> tuple[np.ndarray, ...]:
    return run.confidence, run.correct, feature(run, "r_agg")


def compute(cache_path: Path, protocol: Protocol, n_simulations: int) -> tuple[results_controls.Controls, list[float]]:
    """The controls of a run, and how the bar moved."""
    shares: list[float] = []
    with open_cache(cache_path) as cache:
        chosen = Selection(cache.fingerprint, "full-s0", None, "r_agg", Slice(), protocol)
        view = View(cache, cache.runs().set_index("run_id", drop=False), chosen)
        work = controls(view, n_simulations, "monotone", "accuracy")
        return work.compute(lambda share, _text: shares.append(share)), shares


def test_the_sentence_and_the_figures_of_controls_are_of_the_same_worlds(cache_of_kinds: Path):
    found, _ = compute(cache_of_kinds, Protocol(), N_SIMULATIONS)
    judged = judge(*arrays(load(cache_of_kinds, "full-s0")))
    for test in ("paper", "verdict"):
        assert found.alarms.rate(test) == judged.negative.rate(test)
    assert found.power.detectable["verdict"] == pytest.approx(
        judged.positive.detectable["monotone", "accuracy"], rel=0.3
    )


@pytest.mark.parametrize("worlds", [None, "100"])
def test_the_verdict_of_controls_counts_in_the_worlds_chosen(worlds: str | None, cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds, monkeypatch, "controls", **FULL, **({} if worlds is None else {"simulations": worlds})
    )
    given, n_simulations = arrays(load(cache_of_kinds, "full-s0")), int(worlds or N_SIMULATIONS)
    judged = judge(*given, n_replicates=n_simulations)
    answer, detail = controls_sentence(judged)
    assert answer in verdict(app)
    assert detail.split(". ")[0] in verdict(app)
    drawn = {trace.get("name"): trace for trace in figures(app)[0]["data"]}
    power = power_curve(*given, n_replicates=n_simulations)
    for test in ("paper", "primary"):
        rates = power.table.loc[power.table["test"] == test, "rate"].to_numpy()
        assert np.array_equal(numbers(drawn[TESTS[test].label]["y"]), rates)
    trust = next(table.value for table in app.dataframe if "False alarms" in table.value)
    alarms = false_alarm_rate(*given, n_replicates=n_simulations)
    assert trust["False alarms"].tolist() == alarms.table["rate"].tolist()


def test_one_bar_never_runs_backwards(cache_of_kinds: Path):
    _, shares = compute(cache_of_kinds, Protocol(), 40)
    assert all(before <= after for before, after in pairwise(shares))
    assert shares[-1] <= 1


@pytest.mark.parametrize(
    ("page", "query", "blocked", "stop", "n_figures"),
    [
        ("controls", {"simulations": "200", "bins": "11"},
         "app.compute.controls.simulate_controls", "stop-controls", 1),
        ("null", {"method": "shuffled samples (the paper's way)", "bins": "11"},
         "app.compute.null.permutation_test", "stop-permutation", 1),
        ("null", {"bins": "12"}, "app.compute.null.trend_test", "stop-p-bins", 1),
    ],
)  # fmt: skip
def test_long_work_leaves_the_rest_of_the_page_alone(
    page, query, blocked, stop, n_figures, cache_of_kinds: Path, monkeypatch
):
    gate = threading.Event()
    monkeypatch.setattr(blocked, lambda *_, **__: gate.wait(20))
    monkeypatch.setattr("app.shell.long_work.FIRST_LOOK", 0.5)
    try:
        app = open_app(cache_of_kinds, monkeypatch, page, **FULL, **query)
        assert app.button(key=stop).label == "Stop"
        assert len(figures(app)) >= n_figures
        assert verdict(app)
        app.button(key=stop).click().run()
        assert "Stopped." in shown(app)
    finally:
        gate.set()


def test_gap_and_null_show_what_the_verdict_holds(cache_of_kinds: Path, monkeypatch):
    """Neither computes the paper's test or the bootstrap a second time."""
    run = load(cache_of_kinds, "full-s0")
    judged = judge(*arrays(run), settings=TestSettings(13), feature="mean routing entropy")
    monkeypatch.setattr("app.compute.null.permutation_test", None)  # cannot be called
    app = open_app(cache_of_kinds, monkeypatch, "gap", **FULL, bins="13")
    table = app.dataframe[-1].value.iloc[0]
    assert table["Exact p"] == judged.paper.p_value
    assert table["Largest gap"] == judged.paper.observed
    assert table["Weighted, 95 %"] == "[{:.3f}, {:.3f}]".format(*judged.gap.weighted_gap_ci)
    assert table["Largest, 95 %"] == "[{:.3f}, {:.3f}]".format(*judged.gap.max_gap_ci)


def test_gap_null_and_controls_each_answer_their_own_question(cache_of_kinds: Path, monkeypatch):
    answers = {
        page: headline(open_app(cache_of_kinds, monkeypatch, page, **FULL)) for page in ("gap", "null", "controls")
    }
    judged = judge(*arrays(load(cache_of_kinds, "full-s0")))
    assert answers["gap"][1] == judged.answer
    assert f"(p = {judged.paper.p_value:.2f})" in answers["null"][1]
    assert len({text for _, text in answers.values()}) == 3


def test_the_null_follows_its_choices(cache_of_kinds: Path, monkeypatch):
    app = open_app(
        cache_of_kinds, monkeypatch, "null", **FULL, statistic="weighted gap", method="simulated counts",
        permutations="500",
    )  # fmt: skip
    given = arrays(load(cache_of_kinds, "full-s0"))
    test = permutation_test(*given, statistic="weighted_gap", method="hypergeometric", n_permutations=500)
    assert f"{test.p_value:.3f}"[:4] in shown(app)


@pytest.mark.parametrize("asked", [{}, {"method": "exact"}], ids=["by itself", "with a null that it lacks"])
def test_a_statistic_without_an_exact_null_is_shuffled(asked: dict, cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "null", **FULL, statistic="trend", permutations="100", **asked)
    assert [radio.options for radio in app.radio if radio.label == "Null"] == [["shuffled samples (the paper's way)"]]
    given = arrays(load(cache_of_kinds, "full-s0"))
    test = permutation_test(*given, statistic="trend", method="shuffle", n_permutations=100)
    assert f"{test.p_value:.3f}"[:4] in shown(app)


def test_every_registered_statistic_stands_on_the_page(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "null", **FULL)
    assert next(radio.options for radio in app.radio if radio.label == "Statistic") == [
        statistic.label for statistic in STATISTICS.values()
    ]


def test_the_match_is_measured_once(cache_of_kinds: Path, monkeypatch):
    before = shown(open_app(cache_of_kinds, monkeypatch, "null", **FULL, bins="14"))
    monkeypatch.setattr("app.compute.null.match_diagnostic", None)  # cannot be called
    assert shown(open_app(cache_of_kinds, monkeypatch, "null", **FULL, bins="14")) == before
