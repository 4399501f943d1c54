"""The within-bin permutation null in closed form.

Permuting rho inside a confidence bin, with the cuts fixed, leaves the group sizes (n_low, n_mid, n_high) and the number
of correct samples k as they are; the correct counts (a, m, h) of the groups are then multivariate hypergeometric,

    P(a, m, h) = C(n_low, a) C(n_mid, m) C(n_high, h) / C(n, k),   m = k - a - h,

independently over bins. With p = k / n this equals Bin(a; n_low, p) Bin(m; n_mid, p) Bin(h; n_high, p) / Bin(k; n, p):
three one-dimensional tables whose product never leaves the range of doubles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import gammaln

from engine.core.types import FloatArray, IntArray

# Counts are kept where Bernstein's inequality leaves more than exp(-exponent) of probability outside.
NEGLIGIBLE = 30.0
TAIL = 100.0
DISPLAY = 20.0
_SMALL_TAIL = 1e-8
_LATTICE_CELLS = 2**15
_LARGEST_LATTICE = 2**18
_TRANSFORM_ERROR = 1e-13


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


def max_gap_pvalue(sizes: IntArray, n_correct: IntArray, observed: Fraction) -> float:
    """P(max over bins of the gap >= observed) = 1 - prod_b P(gap_b < observed).

    sizes : (n_shared, 3) group sizes; n_correct : (n_shared,) correct samples of all three groups.
    Gaps are compared in integers, so that a tie with the observed gap counts.
    """

    def log_none(exponent: float) -> float:
        total = 0.0
        for group, k in zip(sizes.tolist(), n_correct.tolist(), strict=True):
            threshold = math.ceil(observed * group[0] * group[2])
            tail = min(1.0, bin_null(group, k, exponent).tail(threshold))
            total += math.log1p(-tail) if tail < 1 else -math.inf
        return total

    p_value = -math.expm1(log_none(NEGLIGIBLE))
    if p_value < _SMALL_TAIL:  # the cut-off itself is no longer negligible: look further out
        p_value = max(-math.expm1(log_none(TAIL)), math.exp(-TAIL))
    return min(p_value, 1.0)


def weighted_numerator(sizes: IntArray, hits: IntArray) -> Fraction:
    """sum_b w_b |acc_low - acc_high| = sum_b |a n_high - h n_low| / max(n_low, n_high), w_b = min(n_low, n_high)."""
    return sum(
        (
            Fraction(abs(hit[0] * size[2] - hit[2] * size[0]), max(size[0], size[2]))
            for size, hit in zip(sizes.tolist(), hits.tolist(), strict=True)
        ),
        Fraction(0),
    )


def weighted_gap_pvalue(sizes: IntArray, n_correct: IntArray, observed: Fraction) -> tuple[float, float]:
    """P(weighted gap >= observed) and a bound on how much too large the value returned may be.

    `observed` is `weighted_numerator` of the data. The statistic is a sum of independent contributions, so its
    distribution is a convolution, done on a lattice over [0, observed). If the contributions share a small
    denominator the lattice holds them exactly; otherwise each is rounded to the nearest of 2^15 cells. The errors of B
    bins are independent, at most half a cell each, with standard deviation sqrt(1/12): four standard deviations of
    their sum are allowed for, and the p-value returned is the upper end of that bracket.
    """
    if observed == 0:
        return 1.0, 0.0
    nulls = [bin_null(group, k) for group, k in zip(sizes.tolist(), n_correct.tolist(), strict=True)]
    scales = [max(null.n_low, null.n_high) for null in nulls]
    common = math.lcm(*scales)
    if observed * common <= _LARGEST_LATTICE:
        target, slack = int(observed * common), 0
        cells = [null.difference * (common // scale) for null, scale in zip(nulls, scales, strict=True)]
    else:
        target, slack = _LATTICE_CELLS, math.ceil(4 * math.sqrt(len(nulls) / 12))
        width = float(observed) / target
        cells = [
            np.rint(null.difference / (scale * width)).astype(np.int64)
            for null, scale in zip(nulls, scales, strict=True)
        ]
    below = np.ones(1)
    for null, cell in zip(nulls, cells, strict=True):
        inside = cell < target
        factor = np.bincount(cell[inside], weights=null.probability[inside], minlength=1)
        below = fftconvolve(below, factor)[:target]
    certainly_below = float(below[: target - slack].sum())
    upper = min(1.0, max(0.0, 1 - certainly_below) + _TRANSFORM_ERROR)
    return upper, float(below[target - slack :].sum())


def gap_moments(null: BinNull) -> tuple[float, float]:
    """Null mean and variance of |acc_low - acc_high| in one bin."""
    gaps = null.difference / null.scale
    mean = float((null.probability * gaps).sum())
    variance = float((null.probability * (gaps - mean) ** 2).sum())
    # A gap that cannot vary leaves rounding dust, which must not count as variation.
    return mean, variance if variance > 1e-20 else 0.0
