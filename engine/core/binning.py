"""Bins of confidence, tertiles of a feature and the two halves of a run: the partitions that all else counts in."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from scipy.stats import t

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.types import FloatArray, IntArray

Matching = Literal["equal_width", "equal_mass"]
MATCHINGS: tuple[str, ...] = get_args(Matching)
N_BINS = 15
TERTILES = ("low", "mid", "high")
TERTILE_QUANTILES = (1 / 3, 2 / 3)
LEVEL = 0.95


def equal_width_edges(n_bins: int) -> FloatArray:
    """(n_bins + 1,) edges b / n_bins, each the double nearest to its fraction."""
    return np.arange(n_bins + 1) / n_bins


def histogram_edges(values: FloatArray, n_bins: int) -> FloatArray:
    """(n_bins + 1,) equally spaced edges from the least value to the greatest.

    Values that are equal, or so close that the edges between them could not be told apart, get half a unit (or what
    can be told apart) on both sides.
    """
    low, high = float(values.min()), float(values.max())
    finest = 2 * n_bins * float(np.spacing(max(abs(low), abs(high))))
    if high - low <= finest:
        low, high = low - max(0.5, finest), high + max(0.5, finest)
    return np.linspace(low, high, n_bins + 1)


@lru_cache(maxsize=256)
def _truncation_is_exact(n_bins: int, dtype: np.dtype[np.floating]) -> bool:
    """Whether truncating c * n_bins finds the right bin of every number of this precision.

    Rounded multiplication never decreases, so it is enough that each edge, and the last number below it, fall right.
    """
    edges = equal_width_edges(n_bins)[1:-1].astype(dtype)
    factor, number = dtype.type(n_bins), np.arange(1, n_bins)
    below = np.nextafter(edges, dtype.type(0))
    return bool(
        ((edges * factor).astype(np.int64) == number).all() and ((below * factor).astype(np.int64) < number).all()
    )


def equal_width_bins(confidence: FloatArray, n_bins: int = N_BINS) -> IntArray:
    """Index of the bin [b / n_bins, (b + 1) / n_bins) of each value; 1 goes to the last bin.

    A value equal to an edge lands on its right. The product `c * n_bins` may round across an edge for some numbers of
    bins (10, for one; not 15): then the edges are searched instead. Edges are taken in the precision of the input, so a
    float32 value that is the nearest float32 to b / n_bins counts as being on that edge.
    """
    if not _truncation_is_exact(n_bins, confidence.dtype):
        edges = equal_width_edges(n_bins)[1:-1].astype(confidence.dtype)
        return np.searchsorted(edges, confidence, side="right")
    scaled = confidence * confidence.dtype.type(n_bins)
    return np.minimum(scaled, n_bins - 0.5, out=scaled).astype(np.int64)


def equal_mass_sizes(n: int, n_bins: int) -> IntArray:
    """Sizes of n_bins groups of n sorted samples, differing by at most one, the larger ones first."""
    sizes = np.full(n_bins, n // n_bins, dtype=np.int64)
    sizes[: n % n_bins] += 1
    return sizes


def equal_mass_bins(confidence: FloatArray, n_bins: int = N_BINS) -> IntArray:
    """Index of the equal-mass bin of each value: samples sorted by confidence, ties in their given order."""
    if confidence.size < n_bins:
        raise InvalidInput("n_bins", f"at most {confidence.size} equal-mass bins (one sample each)", f"{n_bins}")
    index = np.empty(confidence.size, dtype=np.int64)
    index[np.argsort(confidence, kind="stable")] = np.repeat(
        np.arange(n_bins), equal_mass_sizes(confidence.size, n_bins)
    )
    return index


def confidence_bins(confidence: FloatArray, n_bins: int, matching: Matching) -> IntArray:
    """Bin index under either matching."""
    n_bins = validation.bins(n_bins)
    validation.choice("matching", matching, MATCHINGS)
    if matching == "equal_width":
        return equal_width_bins(confidence, n_bins)
    return equal_mass_bins(confidence, n_bins)


@dataclass(frozen=True, eq=False)
class Tertiles:
    """Groups 0 (low: rho <= q1), 1 (mid: q1 < rho <= q2), 2 (high: rho > q2) of each sample, and the cuts."""

    index: IntArray
    cuts: tuple[float, float]
    sizes: tuple[int, int, int]

    @property
    def empty(self) -> tuple[str, ...]:
        """Names of the groups that ties left without a sample."""
        return tuple(name for name, size in zip(TERTILES, self.sizes, strict=True) if size == 0)


def check_quantiles(quantiles: tuple[float, float]) -> tuple[float, float]:
    """Two fractions, the lower one first; equal ones leave no middle group."""
    if not isinstance(quantiles, (tuple, list)) or len(quantiles) != 2:
        raise InvalidInput("quantiles", "two fractions, such as (1/3, 2/3)", repr(quantiles))
    low, high = (validation.fraction("quantiles", q) for q in quantiles)
    if low > high:
        raise InvalidInput("quantiles", "the lower fraction first", repr(quantiles))
    return low, high


def tertiles(rho: FloatArray, quantiles: tuple[float, float] = TERTILE_QUANTILES) -> Tertiles:
    """Cut rho at two quantiles, counted on the samples given: between the two nearest order statistics, linearly.

    Heavily tied values may leave a group empty; `Tertiles.empty` says so.
    """
    rho = validation.vector("rho", rho)
    quantiles = check_quantiles(quantiles)
    position = (rho.size - 1) * np.array(quantiles)
    below, above = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    ranked = np.partition(rho, np.unique([below, above]))
    # In doubles, whatever the precision of rho: numpy would round the cuts to that of a float32 rho before comparing.
    lower = ranked[below].astype(np.float64)
    low_cut, high_cut = lower + (ranked[above].astype(np.float64) - lower) * (position - below)
    index = (rho > low_cut).astype(np.int64)
    index += rho > high_cut
    low, mid, high = (int(size) for size in np.bincount(index, minlength=3))
    return Tertiles(index, (float(low_cut), float(high_cut)), (low, mid, high))


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


SPLIT_SEED = 42


def split(n: int, seed: int = SPLIT_SEED) -> tuple[IntArray, IntArray]:
    """Rows to fit on and rows to evaluate on: `default_rng(seed).permutation(n)`, cut after the first n // 2.

    An odd n gives the evaluated half one sample more.
    """
    validation.whole("n", n, 2, validation.MOST_SAMPLES)
    validation.seed(seed)
    order = np.random.default_rng(seed).permutation(n)
    return order[: n // 2], order[n // 2 :]
