"""Could the matched-confidence gap be chance? One null, three ways to it, one result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import fftconvolve

from engine.core import validation
from engine.core.binning import N_BINS, TERTILE_QUANTILES, Matching
from engine.core.contingency import Contingency, tabulate
from engine.core.pvalues import monte_carlo_pvalue
from engine.core.types import FloatArray, IntArray, Progress
from engine.gaps.exact import (
    DISPLAY,
    BinNull,
    bin_null,
    max_gap_pvalue,
    weighted_gap_pvalue,
    weighted_numerator,
)
from engine.gaps.gap import GapResult, exact_gaps, gap_of_counts
from engine.gaps.settings import MIN_SUPPORT

Method = Literal["exact", "hypergeometric", "shuffle"]
Statistic = Literal["max_gap", "weighted_gap"]
PERCENTILES = (2.5, 50.0, 97.5)
_CURVE_POINTS = 1024
_LIKELY = 1e-3
_SHUFFLE_ELEMENTS = 2_000_000


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """Values of a statistic in ascending order and the null probability of at most each."""

    values: FloatArray
    cumulative: FloatArray

    def percentile(self, percent: float) -> float:
        """Smallest value whose cumulative probability reaches the percentage."""
        index = int(np.searchsorted(self.cumulative, percent / 100 - 1e-12))
        return float(self.values[min(index, self.values.size - 1)])

    @property
    def percentiles(self) -> tuple[float, float, float]:
        """The 2.5th, 50th and 97.5th percentile."""
        low, middle, high = (self.percentile(percent) for percent in PERCENTILES)
        return low, middle, high


@dataclass(frozen=True, eq=False)
class NullBand:
    """Percentiles (2.5, 50, 97.5) of the null in each shared bin: the grey band.

    bins : (n_shared,) bin numbers from 1; gap : (n_shared, 3) of |acc_low - acc_high|;
    accuracy_low, accuracy_high : (n_shared, 3) of each outer tertile's accuracy.
    """

    bins: IntArray
    gap: FloatArray
    accuracy_low: FloatArray
    accuracy_high: FloatArray


@dataclass(frozen=True, eq=False)
class PermutationResult:
    """A gap, its p-value under within-bin permutation of rho, and the null it was held against.

    `p_value` is None, with the reason in `gap.notes`, when no bin is shared. `p_error` bounds how much too large an
    exact p-value may be (zero for the max gap). `draws` holds the simulated statistics, None for the exact method.
    """

    gap: GapResult
    statistic: Statistic
    method: Method
    observed: float | None
    p_value: float | None
    p_error: float
    n_permutations: int
    seed: int
    draws: FloatArray | None

    @cached_property
    def _bin_nulls(self) -> list[BinNull]:
        sizes, totals = _shared_counts(self.gap)
        return [bin_null(size, k, DISPLAY) for size, k in zip(sizes.tolist(), totals.tolist(), strict=True)]

    @cached_property
    def null(self) -> NullDistribution | None:
        """The null distribution of the statistic; simulated methods give that of their draws."""
        if self.p_value is None:
            return None
        if self.draws is not None:
            return NullDistribution(np.sort(self.draws), np.arange(1, self.draws.size + 1) / self.draws.size)
        if self.statistic == "max_gap":
            return _max_gap_null(self._bin_nulls)
        return _weighted_gap_null(self._bin_nulls)

    @cached_property
    def band(self) -> NullBand:
        """The null in each shared bin, from the closed form whatever the method."""
        gap, low, high = [], [], []
        for null in self._bin_nulls:
            gap.append(NullDistribution(*null.gap_distribution()).percentiles)
            by_low, by_high = null.probability.sum(axis=1), null.probability.sum(axis=0)
            low.append(NullDistribution(null.low / null.n_low, np.cumsum(by_low)).percentiles)
            high.append(NullDistribution(null.high / null.n_high, np.cumsum(by_high)).percentiles)
        shape = (len(gap), 3)
        return NullBand(
            np.flatnonzero(self.gap.shared) + 1,
            np.array(gap).reshape(shape),
            np.array(low).reshape(shape),
            np.array(high).reshape(shape),
        )


def _shared_counts(gap: GapResult) -> tuple[IntArray, IntArray]:
    """Group sizes (n_shared, 3) and correct totals (n_shared,) of the shared bins."""
    contingency = gap.contingency
    return contingency.sizes[gap.shared], contingency.n_correct[gap.shared].sum(axis=1)


def _max_gap_null(nulls: list[BinNull]) -> NullDistribution:
    """P(max gap <= x) = prod_b P(gap_b <= x), at up to 1024 of the values the gap can take."""
    distributions = [null.gap_distribution() for null in nulls]
    values = np.unique(np.concatenate([gaps for gaps, _ in distributions]))

    def cumulative(points: FloatArray) -> FloatArray:
        product = np.ones(points.size)
        for gaps, probability in distributions:
            padded = np.concatenate(([0.0], probability))
            product *= np.minimum(padded[np.searchsorted(gaps, points + 1e-12, side="right")], 1.0)
        return product

    if values.size > _CURVE_POINTS:
        # Keep the part of the range where the curve rises, thinned evenly, and every value that is likely by itself.
        coarse = np.append(values[:: max(1, values.size // _CURVE_POINTS)], values[-1])
        rises = cumulative(coarse)
        first, last = np.searchsorted(rises, [1e-4, 1 - 1e-6])
        start, stop = coarse[max(first - 1, 0)], coarse[min(last, coarse.size - 1)]
        inside = values[(values >= start) & (values <= stop)]
        likely = [gaps[np.diff(probability, prepend=0.0) > _LIKELY] for gaps, probability in distributions]
        kept = np.concatenate([inside[:: max(1, inside.size // _CURVE_POINTS)], *likely, [stop]])
        values = np.unique(kept[(kept >= start) & (kept <= stop)])
    return NullDistribution(values, cumulative(values))


def _weighted_gap_null(nulls: list[BinNull]) -> NullDistribution:
    """Null of the weighted gap by convolution on a lattice that reaches eight standard deviations past the mean."""
    weights = np.array([min(null.n_low, null.n_high) for null in nulls], dtype=float)
    gaps = [null.difference / null.scale for null in nulls]
    means = np.array([(null.probability * gap).sum() for null, gap in zip(nulls, gaps, strict=True)])
    squares = np.array([(null.probability * gap**2).sum() for null, gap in zip(nulls, gaps, strict=True)])
    variance = np.maximum(squares - means**2, 0)
    reach = float(weights @ means + 8 * np.sqrt(weights**2 @ variance))
    width = max(reach, 1e-12) / _CURVE_POINTS
    pmf = np.ones(1)
    for null, gap, weight in zip(nulls, gaps, weights, strict=True):
        cell = np.minimum(np.rint(gap * weight / width).astype(np.int64), _CURVE_POINTS)
        pmf = fftconvolve(pmf, np.bincount(cell.ravel(), weights=null.probability.ravel()))[: _CURVE_POINTS + 1]
    values = np.arange(pmf.size) * width / weights.sum()
    return NullDistribution(values, np.minimum(np.maximum.accumulate(np.cumsum(pmf)), 1.0))


def _statistic(sizes: IntArray, low: IntArray, high: IntArray, statistic: Statistic) -> FloatArray:
    """The statistic of P simulated tables; low, high : (P, n_shared) correct counts."""
    gaps = np.abs(low / sizes[:, 0] - high / sizes[:, 2])
    if statistic == "max_gap":
        return gaps.max(axis=1)
    weights = np.minimum(sizes[:, 0], sizes[:, 2])
    return gaps @ weights / weights.sum()


def draw_hypergeometric(
    sizes: IntArray, n_correct: IntArray, n_permutations: int, seed: int
) -> tuple[IntArray, IntArray]:
    """(P, n_shared) correct counts of the low and the high tertile, drawn from the hypergeometric null.

    Sizes and totals are the same for every draw, so one cumulative table of the joint counts of a bin serves them all.
    """
    rng = np.random.default_rng(seed)
    low = np.empty((n_permutations, len(sizes)), dtype=np.int64)
    high = np.empty_like(low)
    for b, (size, k) in enumerate(zip(sizes.tolist(), n_correct.tolist(), strict=True)):
        null = bin_null(size, k)
        cumulative = np.cumsum(null.probability)
        cell = np.searchsorted(cumulative[:-1], rng.random(n_permutations) * cumulative[-1], side="right")
        row, column = np.divmod(cell, null.high.size)
        low[:, b], high[:, b] = null.low[0] + row, null.high[0] + column
    return low, high


def draw_shuffles(
    sizes: IntArray, n_correct: IntArray, n_permutations: int, seed: int, progress: Progress | None = None
) -> tuple[IntArray, IntArray]:
    """The same counts by permuting samples inside each bin, as the paper does; the reference for the other two."""
    done, n_samples = 0, int(sizes.sum())
    rng = np.random.default_rng(seed)
    low = np.empty((n_permutations, len(sizes)), dtype=np.int64)
    high = np.empty_like(low)
    for b, ((n_low, n_mid, n_high), k) in enumerate(zip(sizes.tolist(), n_correct.tolist(), strict=True)):
        samples = np.zeros(n_low + n_mid + n_high, dtype=np.int8)
        samples[:k] = 1
        rows = max(1, _SHUFFLE_ELEMENTS // samples.size)
        for start in range(0, n_permutations, rows):
            stop = min(start + rows, n_permutations)
            shuffled = rng.permuted(np.broadcast_to(samples, (stop - start, samples.size)), axis=1)
            low[start:stop, b] = shuffled[:, :n_low].sum(axis=1, dtype=np.int64)
            high[start:stop, b] = shuffled[:, n_low : n_low + n_high].sum(axis=1, dtype=np.int64)
            done += shuffled.size
            if progress is not None:
                progress(done / (n_permutations * n_samples), "shuffling")
    return low, high


def permutation_test_of_counts(
    contingency: Contingency,
    *,
    statistic: Statistic = "max_gap",
    method: Method = "exact",
    n_permutations: int = 5000,
    seed: int = 42,
    min_support: int = MIN_SUPPORT,
    progress: Progress | None = None,
) -> PermutationResult:
    """The permutation test of counts that were tabulated in numpy or in SQL."""
    validation.choice("statistic", statistic, get_args(Statistic))
    validation.choice("method", method, get_args(Method))
    validation.draws("n_permutations", n_permutations)
    validation.seed(seed)
    gap = gap_of_counts(contingency, min_support)
    observed = gap.max_gap if statistic == "max_gap" else gap.weighted_gap
    if observed is None:
        return PermutationResult(gap, statistic, method, None, None, 0.0, n_permutations, seed, None)
    sizes, totals = _shared_counts(gap)
    draws, error = None, 0.0
    if method != "exact":
        validation.draws("n_permutations", n_permutations, width=2 * len(sizes))
        low, high = (
            draw_shuffles(sizes, totals, n_permutations, seed, progress)
            if method == "shuffle"
            else draw_hypergeometric(sizes, totals, n_permutations, seed)
        )
        draws = _statistic(sizes, low, high, statistic)
        p_value = monte_carlo_pvalue(observed, draws)
    elif statistic == "max_gap":
        p_value = max_gap_pvalue(sizes, totals, max(exact_gaps(contingency, gap.shared)))
    else:
        hits = contingency.n_correct[gap.shared]
        p_value, error = weighted_gap_pvalue(sizes, totals, weighted_numerator(sizes, hits))
    return PermutationResult(gap, statistic, method, observed, p_value, error, n_permutations, seed, draws)


def permutation_test(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    statistic: Statistic = "max_gap",
    method: Method = "exact",
    n_permutations: int = 5000,
    seed: int = 42,
    n_bins: int = N_BINS,
    min_support: int = MIN_SUPPORT,
    matching: Matching = "equal_width",
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
    progress: Progress | None = None,
) -> PermutationResult:
    """Test the matched-confidence gap against permutations of rho inside confidence bins (protocol, section 4).

    method : "exact" (closed form), "hypergeometric" (Monte Carlo on counts, p = (1 + hits) / (1 + P)) or "shuffle"
        (Monte Carlo on samples, the paper's own procedure). `n_permutations` and `seed` matter to the last two, only
        the last one takes long enough to report `progress`.
    """
    contingency = tabulate(confidence, correct, rho, n_bins=n_bins, matching=matching, quantiles=quantiles)
    return permutation_test_of_counts(
        contingency,
        statistic=statistic,
        method=method,
        n_permutations=n_permutations,
        seed=seed,
        min_support=min_support,
        progress=progress,
    )
