"""The effect by decile on the Gap page: the engine's numbers, the rung in the address, a title with the finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.plots.gap import effect_by_decile as drawn
from app.plots.theme import Theme
from engine.core.labels import RUNGS, format_p, signed
from engine.features import feature
from engine.gaps import effect_by_decile
from tests.app.driver import load, numbers, open_app, shown, traces


@pytest.mark.parametrize("rung", [0, 3])
def test_the_figure_shows_the_engines_numbers(rung: int, cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "gap", variant="Full-AR", rung=f"given {RUNGS[rung]}")
    run = load(cache_of_kinds, "full-s0")
    expected = effect_by_decile(run.confidence, run.correct, feature(run, "r_agg"), outputs=run.logits, rung=rung)
    lines = traces(app, 0)
    assert numbers(lines["observed"]["y"]) == pytest.approx(expected.values)
    assert numbers(lines["fitted trend"]["y"]) == pytest.approx(expected.fitted)
    band = numbers(lines["95 % of permutations (all deciles jointly)"]["y"])
    assert band == pytest.approx([*expected.high, *expected.low[::-1]])
    assert f"Given {RUNGS[rung]}, " in shown(app)
    assert format_p(expected.test.p_value) in shown(app)


def test_without_logits_only_confidence_is_offered(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "gap", variant="Block-AR (b = 2)", rung=f"given {RUNGS[3]}")
    assert app.radio(key="rung").options == ["given confidence"]
    assert "needs logits, which this run lacks" in shown(app)


def test_titles_say_the_finding_and_nothing_more():
    rng = np.random.default_rng(0)
    confidence, rho = rng.uniform(0.3, 1, 3000), rng.normal(size=3000)
    nothing = effect_by_decile(confidence, rng.random(3000) < confidence, rho)
    planted = effect_by_decile(confidence, rng.random(3000) < confidence - 0.1 * np.sign(rho), rho)
    titles = [drawn(each, "the feature", 0.05, Theme()).layout.title.text for each in (nothing, planted)]
    assert titles[0].startswith("Given confidence, no clear trend: ")
    assert titles[0].endswith("none of 10 deciles outside the band")
    assert titles[1].startswith(f"Given confidence, accuracy falls: {signed(planted.test.effect)} ± ")
    untestable = drawn(replace(nothing, test=replace(nothing.test, effect=None)), "the feature", 0.05, Theme())
    assert "Confidence leaves nothing" in untestable.layout.annotations[0].text
