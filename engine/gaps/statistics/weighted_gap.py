"""The gap averaged over the shared bins, weighted by the smaller outer third."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import fftconvolve
from scipy.special import ndtr

from engine.core import validation
from engine.core.binning import TERTILE_QUANTILES, Matching
from engine.core.contingency import Contingency, tabulate
from engine.core.types import FloatArray, IntArray
from engine.gaps.exact import BinNull, NullDistribution, bin_null, nulls_by_total
from engine.gaps.gap import gap_of_counts
from engine.gaps.settings import MIN_SUPPORT, TestSettings, primary_bins
from engine.gaps.statistics.base import CountStatistic, Samples, displayed_nulls
from engine.gaps.stratified import SMALLEST_P, PValueMethod, StratifiedResult, check_method, matching_notes, untestable

_CURVE_POINTS = 1024
_LATTICE_CELLS = 2**15
_LARGEST_LATTICE = 2**18
_TRANSFORM_ERROR = 1e-13


class WeightedGap(CountStatistic):
    """sum_b w_b |acc_low - acc_high| / sum_b w_b, w_b = min(n_low, n_high); its exact p is a convolution over bins.

    In tables and controls the p-value is the normal one with exact moments (`weighted_gap_test`).
    """

    name = "weighted_gap"
    label = "weighted gap"
    quantity = "weighted gap"
    methods = ("exact", "hypergeometric", "shuffle")
    fine = True

    def value(self, sizes: IntArray, low: IntArray, high: IntArray) -> FloatArray:
        weights = np.minimum(sizes[:, 0], sizes[:, 2])
        return np.abs(low / sizes[:, 0] - high / sizes[:, 2]) @ weights / weights.sum()

    def exact(self, sizes: IntArray, hits: IntArray) -> tuple[float, float]:
        return weighted_gap_pvalue(sizes, hits.sum(axis=1), weighted_numerator(sizes, hits))

    def null(self, contingency: Contingency, min_support: int) -> NullDistribution:
        return _null(displayed_nulls(*self.strata(contingency, min_support)))

    def p_value(self, samples: Samples, n_bins: int, matching: Matching, settings: TestSettings) -> float | None:
        return weighted_gap_test(*samples, **settings.keywords | {"n_bins": n_bins, "matching": matching}).p_value

    def shared_pvalues(self, sizes: IntArray, hits: IntArray) -> FloatArray:
        """Normal approximation with the exact null mean and variance of each bin's absolute gap."""
        n_low, _, n_high = sizes
        weights = np.minimum(n_low, n_high)
        observed = np.abs(hits[:, 0] / n_low - hits[:, 2] / n_high) @ weights
        mean, variance = np.zeros(len(hits)), np.zeros(len(hits))
        totals = hits.sum(axis=1)
        for column, null, rows in nulls_by_total(sizes, totals, np.ones(totals.shape, dtype=bool)):
            expected, spread = gap_moments(null)
            mean[rows] += weights[column] * expected
            variance[rows] += weights[column] ** 2 * spread
        z = np.divide(observed - mean, np.sqrt(variance), out=np.full(len(hits), np.nan), where=variance > 0)
        return np.maximum(ndtr(-z), SMALLEST_P)


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


def _null(nulls: list[BinNull]) -> NullDistribution:
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


def weighted_gap_test(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    n_bins: int | None = None,
    matching: Matching = "equal_mass",
    method: PValueMethod = "asymptotic",
    min_support: int = MIN_SUPPORT,
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
) -> StratifiedResult:
    """The weighted gap as a stratified test: one-sided, since an absolute gap is only ever too large.

    z = (sum_b w_b |gap_b| - mean) / sd with the exact null moments of each bin; the permutation p comes from the exact
    convolution (see `weighted_gap_pvalue` for its error). The effect is the signed weighted gap, high - low. `n_bins`
    None means the primary bins (`primary_bins`).
    """
    check_method(method)
    bins = primary_bins(validation.confidence(confidence).size) if n_bins is None else n_bins
    contingency = tabulate(confidence, correct, rho, n_bins=bins, matching=matching, quantiles=quantiles)
    gap = gap_of_counts(contingency, min_support)
    if gap.weighted_gap is None or gap.signed_gap is None:
        return StratifiedResult("weighted_gap", None, None, None, None, None, method, bins, 0, matching, gap.notes)
    sizes, hits = contingency.sizes[gap.shared], contingency.n_correct[gap.shared]
    moments = np.array([gap_moments(null) for null in displayed_nulls(sizes, hits)])
    spread = float(np.sqrt(gap.weights**2 @ moments[:, 1]))
    if spread == 0:
        return untestable("weighted_gap", method, bins, matching)
    z = (gap.weighted_gap * float(gap.weights.sum()) - float(gap.weights @ moments[:, 0])) / spread
    p_asymptotic = max(float(ndtr(-z)), SMALLEST_P)
    p_permutation, notes = None, (*gap.notes, *matching_notes(bins))
    if method == "permutation":
        p_permutation, error = weighted_gap_pvalue(sizes, hits.sum(axis=1), weighted_numerator(sizes, hits))
        if error > 0.1 * p_permutation:
            notes = (*notes, f"the permutation p is at most {error:.2g} too large, from rounding over {bins} bins")
    return StratifiedResult(
        "weighted_gap",
        p_asymptotic if p_permutation is None else p_permutation,
        z,
        effect=-gap.signed_gap,
        p_asymptotic=p_asymptotic,
        p_permutation=p_permutation,
        method=method,
        n_strata=bins,
        n_informative=int((moments[:, 1] > 0).sum()),
        matching=matching,
        notes=notes,
    )
