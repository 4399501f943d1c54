"""How far the gaps move when the samples are drawn again.

The resampled counts are one multinomial draw, by table look-up. A general-purpose generator sets up a fresh binomial
for every cell of every draw, because what is left to distribute differs each time. Independent Poisson counts X_j
with rates n p_j need one table per cell for all draws, and given that they and the count of the remaining cell sum to
n they are multinomial. So: draw the X_j from their tables, and accept a draw with probability proportional to
P(Poisson(n p_rest) = n - sum X_j). That is exact; the share accepted is about sqrt(p_rest), so the remaining cell
must not be tiny.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from engine.core import validation
from engine.core.binning import N_BINS, TERTILE_QUANTILES, Matching
from engine.core.contingency import Contingency, tabulate
from engine.core.types import BEHIND, FloatArray, IntArray
from engine.gaps.gap import GapResult, gap_of_counts
from engine.gaps.settings import MIN_SUPPORT


@dataclass(frozen=True, eq=False)
class BootstrapResult:
    """Percentile intervals of both gaps and the resampled values behind them.

    An absolute gap is folded at zero, so resampling noise moves it upwards: the point estimate may lie below its
    interval when the true gaps are near zero. Intervals are None when no bin is shared, in the sample or in any
    resample. `n_without_gap` counts resamples in which no bin was shared; they are left out.
    """

    gap: GapResult
    max_gap_ci: tuple[float, float] | None
    weighted_gap_ci: tuple[float, float] | None
    max_gaps: FloatArray = field(metadata=BEHIND)
    weighted_gaps: FloatArray = field(metadata=BEHIND)
    n_without_gap: int
    level: float
    n_resamples: int
    seed: int


def _interval(values: FloatArray, level: float) -> tuple[float, float]:
    low, high = np.percentile(values, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)


def bootstrap_gap_of_counts(
    contingency: Contingency,
    *,
    n_resamples: int = 5000,
    seed: int = 42,
    min_support: int = MIN_SUPPORT,
    level: float = 0.95,
) -> BootstrapResult:
    """The bootstrap of counts that were tabulated before."""
    validation.draws("n_resamples", n_resamples)
    validation.seed(seed)
    validation.fraction("level", level)
    gap = gap_of_counts(contingency, min_support)
    if gap.max_gap is None:
        empty = np.empty(0)
        return BootstrapResult(gap, None, None, empty, empty, n_resamples, level, n_resamples, seed)
    # A bin in which an outer tertile is empty stays so in every resample: such bins and the mid tertile are "the rest".
    sizes = contingency.sizes
    outer = contingency.counts[np.minimum(sizes[:, 0], sizes[:, 2]) > 0][:, [0, 2], :]
    cells = outer.transpose(1, 2, 0)  # tertile, wrong/correct, bin
    validation.draws("n_resamples", n_resamples, width=cells.size)
    drawn = np.zeros((*cells.shape, n_resamples), dtype=np.int32)
    filled = cells > 0
    drawn[filled] = draw_multinomial(
        cells[filled], contingency.n_samples - int(cells.sum()), n_resamples, np.random.default_rng(seed)
    )
    n_low, n_high = drawn[0].sum(axis=0), drawn[1].sum(axis=0)
    weights = np.minimum(n_low, n_high)
    weights[weights < min_support] = 0
    shared = weights > 0
    gaps = np.abs(drawn[0, 1] / np.maximum(n_low, 1) - drawn[1, 1] / np.maximum(n_high, 1))
    total = weights.sum(axis=0)
    measured = total > 0
    max_gaps = np.where(shared, gaps, 0.0).max(axis=0)[measured]
    weighted_gaps = np.einsum("br,br->r", gaps, weights)[measured] / total[measured]
    return BootstrapResult(
        gap,
        _interval(max_gaps, level) if max_gaps.size else None,
        _interval(weighted_gaps, level) if max_gaps.size else None,
        max_gaps,
        weighted_gaps,
        n_without_gap=int((~measured).sum()),
        level=level,
        n_resamples=n_resamples,
        seed=seed,
    )


def bootstrap_gap(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    n_resamples: int = 5000,
    seed: int = 42,
    n_bins: int = N_BINS,
    min_support: int = MIN_SUPPORT,
    matching: Matching = "equal_width",
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
    level: float = 0.95,
) -> BootstrapResult:
    """Percentile bootstrap of both gaps: all samples resampled, cuts of rho and bins of confidence held fixed.

    Resampling rows with fixed cuts makes the counts by bin, tertile and correctness one multinomial draw; no row is
    touched.
    """
    contingency = tabulate(confidence, correct, rho, n_bins=n_bins, matching=matching, quantiles=quantiles)
    return bootstrap_gap_of_counts(
        contingency, n_resamples=n_resamples, seed=seed, min_support=min_support, level=level
    )


_LEADING_BITS = 11
_WORD_BITS = 32
# Tables reach as far as Bernstein's inequality leaves exp(-24) outside, less than one part in 2^32.
_EXPONENT = 24.0
_SMALLEST_REST = 0.05


class _PoissonTables:
    """Cumulative tables of several Poisson variables, in 32-bit fixed point."""

    def __init__(self, rates: FloatArray) -> None:
        half = _EXPONENT / 3 + np.sqrt(_EXPONENT**2 / 9 + 2 * _EXPONENT * rates)
        first = np.maximum(np.floor(rates - half), 0).astype(np.int64)
        widths = np.ceil(rates + half).astype(np.int64) - first + 1
        starts = np.concatenate(([0], np.cumsum(widths)))
        self.values = np.arange(starts[-1]) + np.repeat(first - starts[:-1], widths)
        log_pmf = self.values * np.repeat(np.log(rates), widths) - np.repeat(rates, widths) - gammaln(self.values + 1.0)
        total = np.concatenate(([0.0], np.cumsum(np.exp(log_pmf))))
        base = np.repeat(total[starts[:-1]], widths)
        mass = np.repeat(total[starts[1:]] - total[starts[:-1]], widths)
        # highest[i]: the largest 32-bit word that stands for values[i]; the last of a cell is the largest word of all.
        cumulative = np.floor((total[1:] - base) / mass * 2.0**_WORD_BITS)
        cumulative[starts[1:] - 1] = 2.0**_WORD_BITS
        self.highest = np.maximum(cumulative - 1, 0).astype(np.uint32)
        self.starts = starts
        # entry[j, t]: index of the first entry of cell j that a word with leading bits t can stand for. Where the next
        # interval starts at the same entry, the leading bits alone settle the value; elsewhere -1 asks for a search.
        leading = -(-cumulative.astype(np.int64) // 2 ** (_WORD_BITS - _LEADING_BITS))
        n_intervals = 2**_LEADING_BITS + 1
        keys = np.repeat(np.arange(rates.size) * n_intervals, widths) + leading
        entry = np.cumsum(np.bincount(keys, minlength=rates.size * n_intervals)).reshape(rates.size, n_intervals)
        settled = entry[:, 1:] == entry[:, :-1]
        self.direct = np.where(settled, self.values.astype(np.int32).take(entry[:, :-1], mode="clip"), np.int32(-1))

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int32]:
        """(cells, size) independent counts."""
        n_cells = len(self.direct)
        words = rng.bit_generator.random_raw((n_cells * size + 1) // 2).view(np.uint32)[: n_cells * size]
        counts = np.empty((n_cells, size), dtype=np.int32)
        for cell, word in enumerate(words.reshape(n_cells, size)):
            leading = (word >> np.uint32(_WORD_BITS - _LEADING_BITS)).astype(np.intp)
            drawn = self.direct[cell].take(leading, out=counts[cell], mode="clip")
            open_ = np.flatnonzero(drawn < 0)
            begin, end = self.starts[cell : cell + 2]
            drawn[open_] = self.values[begin + np.searchsorted(self.highest[begin:end], word[open_])]
        return counts


def draw_multinomial(counts: IntArray, rest: int, size: int, rng: np.random.Generator) -> IntArray | NDArray[np.int32]:
    """(cells, size) counts of `size` draws from Multinomial(n, (counts, rest) / n), n = sum of counts + rest.

    `counts` are positive; the remaining cell's own count is what is missing to n and is not returned.
    """
    n = int(counts.sum()) + rest
    if rest < _SMALLEST_REST * n:
        drawn = rng.multinomial(n, np.append(counts, rest) / n, size=size)
        return np.ascontiguousarray(drawn[:, :-1].T)
    tables = _PoissonTables(counts.astype(np.float64))
    accepted = np.empty((counts.size, size), dtype=np.int32)
    filled = 0
    while filled < size:
        batch = tables.draw(rng, int((size - filled) / math.sqrt(rest / n) * 1.05) + 64)
        left = n - batch.sum(axis=0)
        possible = np.maximum(left, 0)
        # log of P(Poisson(rest) = left) / P(Poisson(rest) = rest), the latter being the mode.
        log_weight = (possible - rest) * math.log(rest) - gammaln(possible + 1.0) + math.lgamma(rest + 1.0)
        kept = np.flatnonzero((left >= 0) & (rng.random(left.size) < np.exp(log_weight)))[: size - filled]
        accepted[:, filled : filled + kept.size] = batch[:, kept]
        filled += kept.size
    return accepted
