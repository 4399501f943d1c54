"""The controls' table: p-value, false-alarm rate and detectable gap of each test on a run, and what they mean."""

from dataclasses import dataclass

import pandas as pd
from numpy.typing import ArrayLike

from engine.controls import SIMULATED, FalseAlarms, PowerCurve, false_alarm_rate, power_curve
from engine.controls.simulation import Scale, Shape, Simulator
from engine.core.labels import percent
from engine.core.types import Progress, part_of, silent
from engine.gaps.settings import TestSettings


def reading(p_value: float | None, false_alarm: float, broken: bool, detectable: float | None, alpha: float) -> str:
    """What the test's answer on this run is worth, in words."""
    rate = percent(false_alarm, 1)
    if p_value is None:
        return "could not be run here"
    if broken:
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
    tests = [test for test in power.detectable if test in set(alarms.table["test"])]
    bench = Simulator(confidence, correct, rho, tests, settings)
    rows = []
    for test in tests:
        p_value = bench.p_value(test)
        detectable, rate = power.detectable[test], alarms.rate(test)
        rows.append({
            "test": test,
            "label": bench.tests[test].label,
            "p": p_value,
            "false_alarm": rate,
            "detectable": detectable,
            "reading": reading(p_value, rate, alarms.broken(test), detectable, alarms.alpha),
        })  # fmt: skip
    return pd.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class Controls:
    """What the tests of a run can and cannot see.

    power : of every test against one planted shape; alarms : rejections of every test where only confidence matters;
    trust : which answers can be trusted (`controls_table`).
    """

    power: PowerCurve
    alarms: FalseAlarms
    trust: pd.DataFrame


def simulate_controls(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    shape: Shape = "monotone",
    scale: Scale = "accuracy",
    n_replicates: int = 400,
    settings: TestSettings = TestSettings(),
    progress: Progress = silent,
) -> Controls:
    """Both controls of every test, and what follows from them."""
    given = confidence, correct, rho
    power = power_curve(
        *given, tests=SIMULATED, shape=shape, scale=scale, n_replicates=n_replicates, settings=settings,
        progress=part_of(progress, 0, 0.6),
    )  # fmt: skip
    alarms = false_alarm_rate(
        *given, n_replicates=n_replicates, settings=settings,
        progress=part_of(progress, 0.6, 0.4),
    )  # fmt: skip
    return Controls(power, alarms, controls_table(*given, alarms, power, settings=settings))
