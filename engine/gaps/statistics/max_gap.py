"""The largest gap over the bins that both outer thirds share: the paper's statistic."""

import math
from fractions import Fraction

import numpy as np

from engine.core.contingency import Contingency
from engine.core.types import BoolArray, FloatArray, IntArray
from engine.gaps.exact import NEGLIGIBLE, TAIL, BinNull, NullDistribution, bin_null, nulls_by_total
from engine.gaps.statistics.base import CountStatistic, displayed_nulls

_SMALL_TAIL = 1e-8
_CURVE_POINTS = 1024
_LIKELY = 1e-3
# A bin whose gap would have to deviate this improbably (exp(-14) < 1e-6) adds nothing to a p-value held against alpha.
_PRUNE_EXPONENT = 14.0


class MaxGap(CountStatistic):
    """max_b |acc_low - acc_high|; its exact p is a product over bins."""

    name = "max_gap"
    label = "largest gap"
    quantity = "largest gap"
    methods = ("exact", "hypergeometric", "shuffle")

    def value(self, sizes: IntArray, low: IntArray, high: IntArray) -> FloatArray:
        return np.abs(low / sizes[:, 0] - high / sizes[:, 2]).max(axis=1)

    def exact(self, sizes: IntArray, hits: IntArray) -> tuple[float, float]:
        gaps = [  # as fractions, so that equal gaps compare equal
            Fraction(abs(hit[0] * size[2] - hit[2] * size[0]), size[0] * size[2])
            for hit, size in zip(hits.tolist(), sizes.tolist(), strict=True)
        ]
        return max_gap_pvalue(sizes, hits.sum(axis=1), max(gaps)), 0.0

    def null(self, contingency: Contingency, min_support: int) -> NullDistribution:
        return _null(displayed_nulls(*self.strata(contingency, min_support)))

    def shared_pvalues(self, sizes: IntArray, hits: IntArray) -> FloatArray:
        """1 - prod_b P(gap_b < observed), the closed form, with one null per bin and number of correct samples."""
        totals = hits.sum(axis=1)
        observed = self.value(sizes.T, hits[:, 0], hits[:, 2])
        log_none = np.zeros(len(hits))
        for _, null, rows in nulls_by_total(sizes, totals, _may_reach(sizes, observed, totals)):
            # Rounding of the observed gap must not lose a tie: the integers compared are far further apart than 1e-6.
            thresholds = np.ceil(observed[rows] * null.scale - 1e-6).astype(np.int64)
            with np.errstate(divide="ignore"):  # log 0: the gap is certain to be reached
                log_none[rows] += np.log1p(-_tails(null, thresholds))
        return np.maximum(-np.expm1(log_none), np.exp(-_PRUNE_EXPONENT))


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


def _null(nulls: list[BinNull]) -> NullDistribution:
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


def _may_reach(sizes: IntArray, observed: FloatArray, totals: IntArray) -> BoolArray:
    """(R, n_shared) whether the bin's gap reaches the observed one with a probability worth computing.

    A gap of g needs the low or the high accuracy to deviate by g / 2 from the bin's own, and Bernstein's inequality
    bounds how likely that is: exp(-x^2 / (2 (variance + x / 3))), x = n g / 2.
    """
    n = sizes.sum(axis=0)
    p = totals / n
    reach = np.zeros(totals.shape, dtype=bool)
    for group in (sizes[0], sizes[2]):
        variance = group * p * (1 - p) * (n - group) / np.maximum(n - 1, 1)
        x = group * observed[:, None] / 2
        reach |= x**2 < 2 * _PRUNE_EXPONENT * (variance + x / 3)
    return reach | (observed[:, None] == 0)


def _tails(null: BinNull, thresholds: IntArray) -> FloatArray:
    """P(difference >= threshold) of several thresholds."""
    levels, inverse = np.unique(thresholds, return_inverse=True)
    passed = np.searchsorted(levels, null.difference.ravel(), side="right")
    mass = np.bincount(passed, weights=null.probability.ravel(), minlength=levels.size + 1)
    tails = np.cumsum(mass[::-1])[::-1][1:]
    return np.minimum(tails, 1.0)[inverse]
