"""Quantile groups of a value, and the mean of another quantity in each with its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from engine.core.types import FloatArray, IntArray

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class QuantileGroups:
    """Groups of n samples in ascending order of a value: `index` (n,) names each sample's, `counts` (g,) their size."""

    index: IntArray
    counts: IntArray

    def mean(self, column: FloatArray) -> FloatArray:
        """(g,) mean of an (n,) column in each group."""
        result: FloatArray = np.bincount(self.index, weights=column) / self.counts
        return result

    def interval(self, column: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(g,) ends of the 95 % t interval of each mean; missing in a group of one."""
        centre = self.mean(column)
        squares = np.bincount(self.index, weights=(column - centre[self.index]) ** 2)
        freedom = np.maximum(self.counts - 1, 1)
        half = t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(squares / freedom / self.counts)
        half[self.counts < 2] = np.nan
        return centre - half, centre + half


def quantile_groups(values: FloatArray, n_groups: int) -> QuantileGroups:
    """Groups cut at the k / n_groups quantiles; tied values stay together, so there may be fewer than asked for."""
    cuts = np.unique(np.quantile(values, np.arange(1, n_groups) / n_groups))
    _, index = np.unique(np.searchsorted(cuts, values, side="left"), return_inverse=True)
    return QuantileGroups(index, np.bincount(index))
