"""Resampled metrics without resampled arrays: every metric is a function of sums over samples, weighted by counts.

A bootstrap resample of n samples is a vector of counts. What a metric needs of it (hits and residuals by bin, losses,
class residuals, smoothed residuals) are products of these counts with per-sample tables that are made once per method.
Bins and the cuts of rho stay those of the evaluated half; equal-mass bins are formed anew in each resample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import dct, idct
from scipy.sparse import csr_array

from engine.benchmark.scores import MIN_BIN_COUNT, Prediction
from engine.core.binning import N_BINS, equal_mass_sizes, equal_width_bins, tertiles
from engine.core.types import FloatArray, IntArray
from engine.metrics import PROBABILITY_FLOOR

COUNTS_PER_BLOCK = 1 << 21
"""Resampling counts held at once (16 MB)."""
SMOOTH_GRID = 512
SMALLEST_SMOOTHING = 1e-3
_SMOOTH_STEPS = 7
BOOTSTRAPPED = (
    "ece", "adaptive_ece", "nll", "brier", "worst_tertile_ece", "mce", "classwise_ece", "smooth_ece", "accuracy",
)  # fmt: skip


def resample_counts(n: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """(n_resamples, n) how often each sample is drawn in n draws with replacement."""
    drawn = rng.integers(0, n, (n_resamples, n)) + np.arange(n_resamples)[:, np.newaxis] * n
    return np.bincount(drawn.ravel(), minlength=n_resamples * n).reshape(n_resamples, n).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Sums:
    """Per-sample tables of one method, from which any resample's metrics follow.

    Attributes
    ----------
    table : (n, 3 + 15 + 15 g) columns NLL, Brier, correct; indicator of the confidence bin; residual t - c in the cell
        of its tertile and bin (g tertiles, 1 without rho).
    groups : (n, 3) tertile indicators, or None.
    order, ordered_residual : samples by confidence and their residuals, for equal-mass bins.
    class_residual, class_cells : p - 1[y = k], and the part of it outside the lowest bin as a sparse (n, 15 K) table.
    smooth_cells : sparse (n, grid) residuals shared between neighbouring cells of the confidence axis.
    """

    table: FloatArray
    groups: FloatArray | None
    order: IntArray
    ordered_residual: FloatArray
    class_residual: FloatArray
    class_cells: csr_array
    smooth_cells: csr_array

    @classmethod
    def of(cls, prediction: Prediction, labels: IntArray, rho: FloatArray | None) -> Sums:
        confidence, n = prediction.confidence, labels.size
        rows = np.arange(n)
        own = prediction.probabilities[rows, labels]
        squares = np.einsum("nk,nk->n", prediction.probabilities, prediction.probabilities)
        losses = np.column_stack(
            [-np.log(np.maximum(own, PROBABILITY_FLOOR)), squares - 2 * own + 1, prediction.correct]
        )
        bins = equal_width_bins(confidence, N_BINS)
        residual = prediction.correct - confidence
        groups = None if rho is None else np.eye(3)[tertiles(rho).index]
        n_groups = 1 if groups is None else 3
        cells = np.zeros((n, n_groups * N_BINS))
        cells[rows, (0 if groups is None else groups.argmax(axis=1)) * N_BINS + bins] = residual
        order = np.argsort(confidence, kind="stable")
        class_residual = prediction.probabilities.copy()
        class_residual[rows, labels] -= 1
        return cls(
            np.hstack([losses, np.eye(N_BINS)[bins], cells]),
            groups,
            order,
            residual[order],
            class_residual,
            _class_cells(prediction.probabilities, class_residual),
            _smooth_cells(confidence, residual),
        )

    def metrics(self, counts: FloatArray) -> dict[str, FloatArray]:
        """(resamples,) values of each of `BOOTSTRAPPED`; NaN where a metric is undefined."""
        n = counts.shape[1]
        sums = counts @ self.table
        losses, sizes, cells = np.split(sums, [3, 3 + N_BINS], axis=1)
        by_group = cells.reshape(counts.shape[0], -1, N_BINS)
        residuals = by_group.sum(axis=1)
        supported = sizes >= MIN_BIN_COUNT
        gaps = np.divide(np.abs(residuals), sizes, out=np.full_like(sizes, -np.inf), where=supported)
        worst_bin = gaps.max(axis=1)
        worst_tertile = np.full(counts.shape[0], np.nan)
        if self.groups is not None:
            group_sizes = counts @ self.groups
            group_errors = np.divide(
                np.abs(by_group).sum(axis=2), group_sizes, out=np.zeros_like(group_sizes), where=group_sizes > 0
            )
            worst_tertile = group_errors.max(axis=1)
        return {
            "ece": np.abs(residuals).sum(axis=1) / n,
            "adaptive_ece": self._adaptive(counts),
            "nll": losses[:, 0] / n,
            "brier": losses[:, 1] / n,
            "worst_tertile_ece": worst_tertile,
            "mce": np.where(np.isfinite(worst_bin), worst_bin, np.nan),
            "classwise_ece": self._classwise(counts),
            "smooth_ece": self._smooth(counts),
            "accuracy": losses[:, 2] / n,
        }

    def _adaptive(self, counts: FloatArray) -> FloatArray:
        """Equal-mass ECE: residuals summed up to each boundary, which may fall among the copies of one sample."""
        n = counts.shape[1]
        n_bins = min(N_BINS, n)
        ends = np.cumsum(equal_mass_sizes(n, n_bins))
        drawn = counts[:, self.order]
        running = np.cumsum(drawn * self.ordered_residual, axis=1)
        reached = np.cumsum(drawn, axis=1, out=drawn)
        at = np.stack([np.searchsorted(row, ends, side="left") for row in reached])
        resamples = np.arange(counts.shape[0])[:, np.newaxis]
        surplus = reached[resamples, at] - ends
        upto = running[resamples, at] - surplus * self.ordered_residual[at]
        errors: FloatArray = np.abs(np.diff(upto, axis=1, prepend=0.0)).sum(axis=1) / n
        return errors

    def _classwise(self, counts: FloatArray) -> FloatArray:
        """Classwise ECE; the lowest bin, which holds most probabilities, is the total minus the other bins."""
        n, n_classes = self.class_residual.shape
        others = (self.class_cells.T @ counts.T).T.reshape(counts.shape[0], n_classes, N_BINS)
        lowest = counts @ self.class_residual - others.sum(axis=2)
        errors: FloatArray = (np.abs(others).sum(axis=(1, 2)) + np.abs(lowest).sum(axis=1)) / n / n_classes
        return errors

    def _smooth(self, counts: FloatArray) -> FloatArray:
        """SmoothECE as in `engine.metrics.smooth_ece`, on a coarser grid and for all resamples at once."""
        spectrum = dct((self.smooth_cells.T @ counts.T).T / counts.shape[1], axis=1)
        decay = (np.pi * np.arange(SMOOTH_GRID)) ** 2 / 2

        def error_at(sigma: FloatArray) -> FloatArray:
            damped = spectrum * np.exp(-np.multiply.outer(sigma**2, decay))
            total: FloatArray = np.abs(idct(damped, axis=1)).sum(axis=1)
            return total

        # error(sigma) - sigma falls with sigma. The error at a sigma below the root lies above it, and the other way
        # round, so each look narrows the bracket from both sides.
        low = np.full(counts.shape[0], SMALLEST_SMOOTHING)
        at_floor = error_at(low)
        done = at_floor <= low
        high = np.minimum(np.maximum(at_floor, low), 1.0)
        for _ in range(_SMOOTH_STEPS):
            middle = np.sqrt(low * high)
            error = error_at(middle)
            above = error > middle
            low = np.where(above, middle, np.maximum(low, error))
            high = np.where(above, np.minimum(high, error), middle)
        # The error varies less than sigma does: its value inside the bracket is closer to the root than the bracket is.
        result: FloatArray = np.where(done, at_floor, np.clip(error_at(np.sqrt(low * high)), low, high))
        return result


def _class_cells(probabilities: FloatArray, residual: FloatArray) -> csr_array:
    """Sparse (n, 15 K) class residuals by bin of p_k, without the lowest bin."""
    n, n_classes = probabilities.shape
    row, column = np.nonzero(probabilities >= 1 / N_BINS)
    bins = equal_width_bins(probabilities[row, column], N_BINS)
    return csr_array((residual[row, column], (row, column * N_BINS + bins)), shape=(n, N_BINS * n_classes))


def _smooth_cells(confidence: FloatArray, residual: FloatArray) -> csr_array:
    """Sparse (n, grid) residuals, shared linearly between the two nearest cell centres, reflected at 0 and 1."""
    n = confidence.size
    position = confidence * SMOOTH_GRID - 0.5
    lower = np.floor(position).astype(np.int64)
    share = position - lower
    rows = np.arange(n)
    columns = np.concatenate([np.maximum(lower, 0), np.minimum(lower + 1, SMOOTH_GRID - 1)])
    values = np.concatenate([residual * (1 - share), residual * share])
    return csr_array((values, (np.concatenate([rows, rows]), columns)), shape=(n, SMOOTH_GRID))
