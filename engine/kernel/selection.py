"""A bandwidth multiplier chosen on the calibration half by cross-validated likelihood."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.types import FloatArray, IntArray
from engine.kernel.bandwidth import design, scott_bandwidth
from engine.kernel.regression import nw_regress
from engine.kernel.temperature import solve_gaps

MULTIPLIERS = (0.25, 0.5, 1.0, 2.0, 4.0)
N_FOLDS = 5
KERNEL_DIMENSION = 2
"""The m of Scott's exponent for every member of the kernel family (the paper holds the bandwidth fixed)."""


@dataclass(frozen=True, eq=False)
class BandwidthChoice:
    """The multiplier with the least cross-validated NLL, and the NLL of the others.

    Attributes
    ----------
    multiplier : the chosen multiple of Scott's bandwidth, the smaller one in a tie.
    bandwidth : (m,) that multiple of Scott's bandwidth on all calibration samples.
    multipliers : (g,) the candidates.
    fold_nll : (g, folds) mean NLL of each left-out fold.
    """

    multiplier: float
    bandwidth: FloatArray
    multipliers: FloatArray
    fold_nll: FloatArray
    seed: int

    @property
    def nll(self) -> FloatArray:
        """(g,) mean over folds."""
        mean: FloatArray = self.fold_nll.mean(axis=1)
        return mean


def temperature_nll(gaps: FloatArray, labels: IntArray, temperature: FloatArray) -> FloatArray:
    """(n,) -log softmax(z / tau)_y = log sum_k exp(-d_k / tau) + d_y / tau from gaps d_k = z_top - z_k."""
    scaled = gaps / -temperature[:, np.newaxis]
    own = scaled[np.arange(labels.size), labels]
    loss: FloatArray = np.log(np.exp(scaled, out=scaled).sum(axis=1)) - own
    return loss


def cv_nll_bandwidth(
    x_cal: ArrayLike,
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    multipliers: tuple[float, ...] = MULTIPLIERS,
    n_folds: int = N_FOLDS,
    seed: int = 42,
) -> BandwidthChoice:
    """Choose a multiple of Scott's bandwidth by the mean NLL over left-out folds of the calibration samples.

    Each fold's regressors are smoothed with the multiple of Scott's rule on the other folds, carried to its logits
    by `solve_temperature` and scored. Folds are consecutive fifths of `default_rng(seed).permutation(n)`.
    """
    cal = design("x_cal", x_cal)
    checked = validation.matrix("logits", logits, cal.shape[0])
    classes = validation.labels(labels, checked.shape[1], cal.shape[0])
    candidates = validation.vector("multipliers", multipliers).astype(np.float64)
    if (candidates <= 0).any():
        raise InvalidInput("multipliers", "positive numbers", repr(multipliers))
    validation.seed(seed)
    if checked.shape[1] < 2:
        raise InvalidInput("logits", "at least two classes (columns)", f"shape {checked.shape}")
    if cal.shape[0] < 2 * validation.whole("n_folds", n_folds, 2):
        raise InvalidInput("logits", f"at least {2 * n_folds} samples for {n_folds} folds", f"{cal.shape[0]}")
    top = checked.argmax(axis=1)
    gaps = checked[np.arange(top.size), top][:, np.newaxis] - checked
    correct = (top == classes).astype(np.float64)
    folds = np.array_split(np.random.default_rng(seed).permutation(cal.shape[0]), n_folds)
    fold_nll = np.empty((candidates.size, n_folds))
    for column, fold in enumerate(folds):
        rest = np.concatenate([other for other in folds if other is not fold])
        scott = scott_bandwidth(cal[rest], dimension=KERNEL_DIMENSION)
        for row, multiplier in enumerate(candidates):
            target = nw_regress(cal[rest], correct[rest], cal[fold], multiplier * scott)
            solution = solve_gaps(gaps[fold], target)
            fold_nll[row, column] = temperature_nll(gaps[fold], classes[fold], solution.temperature).mean()
    best = float(candidates[int(np.argmin(fold_nll.mean(axis=1)))])
    bandwidth = best * scott_bandwidth(cal, dimension=KERNEL_DIMENSION)
    return BandwidthChoice(best, bandwidth, candidates, fold_nll, seed)
