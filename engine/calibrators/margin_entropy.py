"""RCMMC: a temperature per cell of (margin, entropy), monotone along the margin."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from engine.calibrators.base import Calibrator, Fitted, span
from engine.calibrators.likelihood import nll_and_slopes
from engine.calibrators.samples import Samples, softmax_of_gaps
from engine.calibrators.temperature import TemperatureScaling
from engine.core.types import FloatArray, IntArray

N_MARGIN, N_ENTROPY = 8, 4
MAX_ITERATIONS = 200
_REACH = 2.0
"""log T of a cell stays within this of the `ts` solution."""
_SMOOTHNESS = 5.0
"""Precision of the Gaussian prior on differences between neighbouring cells (its share of the loss is 1 / n)."""


def margin(samples: Samples) -> FloatArray:
    """(n,) top-1 minus top-2 logit."""
    second: FloatArray = np.partition(samples.gaps, 1, axis=1)[:, 1]
    return second


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedMarginEntropy(Fitted):
    """softmax(z / T_cell).

    Attributes
    ----------
    margin_cuts, entropy_cuts : (7,) and (3,) quantiles on the calibration half; a value on a cut goes to the right.
    temperature : (8, 4), not increasing along the margin.
    count : (8, 4) calibration samples.
    """

    margin_cuts: FloatArray
    entropy_cuts: FloatArray
    temperature: FloatArray
    count: IntArray
    n_iterations: int

    def transform(self, samples: Samples) -> FloatArray:
        row = np.searchsorted(self.margin_cuts, margin(samples), side="right")
        column = np.searchsorted(self.entropy_cuts, samples.entropy, side="right")
        return softmax_of_gaps(samples.gaps, 1 / self.temperature[row, column])

    @property
    def summary(self) -> str:
        cells = f"{int((self.count > 0).sum())} of {self.count.size} cells hold samples"
        return f"temperatures {span(self.temperature)} by margin and entropy; {cells}"


class MarginEntropyCalibration(Calibrator):
    """min over log T of the NLL plus a penalty on differences between neighbouring cells, 8 x 4 quantile cells.

    log T may not increase with the margin, so that a clearer decision is never made softer. With log T of the first
    margin row and its decrements d >= 0 as variables the constraint is a set of bounds, which L-BFGS-B takes. The
    penalty is (5 / n) / 2 times the sum of squared differences of log T, including cells without samples, which so
    take their neighbours' value.
    """

    name = "rcmmc"
    label = "Margin-entropy cells (RCMMC)"
    reference = "the paper's internal baseline"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedMarginEntropy:
        scaling = TemperatureScaling().fit_samples(samples)
        margins = margin(samples)
        margin_cuts = np.quantile(margins, np.arange(1, N_MARGIN) / N_MARGIN)
        entropy_cuts = np.quantile(samples.entropy, np.arange(1, N_ENTROPY) / N_ENTROPY)
        row = np.searchsorted(margin_cuts, margins, side="right")
        column = np.searchsorted(entropy_cuts, samples.entropy, side="right")
        cell = row * N_ENTROPY + column
        change: FloatArray = np.zeros((N_MARGIN, N_ENTROPY))
        n_iterations, success, message = 0, scaling.converged, scaling.note
        if scaling.converged:
            change, n_iterations, success, message = _minimise(samples, cell, scaling.temperature)
        return FittedMarginEntropy(
            **self.about(samples),
            converged=success,
            note="" if success else message,
            margin_cuts=margin_cuts,
            entropy_cuts=entropy_cuts,
            temperature=scaling.temperature * np.exp(change),
            count=np.bincount(cell, minlength=N_MARGIN * N_ENTROPY).reshape(N_MARGIN, N_ENTROPY),
            n_iterations=n_iterations,
        )


def _minimise(samples: Samples, cell: IntArray, base_temperature: float) -> tuple[FloatArray, int, bool, str]:
    """(8, 4) change of log T from `ts`, iterations, convergence and the solver's message."""
    n, n_cells = samples.n_samples, N_MARGIN * N_ENTROPY
    gaps, label_gap = samples.gaps / base_temperature, samples.label_gap / base_temperature
    scores = np.empty_like(gaps)

    def changes(free: FloatArray) -> FloatArray:
        table = free.reshape(N_MARGIN, N_ENTROPY)
        decrements: FloatArray = np.vstack([table[:1], -table[1:]])
        return decrements.cumsum(axis=0)

    def loss(free: FloatArray) -> tuple[float, FloatArray]:
        change = changes(free)
        beta = np.exp(-change.ravel())[cell]
        nll, slopes = nll_and_slopes(gaps, label_gap, beta, scores)
        by_cell = np.bincount(cell, slopes, n_cells).reshape(change.shape) / n
        along, across = np.diff(change, axis=0), np.diff(change, axis=1)
        penalty = 0.5 * _SMOOTHNESS / n * float((along**2).sum() + (across**2).sum())
        slope = np.zeros_like(change)
        slope[1:] += along
        slope[:-1] -= along
        slope[:, 1:] += across
        slope[:, :-1] -= across
        by_cell += _SMOOTHNESS / n * slope
        # A decrement lowers its own row and all below it.
        tail = by_cell[::-1].cumsum(axis=0)[::-1]
        return nll + penalty, np.vstack([tail[:1], -tail[1:]]).ravel()

    bounds = [(-_REACH, _REACH)] * N_ENTROPY + [(0.0, _REACH)] * (n_cells - N_ENTROPY)
    fit = minimize(
        loss,
        np.zeros(n_cells),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": MAX_ITERATIONS, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-6},
    )
    return changes(fit.x), int(fit.nit), bool(fit.success), str(fit.message)
