"""The positive controls: how large an effect would each test have found on this run, planted or real?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from engine.controls.negative import raises_false_alarms
from engine.controls.simulation import (
    SCALES,
    SHAPES,
    VERDICT,
    Scale,
    Shape,
    Simulator,
    accuracy_given_confidence,
    plant_gap,
    rejection_rate,
    sides,
)  # fmt: skip
from engine.core import validation
from engine.core.binning import TERTILE_QUANTILES, equal_mass_bins, tertiles
from engine.core.errors import InvalidInput
from engine.core.threads import side_by_side
from engine.core.types import BoolArray, FloatArray, Progress
from engine.gaps.combined import combined_test
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
    shape: Shape
    scale: Scale
    alpha: float
    n_replicates: int
    seed: int


def planted_outcome(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    delta: float,
    *,
    shape: Shape = "monotone",
    scale: Scale = "accuracy",
    seed: int = 42,
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
) -> BoolArray:
    """(n,) simulated correctness with a gap of delta at matched confidence, of this shape (`sides`).

    The same seed draws the same random numbers whatever the delta, so that a slider changes only what delta changes.
    """
    validation.number("delta", delta, 0, 1)
    validation.seed(seed)
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    probability = accuracy_given_confidence(checked_confidence, checked_correct)
    bins = equal_mass_bins(checked_confidence, primary_bins(checked_rho.size))
    side = sides(shape, tertiles(checked_rho, quantiles).index, bins)
    return np.random.default_rng(seed).random(checked_rho.size) < plant_gap(probability, bins, side, delta, scale)


def _crossing(deltas: Sequence[float], rates: Sequence[float]) -> float | None:
    """First crossing of 80 % power, on the running maximum of the curve so that noise cannot undo a crossing.

    If the first delta tried already has the power, it is an upper bound.
    """
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
    tests: Sequence[str] = (VERDICT, "primary", "paper"),
    shape: Shape = "monotone",
    scale: Scale = "accuracy",
    n_replicates: int = 400,
    alpha: float = 0.05,
    seed: int = 42,
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> PowerCurve:
    """The planted gap: how often does each test find a gap of delta between two sides of rho at matched confidence?

    Correctness is drawn from the logistic fit of accuracy on confidence with the gap planted in it (`plant_gap`, in the
    primary test's bins; `sides` has the shapes). All deltas share their random numbers, so the curves are smooth.
    """
    validation.draws("n_replicates", n_replicates)
    validation.seed(seed)
    validation.fraction("alpha", alpha)
    checked = np.sort(validation.vector("deltas", deltas))
    if checked[0] < 0 or checked[-1] > 1:
        raise InvalidInput("deltas", "gaps in [0, 1]", f"values from {checked[0]:g} to {checked[-1]:g}")
    bench = Simulator(confidence, correct, rho, tests, settings)
    bench.check(n_replicates, checked.size)
    base = bench.world("logistic")
    planted = [bench.planted(base, float(delta), shape, scale) for delta in checked]
    summaries: dict[str, list[FloatArray]] = {test: [] for test in bench.tests}
    for done, one in enumerate(side_by_side(lambda each: bench.summarise([each], n_replicates, (seed,)), planted)):
        for test, (summary,) in one.items():
            summaries[test].append(summary)
        if progress is not None:
            progress((done + 1) / checked.size, "planting gaps")
    rows, detectable = [], {}
    for test, parts in summaries.items():
        p_values = bench.tests[test].pvalues(np.concatenate(parts)).reshape(checked.size, n_replicates)
        rates = [rejection_rate(values, alpha) for values in p_values]
        named = {"test": test, "label": bench.tests[test].label}
        rows += [{**named, "delta": float(delta), **rate} for delta, rate in zip(checked, rates, strict=True)]
        # What a test finds that also rejects where nothing is planted is not the gap.
        loud = checked[0] == 0 and raises_false_alarms(int(rates[0]["rejections"]), n_replicates, alpha)
        detectable[test] = None if loud else _crossing(checked.tolist(), [rate["rate"] for rate in rates])
    kept = tuple(checked.tolist())
    return PowerCurve(pd.DataFrame(rows), detectable, kept, shape, scale, alpha, n_replicates, seed)


@dataclass(frozen=True, eq=False)
class RealControl:
    """What the verdict's test finds with features that are known to matter: other runs' outputs on these samples.

    table : one row per feature: name, p_value, z of the primary test. n_found : how many reject.
    """

    table: pd.DataFrame
    n_found: int
    alpha: float


@dataclass(frozen=True, eq=False)
class PositiveControl:
    """detectable : by shape and scale the smallest planted gap that the verdict's test finds with 80 % power; None if
    not even the largest tried. real : the same question with real features, None without other runs.
    """

    detectable: Mapping[tuple[Shape, Scale], float | None]
    largest: float
    real: RealControl | None
    n_replicates: int
    seed: int


def real_control(
    confidence: ArrayLike,
    correct: ArrayLike,
    others: Mapping[str, ArrayLike],
    *,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
) -> RealControl:
    """The verdict's test on each of these features, by name: predictive entropies of other runs on the same samples."""
    validation.fraction("alpha", alpha)
    if not isinstance(others, Mapping) or not others:
        raise InvalidInput("others", "one or more features by name", validation.shown(others))
    rows = []
    for name, values in others.items():
        found = combined_test(confidence, correct, values, clusters=clusters)
        rows.append({"name": name, "p_value": found.p_value, "z": found.primary.z})
    table = pd.DataFrame(rows)
    return RealControl(table, int((table["p_value"].astype(float) <= alpha).sum()), alpha)


def positive_control(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    others: Mapping[str, ArrayLike] | None = None,
    n_replicates: int = 100,
    alpha: float = 0.05,
    seed: int = 42,
) -> PositiveControl:
    """Smallest planted gap of each shape, on the scales of accuracy and of odds, and the real features, if any.

    The crossing of 80 % power is bracketed by bisection over the gaps that `power_curve` tries by default.
    """
    validation.draws("n_replicates", n_replicates)
    validation.seed(seed)
    validation.fraction("alpha", alpha)
    bench = Simulator(confidence, correct, rho, (VERDICT,), TestSettings())
    base = bench.world("logistic")

    def bracket(kind: tuple[Shape, Scale]) -> float | None:
        tried: dict[int, float] = {}

        def power(place: int) -> float:
            if place not in tried:
                planted = bench.planted(base, DELTAS[place], *kind)
                (summary,) = bench.summarise([planted], n_replicates, (seed,))[VERDICT]
                tried[place] = float((bench.tests[VERDICT].pvalues(summary) <= alpha).mean())
            return tried[place]

        low, high = 0, len(DELTAS) - 1
        if power(high) < POWER_TARGET:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if power(middle) >= POWER_TARGET else (middle, high)
        return _crossing(DELTAS[low : high + 1], [power(low), power(high)])

    kinds = [(shape, scale) for shape in SHAPES for scale in SCALES]
    detectable = dict(zip(kinds, side_by_side(bracket, kinds), strict=True))
    real = real_control(confidence, correct, others, alpha=alpha) if others else None
    return PositiveControl(detectable, DELTAS[-1], real, n_replicates, seed)
