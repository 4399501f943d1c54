"""Resampled metrics without resampled arrays: every metric is a function of sums over samples, weighted by counts.

A bootstrap resample of n samples is a vector of counts. What a metric needs of it (residuals by bin, losses) are
products of these counts with a per-sample table that is made once per method. Bins and the cuts of rho stay those of
the evaluated half. A resampled ECE serves paired differences only: its percentiles miss it (`engine.metrics.debiased`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.benchmark.scores import Prediction
from engine.core.binning import N_BINS, equal_width_bins, tertiles
from engine.core.types import FloatArray, IntArray
from engine.metrics import PROBABILITY_FLOOR

COUNTS_PER_BLOCK = 1 << 21
"""Resampling counts held at once (16 MB)."""
BOOTSTRAPPED = ("ece", "nll", "brier", "worst_tertile_ece", "accuracy")


def resample_counts(n: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """(n_resamples, n) how often each sample is drawn in n draws with replacement."""
    drawn = rng.integers(0, n, (n_resamples, n)) + np.arange(n_resamples)[:, np.newaxis] * n
    return np.bincount(drawn.ravel(), minlength=n_resamples * n).reshape(n_resamples, n).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Sums:
    """Per-sample tables of one method, from which any resample's metrics follow.

    table : (n, 3 + 15 g) columns NLL, Brier, correct; residual t - c in the cell of its tertile and bin (g tertiles, 1
    without rho). groups : (n, 3) tertile indicators, or None.
    """

    table: FloatArray
    groups: FloatArray | None

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
        return cls(np.hstack([losses, cells]), groups)

    def metrics(self, counts: FloatArray) -> dict[str, FloatArray]:
        """(resamples,) values of each of `BOOTSTRAPPED`; NaN where a metric is undefined."""
        n = counts.shape[1]
        sums = counts @ self.table
        losses, cells = np.split(sums, [3], axis=1)
        by_group = cells.reshape(counts.shape[0], -1, N_BINS)
        residuals = by_group.sum(axis=1)
        worst_tertile = np.full(counts.shape[0], np.nan)
        if self.groups is not None:
            group_sizes = counts @ self.groups
            group_errors = np.divide(
                np.abs(by_group).sum(axis=2), group_sizes, out=np.zeros_like(group_sizes), where=group_sizes > 0
            )
            worst_tertile = group_errors.max(axis=1)
        return {
            "ece": np.abs(residuals).sum(axis=1) / n,
            "nll": losses[:, 0] / n,
            "brier": losses[:, 1] / n,
            "worst_tertile_ece": worst_tertile,
            "accuracy": losses[:, 2] / n,
        }
