"""p-values of many simulated outcomes of one run: confidence and rho stay, only correctness is drawn anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from engine.core.binning import Matching, confidence_bins, tertiles
from engine.core.types import BoolArray, FloatArray, IntArray
from engine.gaps.cmh import cmh_moments
from engine.gaps.exact import DISPLAY, BinFamily, BinNull, gap_moments
from engine.gaps.settings import Preset
from engine.gaps.stratified import SMALLEST_P, two_sided
from engine.gaps.trend import TrendDesign

# A bin whose gap would have to deviate this improbably (exp(-14) < 1e-6) adds nothing to a p-value held against alpha.
_PRUNE_EXPONENT = 14.0
_FAMILY_REACH = 8.0  # standard deviations


@dataclass(frozen=True, eq=False)
class Layout:
    """The samples sorted by tertile, then confidence, so that every cell of every matching is one contiguous run.

    `rank` is each sample's place by confidence, ties in their original order: equal-mass bins are cut by it, or ties
    would be dealt out by tertile.
    """

    confidence: FloatArray
    rank: FloatArray
    rho: FloatArray
    groups: IntArray

    @classmethod
    def of(cls, confidence: FloatArray, rho: FloatArray, quantiles: tuple[float, float]) -> tuple[Layout, IntArray]:
        """The layout and the order of the original samples in it."""
        groups = tertiles(rho, quantiles).index
        rank = np.empty(rho.size)
        rank[np.argsort(confidence, kind="stable")] = np.arange(rho.size)
        order = np.lexsort((rank, groups))
        return cls(confidence[order], rank[order], rho[order], groups[order]), order

    def bins(self, n_bins: int, matching: Matching) -> IntArray:
        """The bins that the samples have in their original order."""
        return confidence_bins(self.confidence if matching == "equal_width" else self.rank, n_bins, matching)


class BatchTest:
    """One preset on one run: fixed partition, p-values of a batch of outcomes."""

    def __init__(self, preset: Preset, layout: Layout, min_support: int) -> None:
        self.preset = preset
        n = layout.rho.size
        self.n_bins = preset.bins_for(n)
        self.bins = layout.bins(self.n_bins, preset.matching)
        cells = layout.groups * self.n_bins + self.bins
        self._cell_starts = np.concatenate(([0], np.flatnonzero(np.diff(cells)) + 1))
        self._cells = cells[self._cell_starts]
        self.sizes = np.bincount(cells, minlength=3 * self.n_bins).reshape(3, self.n_bins)
        self.shared = np.minimum(self.sizes[0], self.sizes[2]) >= min_support
        self._layout = layout

    @property
    def width(self) -> int:
        """Values that `summarise` holds of one outcome: its samples, or its counts where bins are more than samples."""
        return max(self.bins.size, self.sizes.size)

    @property
    def summary_width(self) -> int:
        """Values that `summarise` returns of one outcome."""
        return 2 if self.preset.statistic in ("trend", "cmh") else 3 * int(self.shared.sum())

    @cached_property
    def _trend(self) -> TrendDesign:
        return TrendDesign.of(self.bins, self._layout.rho, self.n_bins)

    def summarise(self, correct: BoolArray) -> FloatArray:
        """(R, d) all that the statistic needs of (R, n) outcomes in layout order.

        Statistic and variance for the trend and CMH; correct counts of the shared bins, group by group, for the gaps.
        """
        counts = np.zeros((len(correct), 3 * self.n_bins))
        counts[:, self._cells] = np.add.reduceat(correct, self._cell_starts, axis=1, dtype=np.int32)
        hits = counts.reshape(-1, 3, self.n_bins)
        if self.preset.statistic == "trend":
            statistic = correct.astype(np.float32) @ self._trend.scores.astype(np.float32)
            return np.column_stack([statistic, self._trend.variance(hits.sum(axis=1)).sum(axis=1)])
        if self.preset.statistic == "cmh":
            mean, variance = cmh_moments(self.sizes[0], self.sizes[2], hits[:, 0] + hits[:, 2])
            return np.column_stack([(hits[:, 0] - mean).sum(axis=1), variance.sum(axis=1)])
        return hits[:, :, self.shared].reshape(len(correct), -1)

    def pvalues(self, summary: FloatArray) -> FloatArray:
        """(R,) p-values of summarised outcomes; missing (NaN) where an outcome cannot be tested.

        Nulls are computed once for each number of correct samples in a bin, so ask for all outcomes together.
        """
        if self.preset.statistic in ("trend", "cmh"):
            statistic, variance = summary.T
            z = np.divide(statistic, np.sqrt(variance), out=np.full(len(summary), np.nan), where=variance > 0)
            return two_sided(z)
        if not self.shared.any():
            return np.full(len(summary), np.nan)
        hits = summary.astype(np.int64).reshape(len(summary), 3, -1)
        if self.preset.statistic == "weighted_gap":
            return self._weighted_pvalues(hits)
        return self._max_gap_pvalues(hits)

    def _nulls(self, totals: IntArray, relevant: BoolArray) -> Iterator[tuple[int, BinNull, IntArray]]:
        """(column, null, replicates) for each shared bin and each number of correct samples seen in it."""
        for column, sizes in enumerate(self.sizes[:, self.shared].T.tolist()):
            rows = np.flatnonzero(relevant[:, column])
            if rows.size == 0:
                continue
            rows = rows[np.argsort(totals[rows, column], kind="stable")]
            values, starts = np.unique(totals[rows, column], return_index=True)
            n, family, reach = sum(sizes), None, -1.0
            for k, part in zip(values.tolist(), np.split(rows, starts[1:]), strict=True):
                if family is None or k > reach:
                    # One family serves totals near its own; far away its factors would leave the range of doubles.
                    share = (k + 0.5) / (n + 1)
                    family, reach = BinFamily(sizes, share), k + _FAMILY_REACH * (n * share * (1 - share)) ** 0.5
                yield column, family.given(k, DISPLAY), part

    def _weighted_pvalues(self, hits: IntArray) -> FloatArray:
        """Normal approximation with the exact null mean and variance of each bin's absolute gap."""
        n_low, _, n_high = self.sizes[:, self.shared]
        weights = np.minimum(n_low, n_high)
        observed = np.abs(hits[:, 0] / n_low - hits[:, 2] / n_high) @ weights
        mean, variance = np.zeros(len(hits)), np.zeros(len(hits))
        totals = hits.sum(axis=1)
        for column, null, rows in self._nulls(totals, np.ones(totals.shape, dtype=bool)):
            expected, spread = gap_moments(null)
            mean[rows] += weights[column] * expected
            variance[rows] += weights[column] ** 2 * spread
        z = np.divide(observed - mean, np.sqrt(variance), out=np.full(len(hits), np.nan), where=variance > 0)
        return np.maximum(ndtr(-z), SMALLEST_P)

    def _max_gap_pvalues(self, hits: IntArray) -> FloatArray:
        """1 - prod_b P(gap_b < observed), the closed form, with one null per bin and number of correct samples."""
        n_low, _, n_high = self.sizes[:, self.shared]
        totals = hits.sum(axis=1)
        observed = np.abs(hits[:, 0] / n_low - hits[:, 2] / n_high).max(axis=1)
        log_none = np.zeros(len(hits))
        for _, null, rows in self._nulls(totals, self._may_reach(observed, totals)):
            # Rounding of the observed gap must not lose a tie: the integers compared are far further apart than 1e-6.
            thresholds = np.ceil(observed[rows] * null.scale - 1e-6).astype(np.int64)
            with np.errstate(divide="ignore"):  # log 0: the gap is certain to be reached
                log_none[rows] += np.log1p(-_tails(null, thresholds))
        return np.maximum(-np.expm1(log_none), np.exp(-_PRUNE_EXPONENT))

    def _may_reach(self, observed: FloatArray, totals: IntArray) -> BoolArray:
        """(R, n_shared) whether the bin's gap reaches the observed one with a probability worth computing.

        A gap of g needs the low or the high accuracy to deviate by g / 2 from the bin's own, and Bernstein's inequality
        bounds how likely that is: exp(-x^2 / (2 (variance + x / 3))), x = n g / 2.
        """
        sizes = self.sizes[:, self.shared]
        n = sizes.sum(axis=0)
        p = totals / n
        reach = np.zeros(totals.shape, dtype=bool)
        for group in (sizes[0], sizes[2]):
            variance = group * p * (1 - p) * (n - group) / np.maximum(n - 1, 1)
            x = group * observed[:, None] / 2
            reach |= x**2 < 2 * _PRUNE_EXPONENT * (variance + x / 3)
        return reach | (observed[:, None] == 0)


def _tails(null: BinNull, thresholds: IntArray) -> NDArray[np.float64]:
    """P(difference >= threshold) of several thresholds."""
    levels, inverse = np.unique(thresholds, return_inverse=True)
    passed = np.searchsorted(levels, null.difference.ravel(), side="right")
    mass = np.bincount(passed, weights=null.probability.ravel(), minlength=levels.size + 1)
    tails = np.cumsum(mass[::-1])[::-1][1:]
    return np.minimum(tails, 1.0)[inverse]


def chunks(n_replicates: int, width: int, budget: int = 8_000_000) -> list[int]:
    """Sizes of batches of replicates, each of `width` values in memory (`BatchTest.width`), that fit a fixed budget."""
    size = max(1, min(n_replicates, budget // width))
    return [size] * (n_replicates // size) + ([n_replicates % size] if n_replicates % size else [])
