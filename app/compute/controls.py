"""The controls of a selection, computed once for all viewers."""

from dataclasses import dataclass

import pandas as pd

from app.compute.jobs import Work
from app.state.view import View
from engine.controls import SIMULATED, FalseAlarms, PowerCurve, false_alarm_rate, planted_outcome, power_curve
from engine.controls.simulation import Scale, Shape
from engine.controls.table import controls_table
from engine.core.types import Progress
from engine.gaps import CombinedResult, PermutationResult, combined_test, permutation_test


@dataclass(frozen=True, eq=False)
class Controls:
    """What the tests of a run can and cannot see.

    power : of every test against one planted shape; alarms : rejections of every test where only confidence matters;
    trust : which answers can be trusted.
    """

    power: PowerCurve
    alarms: FalseAlarms
    trust: pd.DataFrame


def controls(view: View, n_simulations: int, shape: Shape, scale: Scale) -> Work[Controls]:
    """All controls of this run, in as many simulations as the verdict has: the two then agree exactly."""
    given, settings = view.samples, view.selection.protocol.test_settings

    def compute(progress: Progress) -> Controls:
        power = power_curve(
            *given, tests=SIMULATED, shape=shape, scale=scale, n_replicates=n_simulations, settings=settings,
            progress=lambda share, text: progress(0.6 * share, text),
        )  # fmt: skip
        alarms = false_alarm_rate(
            *given, n_replicates=n_simulations, settings=settings,
            progress=lambda share, text: progress(0.6 + 0.4 * share, text),
        )  # fmt: skip
        return Controls(power, alarms, controls_table(*given, alarms, power, settings=settings))

    return Work(("controls", view.selection.alone, n_simulations, shape, scale), view.fingerprint, compute)


def planted(
    view: View, delta: float, seed: int, shape: Shape, scale: Scale
) -> tuple[PermutationResult, CombinedResult]:
    """The paper's test and the verdict's on one simulated data set with such a gap; quick enough for a slider."""
    confidence, correct, rho = view.samples
    protocol = view.selection.protocol
    drawn = planted_outcome(
        confidence, correct, rho, delta, shape=shape, scale=scale, seed=seed, quantiles=protocol.quantiles
    )
    paper = permutation_test(confidence, drawn, rho, **protocol.test_settings.keywords)
    return paper, combined_test(confidence, drawn, rho)
