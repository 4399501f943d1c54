"""Which of the tests can be believed on this run: p-value, false alarms and power of each, with a reading in words."""

from __future__ import annotations

import pandas as pd
from numpy.typing import ArrayLike

from engine.controls import FalseAlarms, PowerCurve, cries_wolf
from engine.core import validation
from engine.gaps.settings import TestSettings
from engine.gaps.statistics import STATISTICS, TESTS


def reading(p_value: float | None, false_alarm: float, detectable: float | None, alpha: float) -> str:
    """What the test's answer on this run is worth, in words."""
    if p_value is None:
        return "could not be run here"
    if cries_wolf(false_alarm, alpha):
        if p_value <= alpha:
            return "its rejection is no evidence: it also rejects where only confidence matters"
        return "finds nothing, though it cries wolf easily"
    if p_value <= alpha:
        return "rejects, and seldom does so where only confidence matters"
    if detectable is None:
        return "finds nothing, but would not have noticed even the largest gap tried in 80 % of such runs"
    return f"finds nothing; would have noticed a gap of {detectable:.2f}"


def trust_table(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    alarms: FalseAlarms,
    power: PowerCurve,
    *,
    settings: TestSettings = TestSettings(),
) -> pd.DataFrame:
    """One row per test that both controls cover: p on this run, false-alarm rate, smallest detectable gap, reading.

    settings : those that the controls were simulated with.
    """
    samples = validation.samples(confidence, correct, rho)
    rows = []
    for test in (test for test in power.detectable if test in alarms.p_values):
        preset = TESTS[test].over(settings.n_bins)
        statistic = STATISTICS[preset.statistic]
        p_value = statistic.p_value(samples, preset.bins_for(samples[2].size), preset.matching, settings)
        detectable, rate = power.detectable[test], alarms.rate(test)
        rows.append({
            "test": test,
            "label": preset.label,
            "p": p_value,
            "false_alarm": rate,
            "detectable": detectable,
            "reading": reading(p_value, rate, detectable, alarms.alpha),
        })  # fmt: skip
    return pd.DataFrame(rows)
