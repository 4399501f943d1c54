"""Which of the tests can be believed on this run: p-value, false alarms and power of each, with a reading in words."""

from __future__ import annotations

from typing import Any

import pandas as pd
from numpy.typing import ArrayLike

from engine.controls import FalseAlarms, PowerCurve, cries_wolf
from engine.core import validation
from engine.core.types import BoolArray, FloatArray
from engine.gaps.cmh import cmh_test
from engine.gaps.permutation import permutation_test
from engine.gaps.settings import TESTS, Preset, TestSettings
from engine.gaps.trend import trend_test
from engine.gaps.weighted import weighted_gap_test

_SINGLE: dict[str, Any] = {
    "max_gap": permutation_test,
    "weighted_gap": weighted_gap_test,
    "cmh": cmh_test,
    "trend": trend_test,
}


def _pvalue(
    preset: Preset,
    confidence: FloatArray,
    correct: BoolArray,
    rho: FloatArray,
    *,
    settings: TestSettings,
) -> float | None:
    """The p-value of one preset on this run; None if it cannot be tested."""
    chosen: dict[str, Any] = {"n_bins": preset.bins_for(rho.size), "matching": preset.matching}
    if preset.statistic != "trend":  # which knows no groups, only ranks
        chosen["quantiles"] = settings.quantiles
    if preset.statistic in ("max_gap", "weighted_gap"):
        chosen["min_support"] = settings.min_support
    p_value: float | None = _SINGLE[preset.statistic](confidence, correct, rho, **chosen).p_value
    return p_value


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
        p_value = _pvalue(preset, *samples, settings=settings)
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
