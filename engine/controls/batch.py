"""p-values of many simulated outcomes of one run: confidence and rho stay, only correctness is drawn anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core import validation
from engine.core.binning import Matching, confidence_bins, tertiles
from engine.core.types import BoolArray, FloatArray, IntArray
from engine.gaps.settings import Preset
from engine.gaps.statistics import STATISTICS, Partition


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
        validation.choice("statistic", preset.statistic, STATISTICS)
        self.preset, self.statistic = preset, STATISTICS[preset.statistic]
        self._n_bins = preset.bins_for(layout.rho.size)
        bins = layout.bins(self._n_bins, preset.matching)
        cells = layout.groups * self._n_bins + bins
        self._cell_starts = np.concatenate(([0], np.flatnonzero(np.diff(cells)) + 1))
        self._cells = cells[self._cell_starts]
        sizes = np.bincount(cells, minlength=3 * self._n_bins).reshape(3, self._n_bins)
        self.partition = Partition(bins, layout.rho, sizes, np.minimum(sizes[0], sizes[2]) >= min_support)

    @property
    def width(self) -> int:
        """Values that `summarise` holds of one outcome: its samples, or its counts where bins are more than samples."""
        return max(self.partition.bins.size, self.partition.sizes.size)

    @property
    def summary_width(self) -> int:
        """Values that `summarise` returns of one outcome."""
        return self.statistic.summary_width(self.partition)

    def summarise(self, correct: BoolArray) -> FloatArray:
        """(R, d) all that the statistic needs of (R, n) outcomes in layout order."""
        counts = np.zeros((len(correct), 3 * self._n_bins))
        counts[:, self._cells] = np.add.reduceat(correct, self._cell_starts, axis=1, dtype=np.int32)
        return self.statistic.summarise(self.partition, correct, counts.reshape(-1, 3, self._n_bins))

    def pvalues(self, summary: FloatArray) -> FloatArray:
        """(R,) p-values of summarised outcomes; missing (NaN) where an outcome cannot be tested.

        Nulls are computed once for each number of correct samples in a bin, so ask for all outcomes together.
        """
        return self.statistic.batch_pvalues(self.partition, summary)


def chunks(n_replicates: int, width: int, budget: int = 8_000_000) -> list[int]:
    """Sizes of batches of replicates, each of `width` values in memory (`BatchTest.width`), that fit a fixed budget."""
    size = max(1, min(n_replicates, budget // width))
    return [size] * (n_replicates // size) + ([n_replicates % size] if n_replicates % size else [])
