"""The controls of a selection, computed once for all viewers."""

from __future__ import annotations

import pandas as pd

from app.loaders.memo import remember
from app.loaders.results import samples
from app.view import View
from engine.controls import FalseAlarms, PowerCurve, false_alarm_rate, planted_outcome, power_curve
from engine.gaps import TESTS, PermutationResult, StratifiedResult, permutation_test, trend_test
from engine.trust import trust_table
from engine.types import Progress

SUPPORTS = (1, 5, 20)


def alarms(view: View, n_replicates: int, progress: Progress) -> FalseAlarms:
    """False-alarm rate of every test in the confidence-only world of this run."""
    settings = view.selection.protocol.test_settings
    return remember(
        ("alarms", view.selection.alone, n_replicates),
        lambda: false_alarm_rate(*samples(view), n_replicates=n_replicates, progress=progress, **settings),
    )


def _power(view: View, n_replicates: int, tests: tuple[str, ...], min_support: int, progress: Progress) -> PowerCurve:
    settings = view.selection.protocol.test_settings | {"min_support": min_support}
    return remember(
        ("power", view.selection.alone, n_replicates, tests, min_support),
        lambda: power_curve(*samples(view), tests=tests, n_replicates=n_replicates, progress=progress, **settings),
    )


def power(view: View, n_replicates: int, progress: Progress) -> PowerCurve:
    """Power of every test on this run."""
    return _power(view, n_replicates, tuple(TESTS), view.selection.protocol.min_support, progress)


def power_by_support(view: View, n_replicates: int, progress: Progress) -> dict[int, PowerCurve]:
    """Power of the paper's test under several minimum supports."""
    return {support: _power(view, n_replicates, ("paper",), support, progress) for support in SUPPORTS}


def planted(view: View, delta: float, seed: int) -> tuple[PermutationResult, StratifiedResult]:
    """Both tests in one world with a gap of this size; quick enough to sit behind a slider."""
    confidence, correct, rho = samples(view)
    protocol = view.selection.protocol
    drawn = planted_outcome(confidence, correct, rho, delta, seed=seed, quantiles=protocol.quantiles)
    paper = permutation_test(confidence, drawn, rho, **protocol.test_settings)
    return paper, trend_test(confidence, drawn, rho)


def trust(view: View, false_alarms: FalseAlarms, curve: PowerCurve) -> pd.DataFrame:
    """Which verdicts on this run can be trusted."""
    return trust_table(*samples(view), false_alarms, curve, **view.selection.protocol.test_settings)
