"""Cochran-Mantel-Haenszel: low against high tertile, one 2 x 2 table per confidence bin."""

import math

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.binning import TERTILE_QUANTILES, Matching
from engine.core.contingency import Contingency, tabulate
from engine.core.types import BoolArray, FloatArray, IntArray
from engine.gaps.exact import TAIL, NullDistribution, bin_null
from engine.gaps.settings import TestSettings, primary_bins
from engine.gaps.statistics.base import CountStatistic, Partition, Samples, Standardised
from engine.gaps.stratified import PValueMethod, StratifiedResult, check_method, matching_notes, two_sided, untestable


class Cmh(Standardised, CountStatistic):
    """|Mantel-Haenszel risk difference|: the surplus of the low third's correct counts over what its bins expect.

    Outcomes change places between the outer thirds of a bin only. In tables and controls the p-value is the normal one
    (`cmh_test`). It counts every bin that both thirds share, whatever the minimum support.
    """

    name = "cmh"
    label = "CMH"
    quantity = "Mantel-Haenszel difference"
    methods = ("exact", "hypergeometric", "shuffle")
    fine = True

    def value(self, sizes: IntArray, low: IntArray, high: IntArray) -> FloatArray:
        n_low, n_high = sizes[:, 0], sizes[:, 2]
        surplus = (low * n_high - high * n_low) / (n_low + n_high)
        return np.abs(surplus.sum(axis=1)) / (n_low * n_high / (n_low + n_high)).sum()

    def strata(self, contingency: Contingency, min_support: int) -> tuple[IntArray, IntArray]:  # noqa: ARG002
        """The bins with samples of both outer thirds, without the mid one; none if no bin can vary."""
        outer = np.array([1, 0, 1])
        sizes, hits = contingency.sizes * outer, contingency.n_correct * outer
        _, variance = cmh_moments(sizes[:, 0], sizes[:, 2], hits.sum(axis=1))
        both = (np.minimum(sizes[:, 0], sizes[:, 2]) > 0) & (variance > 0).any()
        return sizes[both], hits[both]

    def exact(self, sizes: IntArray, hits: IntArray) -> tuple[float, float]:
        expected = sizes[:, 0] * hits.sum(axis=1) / sizes.sum(axis=1)
        distance = abs(float((hits[:, 0] - expected).sum()))
        return _permutation_pvalue(sizes[:, 0], sizes[:, 2], hits.sum(axis=1), distance), 0.0

    def null(self, contingency: Contingency, min_support: int) -> NullDistribution:
        sizes, hits = self.strata(contingency, min_support)
        n_low, n_high = sizes[:, 0], sizes[:, 2]
        distance, pmf = _distances(n_low, n_high, hits.sum(axis=1))
        order = np.argsort(distance)
        scale = (n_low * n_high / (n_low + n_high)).sum()
        return NullDistribution(distance[order] / scale, np.minimum(np.cumsum(pmf[order]), 1.0))

    def p_value(self, samples: Samples, n_bins: int, matching: Matching, settings: TestSettings) -> float | None:
        return cmh_test(*samples, n_bins=n_bins, matching=matching, quantiles=settings.quantiles).p_value

    def summarise(self, partition: Partition, outcomes: BoolArray, hits: FloatArray) -> FloatArray:  # noqa: ARG002
        mean, variance = cmh_moments(partition.sizes[0], partition.sizes[2], hits[:, 0] + hits[:, 2])
        return np.column_stack([(hits[:, 0] - mean).sum(axis=1), variance.sum(axis=1)])


def cmh_moments(n_low: IntArray, n_high: IntArray, k: IntArray | FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the low tertile's correct count given the margins of each 2 x 2 table.

    E = n_low k / n, V = n_low n_high k (n - k) / (n^2 (n - 1)), n = n_low + n_high; tables with n < 2 have V = 0.
    """
    n = (n_low + n_high).astype(float)
    safe = np.maximum(n, 2)
    mean = n_low * k / np.maximum(n, 1)
    return mean, n_low * n_high * (k / safe) * ((n - k) / safe) / (safe - 1)


def _distances(n_low: IntArray, n_high: IntArray, k: IntArray) -> tuple[FloatArray, FloatArray]:
    """|sum of low counts - its mean| and the probability of each, by exact convolution of hypergeometrics."""
    pmf, first, mean = np.ones(1), 0, 0.0
    for low, high, marked in zip(n_low.tolist(), n_high.tolist(), k.tolist(), strict=True):
        null = bin_null((low, 0, high), marked, TAIL)
        pmf = np.convolve(pmf, null.probability.sum(axis=1))
        first += int(null.low[0])
        mean += low * marked / (low + high)
    return np.abs(first + np.arange(pmf.size) - mean), pmf


def _permutation_pvalue(n_low: IntArray, n_high: IntArray, k: IntArray, distance: float) -> float:
    """P(|sum of low counts - its mean| >= distance)."""
    distances, pmf = _distances(n_low, n_high, k)
    away = distances >= distance - 1e-9
    return float(min(1.0, max(pmf[away].sum(), math.exp(-TAIL))))


def cmh_test(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    n_bins: int | None = None,
    matching: Matching = "equal_mass",
    method: PValueMethod = "asymptotic",
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
) -> StratifiedResult:
    """Low against high tertile and correctness, stratified by confidence bin, without continuity correction.

    z = -sum_b (a_b - E_b) / sqrt(sum_b V_b), a_b the correct ones of the low tertile; two-sided (Mantel & Haenszel
    1959). The permutation p is exact. The effect is the Mantel-Haenszel risk difference high - low. `n_bins` None
    means the primary bins (`primary_bins`).
    """
    check_method(method)
    bins = primary_bins(validation.confidence(confidence).size) if n_bins is None else n_bins
    contingency = tabulate(confidence, correct, rho, n_bins=bins, matching=matching, quantiles=quantiles)
    n_low, n_high = contingency.sizes[:, 0], contingency.sizes[:, 2]
    low, high = contingency.n_correct[:, 0], contingency.n_correct[:, 2]
    mean, variance = cmh_moments(n_low, n_high, low + high)
    informative = variance > 0
    if not informative.any():
        return untestable("cmh", method, contingency.n_bins, contingency.matching)
    surplus = float((low - mean)[informative].sum())
    z = -surplus / math.sqrt(variance[informative].sum())
    both = (n_low > 0) & (n_high > 0)  # also where all are correct: such bins say that there is no difference
    pair = n_low[both] * n_high[both] / (n_low + n_high)[both]
    difference = high[both] / n_high[both] - low[both] / n_low[both]
    p_permutation = None
    if method == "permutation":
        p_permutation = _permutation_pvalue(
            n_low[informative], n_high[informative], (low + high)[informative], abs(surplus)
        )
    p_asymptotic = float(two_sided(z))
    return StratifiedResult(
        "cmh",
        p_asymptotic if p_permutation is None else p_permutation,
        z,
        effect=float(pair @ difference / pair.sum()),
        p_asymptotic=p_asymptotic,
        p_permutation=p_permutation,
        method=method,
        n_strata=contingency.n_bins,
        n_informative=int(informative.sum()),
        matching=contingency.matching,
        notes=matching_notes(contingency.n_bins),
    )
