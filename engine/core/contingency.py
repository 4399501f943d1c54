"""Counts by confidence bin, tertile and correctness: all that the matched-confidence gap depends on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.binning import N_BINS, TERTILE_QUANTILES, TERTILES, Matching, confidence_bins, tertiles
from engine.core.types import IntArray


@dataclass(frozen=True, eq=False)
class Contingency:
    """Counts of samples by (bin, tertile, wrong/correct) and how the partition was made.

    Attributes
    ----------
    counts : (n_bins, 3, 2) int64; last axis 0 = wrong, 1 = correct.
    cuts : the two cut points of rho.
    """

    counts: IntArray
    cuts: tuple[float, float]
    matching: Matching
    quantiles: tuple[float, float]

    @property
    def n_bins(self) -> int:
        return int(self.counts.shape[0])

    @property
    def n_samples(self) -> int:
        return int(self.counts.sum())

    @property
    def sizes(self) -> IntArray:
        """(n_bins, 3) samples by bin and tertile."""
        sizes: IntArray = self.counts.sum(axis=2)
        return sizes

    @property
    def n_correct(self) -> IntArray:
        """(n_bins, 3) correct samples by bin and tertile."""
        return self.counts[:, :, 1]

    @property
    def empty_tertiles(self) -> tuple[str, ...]:
        """Names of tertiles without a sample (rho too tied to be cut in three)."""
        return tuple(name for name, size in zip(TERTILES, self.sizes.sum(axis=0), strict=True) if size == 0)


def tabulate(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    n_bins: int = N_BINS,
    matching: Matching = "equal_width",
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
) -> Contingency:
    """Count samples by confidence bin, tertile of rho and correctness."""
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    bins = confidence_bins(checked_confidence, n_bins, matching)
    n_bins = int(n_bins)
    groups = tertiles(checked_rho, quantiles)
    cells = (bins * 3 + groups.index) * 2 + checked_correct
    counts = np.bincount(cells, minlength=n_bins * 6).reshape(n_bins, 3, 2).astype(np.int64, copy=False)
    return Contingency(counts, groups.cuts, matching, quantiles)
