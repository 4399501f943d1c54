"""The controls' table: p-value, false-alarm rate and detectable gap of each test on a run, and what they mean."""

from __future__ import annotations

import pandas as pd
from numpy.typing import ArrayLike

from engine.controls import FalseAlarms, PowerCurve, raises_false_alarms
from engine.core import validation
from engine.gaps.settings import TestSettings
from engine.gaps.statistics import STATISTICS, TESTS


def reading(p_value: float | None, false_alarm: float, detectable: float | None, alpha: float) -> str:
    """What the test's answer on this run is worth, in words."""
    rate = f"{100 * false_alarm:.1f} %"
    if p_value is None:
        return "could not be run here"
    if raises_false_alarms(false_alarm, alpha):
        if p_value <= alpha:
            return f"no evidence: false-alarm rate {rate}"
        return f"does not reject; false-alarm rate high ({rate})"
    if p_value <= alpha:
        return f"rejects; false-alarm rate acceptable ({rate})"
    if detectable is None:
        return "does not reject; no gap tried has 80 % power"
    return f"does not reject; detects {detectable:.2f}"


def controls_table(
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
