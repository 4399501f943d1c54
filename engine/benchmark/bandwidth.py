"""AR-CondCal under other bandwidths: one evaluation quick enough for a slider, and the paper's five modes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.benchmark.halves import TERTILE_FEATURE, Halves, halve
from engine.benchmark.methods import make_kernel
from engine.benchmark.scores import HEADLINE, all_scores, headline_scores, predict_kernel
from engine.calibrators import CV_NLL, FittedKernel, Samples
from engine.core.errors import InvalidInput, MissingData
from engine.core.splitting import SPLIT_SEED
from engine.core.types import BoolArray, FloatArray, Progress, RunData, silent
from engine.features import CustomFeature
from engine.kernel import (
    Surface,
    TemperatureSolution,
    cv_nll_bandwidth,
    nw_surface,
    shrinkage,
    tertile_distance,
)
from engine.kernel.selection import MULTIPLIERS

FIXED_MODES = (0.5, 1.0, 2.0)
ORACLE = "oracle_ece"
SURFACE_POINTS = 128


@dataclass(frozen=True, eq=False)
class BandwidthPoint:
    """AR-CondCal at one bandwidth.

    Attributes
    ----------
    multiplier, bandwidth : (m,) multiples of Scott's rule and the bandwidths they make.
    scores : metrics on the evaluated half.
    confidence, correct : (n_eval,) for a reliability diagram.
    solution : temperatures, clip and tie counts.
    shrinkage : tanh(d^2 / 4 h^2) on the feature's axis (Prop. 4), or None without one.
    """

    multiplier: FloatArray
    bandwidth: FloatArray
    scores: dict[str, float]
    confidence: FloatArray
    correct: BoolArray
    solution: TemperatureSolution
    shrinkage: float | None


@dataclass(frozen=True, eq=False)
class BandwidthLab:
    """A run prepared for many bandwidths: halves, softmax, features and Scott's rule are computed once."""

    run_id: str
    halves: Halves
    fitted: FittedKernel
    distance: float
    """Between the outer tertile means of the feature on the calibration half."""

    @classmethod
    def prepare(
        cls, run: RunData, feature: str | CustomFeature = TERTILE_FEATURE, seed: int = SPLIT_SEED
    ) -> BandwidthLab:
        """Raises `MissingData` for a run without logits or without the feature."""
        halves = halve(run, feature, seed)
        if halves.calibration.feature is None:
            raise MissingData(
                f"feature {halves.feature_name!r}", "the bandwidth lab", "choose a feature that the run has"
            )
        fitted = make_kernel(halves.feature_name).fit_samples(halves.calibration)
        return cls(run.run_id, halves, fitted, tertile_distance(halves.calibration.feature))

    def evaluate(self, multiplier: float | tuple[float, ...] = 1.0) -> BandwidthPoint:
        """Refit, predict, solve the temperatures and score at a multiple of Scott's bandwidth, or one per axis."""
        fitted = self.fitted.at(multiplier)
        prediction, solution = predict_kernel(fitted, self.halves.evaluation)
        return BandwidthPoint(
            fitted.multiplier,
            fitted.bandwidth,
            all_scores(prediction, self.halves.evaluation, self.halves.tertile_rho),
            prediction.confidence,
            prediction.correct,
            solution,
            shrinkage(self.distance, float(fitted.bandwidth[1])) if len(fitted.axes) > 1 else None,
        )

    def surface(
        self, multiplier: float | tuple[float, ...] = 1.0, *, n_points: int = SURFACE_POINTS, exact: bool = False
    ) -> Surface:
        """g(c, rho) on a grid over the range of the calibration half."""
        fitted = self.fitted.at(multiplier)
        if len(fitted.axes) < 2:
            raise InvalidInput("feature", "a second axis for a surface", "confidence itself")
        low, high = fitted.regressors.min(axis=0), fitted.regressors.max(axis=0)
        grid = (np.linspace(low[0], high[0], n_points), np.linspace(low[1], high[1], n_points))
        return nw_surface(fitted.regressors, fitted.correct, fitted.bandwidth, grid, exact=exact)

    def headline(self, multiplier: float | tuple[float, ...]) -> dict[str, float]:
        """Only the metrics that the sensitivity tables show."""
        prediction, _ = predict_kernel(self.fitted.at(multiplier), self.halves.evaluation)
        return headline_scores(prediction, self.halves.evaluation, self.halves.tertile_rho)

    def cross_validated(self, seed: int = SPLIT_SEED) -> float:
        """The multiple chosen by 5-fold NLL on the calibration half."""
        return cross_validated(self.fitted, self.halves.calibration, seed)


def cross_validated(fitted: FittedKernel, calibration: Samples, seed: int) -> float:
    """The multiple of Scott's bandwidth that a fitted kernel takes by 5-fold NLL on its calibration half."""
    choice = cv_nll_bandwidth(fitted.regressors, calibration.logits, calibration.known_labels, seed=seed)
    return choice.multiplier


def bandwidth_sensitivity(
    run: RunData,
    *,
    feature: str | CustomFeature = TERTILE_FEATURE,
    seed: int = SPLIT_SEED,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The paper's five modes: 0.5x, 1x and 2x Scott, the multiple of least cross-validated NLL, and the oracle.

    The oracle takes the multiple of {0.25, 0.5, 1, 2, 4} with the least ECE on the evaluated half: a ceiling, not a
    method. Tidy frame: run_id, mode, multiplier, metric, value.
    """
    report = progress or silent
    lab = BandwidthLab.prepare(run, feature, seed)
    by_multiplier = {}
    for position, multiplier in enumerate(MULTIPLIERS):
        report(0.5 * position / len(MULTIPLIERS), f"bandwidth {multiplier:g}x Scott")
        by_multiplier[multiplier] = lab.headline(multiplier)
    report(0.5, "cross-validation")
    chosen = {f"{multiplier:g}x": multiplier for multiplier in FIXED_MODES}
    chosen[CV_NLL] = lab.cross_validated(seed)
    chosen[ORACLE] = min(by_multiplier, key=lambda multiplier: by_multiplier[multiplier]["ece"])
    report(1.0, "done")
    rows = [
        (run.run_id, mode, multiplier, metric, by_multiplier[multiplier][metric])
        for mode, multiplier in chosen.items()
        for metric in HEADLINE
    ]
    return pd.DataFrame(rows, columns=["run_id", "mode", "multiplier", "metric", "value"])
