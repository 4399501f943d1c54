"""The within-bin permutation null in closed form.

Permuting rho inside a confidence bin, with the cuts fixed, leaves the group sizes (n_low, n_mid, n_high) and the number
of correct samples k as they are; the correct counts (a, m, h) of the groups are then multivariate hypergeometric,

    P(a, m, h) = C(n_low, a) C(n_mid, m) C(n_high, h) / C(n, k),   m = k - a - h,

independently over bins. With p = k / n this equals Bin(a; n_low, p) Bin(m; n_mid, p) Bin(h; n_high, p) / Bin(k; n, p):
three one-dimensional tables whose product never leaves the range of doubles.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import gammaln

from engine.core.types import BoolArray, FloatArray, IntArray

# Counts are kept where Bernstein's inequality leaves more than exp(-exponent) of probability outside.
NEGLIGIBLE = 30.0
TAIL = 100.0
DISPLAY = 20.0
PERCENTILES = (2.5, 50.0, 97.5)
_FAMILY_REACH = 8.0  # standard deviations


@lru_cache(maxsize=4)
def _log_factorials(bits: int) -> FloatArray:
    """log 0!, log 1!, ... up to 2^bits."""
    return gammaln(np.arange(2**bits + 1) + 1.0)


def log_factorials(largest: int) -> FloatArray:
    """A table of log-factorials that reaches at least `largest`."""
    return _log_factorials(max(10, int(largest).bit_length()))


def _binomial(n: int, p: float, table: FloatArray) -> FloatArray:
    """Bin(x; n, p) for x = 0..n."""
    x = np.arange(n + 1)
    return np.exp(table[n] - table[: n + 1] - table[n::-1] + x * math.log(p) + (n - x) * math.log1p(-p))


def _window(n: int, total: int, k: int, exponent: float) -> IntArray:
    """Counts of a hypergeometric variable (n of total drawn, k marked) that carry all but exp(-exponent)."""
    p = k / total
    variance = n * p * (1 - p) * (total - n) / max(total - 1, 1)
    half = exponent / 3 + math.sqrt(exponent**2 / 9 + 2 * exponent * variance)
    first = max(0, k - (total - n), math.floor(n * p - half))
    return np.arange(first, min(n, k, math.ceil(n * p + half)) + 1)


@dataclass(frozen=True, eq=False)
class BinNull:
    """Joint null of the correct counts of the low (rows) and the high (columns) tertile in one bin.

    P(a, h) = low_factor[a] * middle[a, h] * high_factor[h]; `middle` depends on a + h only and is a view.
    """

    n_low: int
    n_high: int
    low: IntArray
    high: IntArray
    low_factor: FloatArray
    high_factor: FloatArray
    middle: FloatArray

    @property
    def scale(self) -> int:
        """What the integer |a n_high - h n_low| is divided by to be a gap."""
        return self.n_low * self.n_high

    @cached_property
    def difference(self) -> IntArray:
        """|a n_high - h n_low| of each pair of counts."""
        return np.abs(self.low[:, None] * self.n_high - self.high * self.n_low)

    @cached_property
    def probability(self) -> FloatArray:
        return self.low_factor[:, None] * self.middle * self.high_factor

    def tail(self, threshold: int) -> float:
        """P(|a n_high - h n_low| >= threshold).

        For each a the condition leaves out an interval of h, so the counts need not be compared pair by pair.
        """
        if threshold <= 0:
            return 1.0
        reach = self.low * self.n_high
        first_above = -((-reach - threshold) // self.n_low)
        last_below = (reach - threshold) // self.n_low
        outside = (self.high >= first_above[:, None]) | (self.high <= last_below[:, None])
        return float(self.low_factor @ ((self.middle * outside) @ self.high_factor))

    def gap_distribution(self) -> tuple[FloatArray, FloatArray]:
        """Sorted absolute gaps and the probability of at most each."""
        order = np.argsort(self.difference, axis=None)
        return self.difference.ravel()[order] / self.scale, np.cumsum(self.probability.ravel()[order])


class BinFamily:
    """The nulls of one bin for any number of correct samples: three binomial tables serve them all.

    The identity above holds for every p; one near the share of correct samples keeps the factors far from underflow.
    """

    def __init__(self, sizes: tuple[int, int, int], p: float) -> None:
        self.n_low, self.n_mid, self.n_high = (int(size) for size in sizes)
        self.total = self.n_low + self.n_mid + self.n_high
        table = log_factorials(self.total)
        self._low, self._mid, self._high = (_binomial(n, p, table) for n in (self.n_low, self.n_mid, self.n_high))
        self._p, self._table = p, table

    def _whole(self, k: int) -> float:
        """Bin(k; n, p)."""
        n, table = self.total, self._table
        chances = k * math.log(self._p) + (n - k) * math.log1p(-self._p)
        return math.exp(table[n] - table[k] - table[n - k] + chances)

    def given(self, k: int, exponent: float = NEGLIGIBLE) -> BinNull:
        """The joint null when k of the bin's samples are correct."""
        a = _window(self.n_low, self.total, k, exponent)
        h = _window(self.n_high, self.total, k, exponent)
        m = np.arange(k - a[0] - h[0], k - a[-1] - h[-1] - 1, -1)
        possible = (m >= 0) & (m <= self.n_mid)
        mid = np.where(possible, self._mid.take(m, mode="clip"), 0.0)
        # The middle count depends on a + h only: row a of the matrix is the table, shifted by one more place.
        middle = np.ndarray((a.size, h.size), mid.dtype, mid, strides=mid.strides * 2)
        return BinNull(
            self.n_low,
            self.n_high,
            a,
            h,
            self._low[a[0] : a[-1] + 1],
            self._high[h[0] : h[-1] + 1] / self._whole(k),
            middle,
        )


def bin_null(sizes: tuple[int, int, int], k: int, exponent: float = NEGLIGIBLE) -> BinNull:
    """The joint null of one bin with k correct among sizes = (n_low, n_mid, n_high)."""
    return BinFamily(sizes, (k + 0.5) / (sum(sizes) + 1)).given(k, exponent)


def nulls_by_total(sizes: IntArray, totals: IntArray, relevant: BoolArray) -> Iterator[tuple[int, BinNull, IntArray]]:
    """(bin, null, rows) for each bin and each number of correct samples that it has in some simulated outcome.

    sizes : (3, n_bins); totals : (R, n_bins) correct samples; relevant : (R, n_bins) which of them are needed.
    """
    for column, group in enumerate(sizes.T.tolist()):
        rows = np.flatnonzero(relevant[:, column])
        if rows.size == 0:
            continue
        rows = rows[np.argsort(totals[rows, column], kind="stable")]
        values, starts = np.unique(totals[rows, column], return_index=True)
        n, family, reach = sum(group), None, -1.0
        for k, part in zip(values.tolist(), np.split(rows, starts[1:]), strict=True):
            if family is None or k > reach:
                # One family serves totals near its own; far away its factors would leave the range of doubles.
                share = (k + 0.5) / (n + 1)
                family, reach = BinFamily(group, share), k + _FAMILY_REACH * (n * share * (1 - share)) ** 0.5
            yield column, family.given(k, DISPLAY), part


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
