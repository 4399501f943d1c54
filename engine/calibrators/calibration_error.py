"""One number by least calibration error instead of most likelihood: a temperature (SB-ECE), a factor (LC)."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from engine import metrics
from engine.calibrators.base import Calibrator, Fitted
from engine.calibrators.samples import Samples, softmax_of_gaps, top_probability
from engine.calibrators.temperature import FittedTemperature, TemperatureScaling
from engine.core.binning import N_BINS
from engine.core.types import BoolArray, FloatArray

BIN_TEMPERATURE = 0.01
_REACH = np.log(8.0)
_GRID = 13


def soft_binned_ece_squared(
    confidence: FloatArray, correct: BoolArray, n_bins: int = N_BINS, bin_temperature: float = BIN_TEMPERATURE
) -> float:
    """sum_b (S_b / n) (A_b - C_b)^2 with soft bins (Karandikar et al. 2021, the square of SB-ECE at p = 2).

    Sample i belongs to bin b with weight u_ib = softmax_b(-(c_i - xi_b)^2 / T), xi_b the bin centres, S_b = sum_i u_ib,
    and A_b, C_b are the weighted mean correctness and confidence. T = 0.01 blurs an edge by about one bin of 15.
    """
    centres = (np.arange(n_bins) + 0.5) / n_bins
    # The squared confidence is common to all bins and cancels in the softmax; what is left is linear in c.
    exponent = (
        np.multiply.outer(2 * centres / bin_temperature, confidence) - (centres**2 / bin_temperature)[:, np.newaxis]
    )
    exponent -= exponent.max(axis=0)
    membership = np.exp(exponent, out=exponent)
    membership /= membership.sum(axis=0)
    sizes = membership.sum(axis=1)
    residuals = membership @ (correct - confidence)
    filled = sizes > 0
    return float((residuals[filled] ** 2 / sizes[filled]).sum() / confidence.size)


class SoftBinnedTemperatureScaling(Calibrator):
    """min_T of the squared soft-binned ECE of softmax(z / T), 15 bins.

    Searched in log T within a factor of 8 of the `ts` solution: a coarse grid, because the error may have more than
    one dip, then a bounded Brent search around the best grid point.
    """

    name = "sbece"
    label = "Soft-binned ECE temperature"
    reference = "Karandikar et al. 2021"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedTemperature:
        start = TemperatureScaling().fit_samples(samples)

        def error(log_ratio: float) -> float:
            confidence = top_probability(samples.gaps, np.exp(-log_ratio) / start.temperature)
            return soft_binned_ece_squared(confidence, samples.correct)

        grid = np.linspace(-_REACH, _REACH, _GRID)
        best = int(np.argmin([error(value) for value in grid]))
        spacing = grid[1] - grid[0]
        fit = minimize_scalar(
            error, bounds=(grid[best] - spacing, grid[best] + spacing), method="bounded", options={"xatol": 1e-5}
        )
        at_end = best in (0, _GRID - 1)
        note = "the error falls up to the end of the range searched, a factor of 8 from ts" if at_end else start.note
        return FittedTemperature(
            **self.about(samples),
            converged=bool(fit.success) and not at_end,
            note=note if fit.success else str(fit.message),
            temperature=float(start.temperature * np.exp(fit.x)),
            n_iterations=_GRID + int(fit.nfev),
        )


_DECADES = (-1.0, 3.0)
_COARSE, _FINE, _ROUNDS = 33, 9, 3


def _unit_gaps(samples: Samples) -> FloatArray:
    """(n, K) gaps of z / ||z||; a sample whose logits are all 0 has gaps 0 whatever the length."""
    length = np.sqrt(np.einsum("ij,ij->i", samples.logits, samples.logits))
    return samples.gaps / np.where(length > 0, length, 1.0)[:, np.newaxis]


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedLogitNorm(Fitted):
    """softmax(factor * z / ||z||_2)."""

    factor: float
    calibration_ece: float

    def transform(self, samples: Samples) -> FloatArray:
        return softmax_of_gaps(_unit_gaps(samples), self.factor)

    @property
    def summary(self) -> str:
        return (
            f"factor {self.factor:.3g} on logits of unit length; ECE {self.calibration_ece:.4f} on the calibration half"
        )


class LogitNormalisation(Calibrator):
    """min over the factor of the 15-bin ECE of softmax(factor * z / ||z||) on the calibration half.

    The ECE jumps as samples change bins, so the factor is found on a grid of log10 values (from a tenth to a thousand
    times the inverse mean gap) that is refined three times around its best point.
    """

    name = "lc"
    label = "Logit normalisation (LC)"
    reference = "the paper's internal baseline, after Wei et al. 2022"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedLogitNorm:
        gaps = _unit_gaps(samples)
        scale = float(gaps.mean())
        unit = 1 / scale if scale > 0 else 1.0

        def error(log_factor: float) -> float:
            return metrics.ece(top_probability(gaps, unit * 10**log_factor), samples.correct)

        low, high = _DECADES
        grid = np.linspace(low, high, _COARSE)
        errors = [error(value) for value in grid]
        best, best_error = float(grid[np.argmin(errors)]), min(errors)
        at_end = best in (low, high)
        spacing = grid[1] - grid[0]
        for _ in range(_ROUNDS):
            grid = best + np.linspace(-spacing, spacing, _FINE)
            errors = [error(value) for value in grid]
            if min(errors) < best_error:
                best, best_error = float(grid[np.argmin(errors)]), min(errors)
            spacing = grid[1] - grid[0]
        return FittedLogitNorm(
            **self.about(samples),
            converged=not at_end,
            note="the best factor lies at the end of the range searched" if at_end else "",
            factor=unit * 10**best,
            calibration_ece=best_error,
        )
