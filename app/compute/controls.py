"""The controls of a selection, computed once for all viewers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from app.compute.jobs import Work
from app.state.view import View
from engine.controls import FalseAlarms, PowerCurve, false_alarm_rate, planted_outcome, power_curve
from engine.controls.table import controls_table
from engine.core.types import Progress
from engine.gaps import TESTS, PermutationResult, StratifiedResult, permutation_test, trend_test

SUPPORTS = (1, 5, 20)
_SHARES = {"power": 0.55, "alarms": 0.2, "supports": 0.25}
"""Of the time that everything takes; only the bar depends on them."""


@dataclass(frozen=True, eq=False)
class Controls:
    """What the tests of a run can and cannot see.

    power : of every test; by_support : of the paper's test under several minimum supports.
    alarms : rejections of every test where only confidence matters; trust : which verdicts can be trusted.
    """

    power: PowerCurve
    by_support: Mapping[int, PowerCurve]
    alarms: FalseAlarms
    trust: pd.DataFrame


def controls(view: View, n_simulations: int) -> Work[Controls]:
    """All controls of this run, in as many simulations as the verdict has: the two then agree exactly."""
    given, settings = view.samples, view.selection.protocol.test_settings
    in_force = view.selection.protocol.min_support

    def compute(progress: Progress) -> Controls:
        def part(name: str, done: float = 0.0, of: int = 1) -> Progress:
            start = sum(list(_SHARES.values())[: list(_SHARES).index(name)])
            return lambda share, text: progress(start + _SHARES[name] * (done + share) / of, text)

        power = power_curve(
            *given, tests=tuple(TESTS), n_replicates=n_simulations, progress=part("power"), settings=settings
        )
        alarms = false_alarm_rate(*given, n_replicates=n_simulations, progress=part("alarms"), settings=settings)
        by_support = {}
        for position, support in enumerate(SUPPORTS):
            by_support[support] = _only(power, "paper") if support == in_force else power_curve(
                *given, tests=("paper",), n_replicates=n_simulations, settings=replace(settings, min_support=support),
                progress=part("supports", position, len(SUPPORTS)),
            )  # fmt: skip
        return Controls(power, by_support, alarms, controls_table(*given, alarms, power, settings=settings))

    return Work(("controls", view.selection.alone, n_simulations), view.fingerprint, compute)


def _only(power: PowerCurve, test: str) -> PowerCurve:
    """The curve of one test, as if it had been tried alone: all tests see the same simulations."""
    table = power.table[power.table["test"] == test].reset_index(drop=True)
    return replace(power, table=table, detectable={test: power.detectable[test]})


def planted(view: View, delta: float, seed: int) -> tuple[PermutationResult, StratifiedResult]:
    """Both tests on one simulated data set with a gap of this size; quick enough to sit behind a slider."""
    confidence, correct, rho = view.samples
    protocol = view.selection.protocol
    drawn = planted_outcome(confidence, correct, rho, delta, seed=seed, quantiles=protocol.quantiles)
    paper = permutation_test(confidence, drawn, rho, **protocol.test_settings.keywords)
    return paper, trend_test(confidence, drawn, rho)
