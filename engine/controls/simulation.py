"""Simulated data sets with a known answer, on the confidence and rho of a run.

Correctness is drawn from accuracy that depends on confidence alone, or that has a gap planted in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from engine.core import validation
from engine.core.binning import Matching, confidence_bins, tertiles
from engine.core.errors import InvalidInput
from engine.core.intervals import wilson_interval
from engine.core.types import BoolArray, FloatArray, IntArray
from engine.gaps.settings import Preset, TestSettings, primary_bins
from engine.gaps.statistics import STATISTICS, TESTS, Partition


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


Fit = Literal["logistic", "isotonic"]
_CLIP = 1e-6
_RIDGE = 1e-3
_NEWTON_STEPS = 50


def accuracy_given_confidence(confidence: FloatArray, correct: BoolArray, fit: Fit = "logistic") -> FloatArray:
    """(n,) probability of being correct as a function of confidence alone, fitted to this run.

    logistic : expit(a + b logit(c)), maximum likelihood with a faint ridge that keeps separable data finite.
    isotonic : the non-decreasing least-squares fit.
    """
    validation.choice("fit", fit, get_args(Fit))
    if fit == "isotonic":
        # Equal confidence must have equal probability, so the fit is over distinct values, weighted by their counts.
        _, group = np.unique(confidence, return_inverse=True)
        counts = np.bincount(group)
        fitted = isotonic_regression(np.bincount(group, weights=correct) / counts, weights=counts).x
        return fitted[group].clip(0, 1)
    design = np.column_stack([np.ones(confidence.size), logit(confidence.astype(np.float64).clip(_CLIP, 1 - _CLIP))])
    weights = np.array([0.0, 1.0])
    for _ in range(_NEWTON_STEPS):
        p = expit(design @ weights)
        gradient = design.T @ (correct - p) - _RIDGE * weights
        hessian = (design * (p * (1 - p))[:, None]).T @ design + _RIDGE * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        step /= max(1.0, float(np.abs(step).max()))  # a step longer than one may overshoot into saturation
        weights = weights + step
        if np.abs(step).max() < 1e-10:
            break
    return expit(design @ weights)


def plant_gap(probability: FloatArray, bins: IntArray, groups: IntArray, delta: float) -> FloatArray:
    """(n,) probabilities in which the low tertile is right more often than the high one by delta at matched confidence.

    Within each bin the low tertile gains delta n_high / (n_low + n_high) and the high one loses
    delta n_low / (n_low + n_high), which keeps the bin's accuracy. Where that would leave [0, 1] both are moved
    together: the gap stays delta and the bin's accuracy gives way. The mid tertile stays as it was.
    """
    n_bins = int(bins.max()) + 1
    n_low = np.bincount(bins[groups == 0], minlength=n_bins)
    n_high = np.bincount(bins[groups == 2], minlength=n_bins)
    share_high = n_high / np.maximum(n_low + n_high, 1)
    gain = delta * share_high[bins]
    low, high = probability + gain, probability + gain - delta
    back = np.maximum(low - 1, 0) - np.maximum(-high, 0)
    planted = np.select([groups == 0, groups == 2], [low - back, high - back], probability)
    return planted.clip(0, 1)


class Simulator:
    """A run laid out once, with the tests prepared on it: what is simulated is correctness alone."""

    def __init__(
        self,
        confidence: ArrayLike,
        correct: ArrayLike,
        rho: ArrayLike,
        tests: Sequence[str],
        fit: Fit,
        settings: TestSettings,
    ) -> None:
        checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
        if isinstance(tests, str) or not isinstance(tests, Sequence) or not tests:
            raise InvalidInput("tests", f"a list of one or more of: {', '.join(TESTS)}", repr(tests))
        for test in tests:
            validation.choice("tests", test, TESTS)
        self.layout, order = Layout.of(checked_confidence, checked_rho, settings.quantiles)
        self.probability = accuracy_given_confidence(checked_confidence, checked_correct, fit)[order]
        self.tests = {
            test: BatchTest(TESTS[test].over(settings.n_bins), self.layout, settings.min_support) for test in tests
        }

    @property
    def n_samples(self) -> int:
        return self.layout.rho.size

    def batches(self, n_replicates: int, n_points: int) -> list[int]:
        """Sizes of batches of replicates, if the summaries of all of them at so many points fit in memory."""
        kept = sum(batch.summary_width for batch in self.tests.values())
        validation.draws("n_replicates", n_replicates, width=n_points * kept)
        return chunks(n_replicates, max(batch.width for batch in self.tests.values()))

    def planted(self, delta: float) -> FloatArray:
        """Probability of being correct with a gap of delta between the outer tertiles."""
        bins = self.layout.bins(primary_bins(self.n_samples), "equal_mass")
        return plant_gap(self.probability, bins, self.layout.groups, delta)


def rejection_rate(p_values: FloatArray, alpha: float) -> dict[str, float]:
    """How many of the p-values reject, with the 95 % Wilson interval of the rate; a missing one does not reject."""
    with np.errstate(invalid="ignore"):
        rejections = int((p_values <= alpha).sum())
    low, high = wilson_interval(rejections, p_values.size)
    return {
        "rejections": rejections,
        "n_replicates": p_values.size,
        "rate": rejections / p_values.size,
        "rate_low": float(low),
        "rate_high": float(high),
        "untestable": int(np.isnan(p_values).sum()),
    }
