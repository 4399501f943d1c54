"""Does a test see what is there, and only that? Each test on this run's own confidence and rho, in worlds we made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from engine.controls.batch import BatchTest, Layout, chunks
from engine.controls.simulation import Fit, accuracy_given_confidence, plant_gap
from engine.core import validation
from engine.core.binning import TERTILE_QUANTILES, equal_mass_bins, tertiles
from engine.core.errors import InvalidInput
from engine.core.intervals import wilson_interval
from engine.core.types import BoolArray, FloatArray, Progress
from engine.gaps.settings import TestSettings, audited_bins
from engine.gaps.statistics import TESTS

__all__ = [
    "FalseAlarms",
    "PowerCurve",
    "accuracy_given_confidence",
    "cries_wolf",
    "false_alarm_rate",
    "plant_gap",
    "planted_outcome",
    "power_curve",
]

DELTAS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.10, 0.13, 0.16, 0.20, 0.25, 0.30)
POWER_TARGET = 0.8
_TOLERATED_INFLATION = 2.0


@dataclass(frozen=True, eq=False)
class FalseAlarms:
    """How often each test rejects when correctness depends on confidence alone.

    table : one row per test: label, rejections, n_replicates, rate, rate_low, rate_high (95 % Wilson), untestable.
    p_values : the p-values behind it; missing where a world could not be tested, which counts as no rejection.
    """

    table: pd.DataFrame
    p_values: Mapping[str, FloatArray]
    alpha: float
    n_replicates: int
    fit: Fit
    seed: int

    def rate(self, test: str) -> float:
        """Share of worlds in which the test rejects."""
        validation.choice("test", test, self.p_values)
        return float(self.table.set_index("test")["rate"][test])


@dataclass(frozen=True, eq=False)
class PowerCurve:
    """How often each test finds a planted gap.

    table : one row per test and delta: rejections, rate, rate_low, rate_high (95 % Wilson).
    detectable : smallest gap found with 80 % power, interpolated between deltas; None if no delta tried reaches it, or
        if the test also rejects where no gap is planted.
    """

    table: pd.DataFrame
    detectable: Mapping[str, float | None]
    deltas: tuple[float, ...]
    alpha: float
    n_replicates: int
    fit: Fit
    seed: int


def cries_wolf(false_alarm: float, alpha: float) -> bool:
    """Whether a test rejects more than twice as many confidence-only worlds as it should: then it is not believed."""
    return false_alarm > _TOLERATED_INFLATION * alpha


class _Bench:
    """The run laid out once, with the tests prepared on it and uniform draws turned into outcomes."""

    def __init__(
        self,
        confidence: ArrayLike,
        correct: ArrayLike,
        rho: ArrayLike,
        tests: Sequence[str],
        fit: Fit,
        settings: TestSettings,
    ) -> None:
        checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
        if isinstance(tests, str) or not isinstance(tests, Sequence) or not tests:
            raise InvalidInput("tests", f"a list of one or more of: {', '.join(TESTS)}", repr(tests))
        for test in tests:
            validation.choice("tests", test, TESTS)
        self.layout, order = Layout.of(checked_confidence, checked_rho, settings.quantiles)
        self.probability = accuracy_given_confidence(checked_confidence, checked_correct, fit)[order]
        self.tests = {
            test: BatchTest(TESTS[test].over(settings.n_bins), self.layout, settings.min_support) for test in tests
        }

    @property
    def n_samples(self) -> int:
        return self.layout.rho.size

    def batches(self, n_replicates: int, n_worlds: int) -> list[int]:
        """Sizes of batches of replicates, if the summaries of all of them in so many worlds fit in memory."""
        kept = sum(batch.summary_width for batch in self.tests.values())
        validation.draws("n_replicates", n_replicates, width=n_worlds * kept)
        return chunks(n_replicates, max(batch.width for batch in self.tests.values()))

    def planted(self, delta: float) -> FloatArray:
        """Probability of being correct with a gap of delta between the outer tertiles."""
        bins = self.layout.bins(audited_bins(self.n_samples), "equal_mass")
        return plant_gap(self.probability, bins, self.layout.groups, delta)


def planted_outcome(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    delta: float,
    *,
    seed: int = 42,
    fit: Fit = "logistic",
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
) -> BoolArray:
    """(n,) correctness in one made-up world with a gap of delta between low and high tertile at matched confidence.

    The same seed draws the same random numbers whatever the delta, so that a slider changes only what delta changes.
    """
    validation.number("delta", delta, 0, 1)
    validation.seed(seed)
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    probability = accuracy_given_confidence(checked_confidence, checked_correct, fit)
    bins = equal_mass_bins(checked_confidence, audited_bins(checked_rho.size))
    planted = plant_gap(probability, bins, tertiles(checked_rho, quantiles).index, delta)
    return np.random.default_rng(seed).random(checked_rho.size) < planted


def _row(p_values: FloatArray, alpha: float) -> dict[str, float]:
    with np.errstate(invalid="ignore"):
        rejections = int((p_values <= alpha).sum())
    low, high = wilson_interval(rejections, p_values.size)
    return {
        "rejections": rejections,
        "n_replicates": p_values.size,
        "rate": rejections / p_values.size,
        "rate_low": float(low),
        "rate_high": float(high),
        "untestable": int(np.isnan(p_values).sum()),
    }


def false_alarm_rate(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    tests: Sequence[str] = tuple(TESTS),
    n_replicates: int = 1000,
    alpha: float = 0.05,
    seed: int = 42,
    fit: Fit = "logistic",
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> FalseAlarms:
    """The confidence-only world: keep confidence and rho, draw correctness from a fit of accuracy on confidence alone.

    A sound test rejects about alpha of these worlds. One that rejects more mistakes confidence, which its bins failed
    to match, for rho.
    """
    validation.draws("n_replicates", n_replicates)
    validation.seed(seed)
    validation.fraction("alpha", alpha)
    bench = _Bench(confidence, correct, rho, tests, fit, settings)
    rng = np.random.default_rng(seed)
    threshold = bench.probability.astype(np.float32)
    collected: dict[str, list[FloatArray]] = {test: [] for test in bench.tests}
    batches = bench.batches(n_replicates, 1)
    for done, size in enumerate(batches):
        outcomes = rng.random((size, bench.n_samples), dtype=np.float32) < threshold
        for test, batch in bench.tests.items():
            collected[test].append(batch.summarise(outcomes))
        if progress is not None:
            progress((done + 1) / len(batches), "drawing confidence-only worlds")
    p_values = {test: bench.tests[test].pvalues(np.concatenate(parts)) for test, parts in collected.items()}
    rows = [
        {"test": test, "label": bench.tests[test].preset.label, **_row(values, alpha)}
        for test, values in p_values.items()
    ]
    return FalseAlarms(pd.DataFrame(rows), p_values, alpha, n_replicates, fit, seed)


def _smallest_detectable(deltas: FloatArray, rates: FloatArray, alpha: float) -> float | None:
    """First crossing of 80 % power, on the running maximum of the curve so that noise cannot undo a crossing.

    None if it is never reached, or if the test rejects too often where no gap is planted: what it finds then is not
    the gap. If the first delta tried already has the power, it is an upper bound.
    """
    if deltas[0] == 0 and cries_wolf(float(rates[0]), alpha):
        return None
    power = np.maximum.accumulate(rates)
    if power[-1] < POWER_TARGET:
        return None
    index = int(np.argmax(power >= POWER_TARGET))
    if index == 0:
        return float(deltas[0])
    share = (POWER_TARGET - power[index - 1]) / (power[index] - power[index - 1])
    return float(deltas[index - 1] + share * (deltas[index] - deltas[index - 1]))


def power_curve(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    deltas: Sequence[float] = DELTAS,
    tests: Sequence[str] = ("paper", "audited"),
    n_replicates: int = 1000,
    alpha: float = 0.05,
    seed: int = 42,
    fit: Fit = "logistic",
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> PowerCurve:
    """The planted gap: how often does each test find a gap of delta between low and high tertile at matched confidence?

    Correctness is drawn from the confidence-only fit with the gap planted in it (`worlds.plant_gap`, in equal-mass bins
    that the audited test has). All deltas share their random numbers, so the curves are smooth and comparable.
    """
    validation.draws("n_replicates", n_replicates)
    validation.seed(seed)
    validation.fraction("alpha", alpha)
    checked_deltas = np.sort(validation.vector("deltas", deltas))
    if checked_deltas[0] < 0 or checked_deltas[-1] > 1:
        raise InvalidInput("deltas", "gaps in [0, 1]", f"values from {checked_deltas[0]:g} to {checked_deltas[-1]:g}")
    bench = _Bench(confidence, correct, rho, tests, fit, settings)
    batches = bench.batches(n_replicates, checked_deltas.size)
    thresholds = [bench.planted(float(delta)).astype(np.float32) for delta in checked_deltas]
    rng = np.random.default_rng(seed)
    collected: dict[str, list[FloatArray]] = {test: [] for test in bench.tests}
    for done, size in enumerate(batches):
        uniform = rng.random((size, bench.n_samples), dtype=np.float32)
        for index, threshold in enumerate(thresholds):
            outcomes = uniform < threshold
            for test, batch in bench.tests.items():
                collected[test].append(batch.summarise(outcomes))
            if progress is not None:
                progress((done + (index + 1) / len(thresholds)) / len(batches), "planting gaps")
    planted_at = np.concatenate([np.repeat(np.arange(checked_deltas.size), size) for size in batches])
    rows = []
    for test, parts in collected.items():
        p_values = bench.tests[test].pvalues(np.concatenate(parts))
        rows += [
            {
                "test": test,
                "label": bench.tests[test].preset.label,
                "delta": float(delta),
                **_row(p_values[planted_at == index], alpha),
            }
            for index, delta in enumerate(checked_deltas)
        ]
    table = pd.DataFrame(rows)
    detectable = {
        test: _smallest_detectable(checked_deltas, table.loc[table["test"] == test, "rate"].to_numpy(), alpha)
        for test in bench.tests
    }
    return PowerCurve(table, detectable, tuple(checked_deltas.tolist()), alpha, n_replicates, fit, seed)
