"""Cochran-Mantel-Haenszel: low against high tertile, one 2 x 2 table per confidence bin."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.binning import TERTILE_QUANTILES, Matching
from engine.core.contingency import Contingency, tabulate
from engine.core.types import FloatArray, IntArray
from engine.gaps.exact import TAIL, bin_null
from engine.gaps.settings import audited_bins
from engine.gaps.stratified import PValueMethod, StratifiedResult, check_method, matching_notes, two_sided, untestable


def cmh_moments(n_low: IntArray, n_high: IntArray, k: IntArray | FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the low tertile's correct count given the margins of each 2 x 2 table.

    E = n_low k / n, V = n_low n_high k (n - k) / (n^2 (n - 1)), n = n_low + n_high; tables with n < 2 have V = 0.
    """
    n = (n_low + n_high).astype(float)
    safe = np.maximum(n, 2)
    mean = n_low * k / np.maximum(n, 1)
    return mean, n_low * n_high * (k / safe) * ((n - k) / safe) / (safe - 1)


def _permutation_pvalue(n_low: IntArray, n_high: IntArray, k: IntArray, distance: float) -> float:
    """P(|sum of low counts - its mean| >= distance), the sum of independent hypergeometrics convolved exactly."""
    pmf, first, mean = np.ones(1), 0, 0.0
    for low, high, marked in zip(n_low.tolist(), n_high.tolist(), k.tolist(), strict=True):
        null = bin_null((low, 0, high), marked, TAIL)
        pmf = np.convolve(pmf, null.probability.sum(axis=1))
        first += int(null.low[0])
        mean += low * marked / (low + high)
    away = np.abs(first + np.arange(pmf.size) - mean) >= distance - 1e-9
    return float(min(1.0, max(pmf[away].sum(), math.exp(-TAIL))))


def cmh_test_of_counts(contingency: Contingency, *, method: PValueMethod = "asymptotic") -> StratifiedResult:
    """Cochran-Mantel-Haenszel test of counts that were tabulated in numpy or in SQL."""
    check_method(method)
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
    means the audited bins (`audited_bins`).
    """
    check_method(method)
    bins = audited_bins(validation.confidence(confidence).size) if n_bins is None else n_bins
    contingency = tabulate(confidence, correct, rho, n_bins=bins, matching=matching, quantiles=quantiles)
    return cmh_test_of_counts(contingency, method=method)
