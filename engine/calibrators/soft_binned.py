"""One temperature by soft-binned calibration error."""

import numpy as np
from scipy.optimize import minimize_scalar

from engine.calibrators.base import Calibrator
from engine.calibrators.samples import Samples, top_probability
from engine.calibrators.temperature import FittedTemperature, TemperatureScaling
from engine.core.binning import N_BINS
from engine.core.types import BoolArray, FloatArray

BIN_TEMPERATURE = 0.01
_REACH = np.log(8.0)
_COARSE = 13


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

        grid = np.linspace(-_REACH, _REACH, _COARSE)
        best = int(np.argmin([error(value) for value in grid]))
        spacing = grid[1] - grid[0]
        fit = minimize_scalar(
            error, bounds=(grid[best] - spacing, grid[best] + spacing), method="bounded", options={"xatol": 1e-5}
        )
        at_end = best in (0, _COARSE - 1)
        note = "the error falls up to the end of the range searched, a factor of 8 from ts" if at_end else start.note
        return FittedTemperature(
            name=self.name,
            n_samples=samples.n_samples,
            n_classes=samples.n_classes,
            converged=bool(fit.success) and not at_end,
            note=note if fit.success else str(fit.message),
            temperature=float(start.temperature * np.exp(fit.x)),
            n_iterations=_COARSE + int(fit.nfev),
        )
