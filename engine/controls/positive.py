"""The positive control: how large a planted gap would each test have found on this run?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from engine.controls.negative import raises_false_alarms
from engine.controls.simulation import Fit, Simulator, accuracy_given_confidence, plant_gap, rejection_rate
from engine.core import validation
from engine.core.binning import TERTILE_QUANTILES, equal_mass_bins, tertiles
from engine.core.errors import InvalidInput
from engine.core.types import BoolArray, FloatArray, Progress
from engine.gaps.settings import TestSettings, primary_bins

DELTAS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.10, 0.13, 0.16, 0.20, 0.25, 0.30)
POWER_TARGET = 0.8


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
    """(n,) simulated correctness with a gap of delta between low and high tertile at matched confidence.

    The same seed draws the same random numbers whatever the delta, so that a slider changes only what delta changes.
    """
    validation.number("delta", delta, 0, 1)
    validation.seed(seed)
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    probability = accuracy_given_confidence(checked_confidence, checked_correct, fit)
    bins = equal_mass_bins(checked_confidence, primary_bins(checked_rho.size))
    planted = plant_gap(probability, bins, tertiles(checked_rho, quantiles).index, delta)
    return np.random.default_rng(seed).random(checked_rho.size) < planted


def _smallest_detectable(deltas: FloatArray, rates: FloatArray, alpha: float) -> float | None:
    """First crossing of 80 % power, on the running maximum of the curve so that noise cannot undo a crossing.

    None if it is never reached, or if the test rejects too often where no gap is planted: what it finds then is not
    the gap. If the first delta tried already has the power, it is an upper bound.
    """
    if deltas[0] == 0 and raises_false_alarms(float(rates[0]), alpha):
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
    tests: Sequence[str] = ("paper", "primary"),
    n_replicates: int = 1000,
    alpha: float = 0.05,
    seed: int = 42,
    fit: Fit = "logistic",
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> PowerCurve:
    """The planted gap: how often does each test find a gap of delta between low and high tertile at matched confidence?

    Correctness is drawn from the confidence-only fit with the gap planted in it (`plant_gap`, in equal-mass bins
    that the primary test has). All deltas share their random numbers, so the curves are smooth and comparable.
    """
    validation.draws("n_replicates", n_replicates)
    validation.seed(seed)
    validation.fraction("alpha", alpha)
    checked_deltas = np.sort(validation.vector("deltas", deltas))
    if checked_deltas[0] < 0 or checked_deltas[-1] > 1:
        raise InvalidInput("deltas", "gaps in [0, 1]", f"values from {checked_deltas[0]:g} to {checked_deltas[-1]:g}")
    bench = Simulator(confidence, correct, rho, tests, fit, settings)
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
                **rejection_rate(p_values[planted_at == index], alpha),
            }
            for index, delta in enumerate(checked_deltas)
        ]
    table = pd.DataFrame(rows)
    detectable = {
        test: _smallest_detectable(checked_deltas, table.loc[table["test"] == test, "rate"].to_numpy(), alpha)
        for test in bench.tests
    }
    return PowerCurve(table, detectable, tuple(checked_deltas.tolist()), alpha, n_replicates, fit, seed)
