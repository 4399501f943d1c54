"""The weighted gap as a stratified test."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from engine.core import validation
from engine.core.binning import TERTILE_QUANTILES, Matching
from engine.core.contingency import tabulate
from engine.gaps.exact import DISPLAY, bin_null, gap_moments, weighted_gap_pvalue, weighted_numerator
from engine.gaps.gap import gap_of_counts
from engine.gaps.settings import MIN_SUPPORT, audited_bins
from engine.gaps.stratified import SMALLEST_P, PValueMethod, StratifiedResult, check_method, matching_notes, untestable


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
    None means the audited bins (`audited_bins`).
    """
    check_method(method)
    bins = audited_bins(validation.confidence(confidence).size) if n_bins is None else n_bins
    contingency = tabulate(confidence, correct, rho, n_bins=bins, matching=matching, quantiles=quantiles)
    gap = gap_of_counts(contingency, min_support)
    if gap.weighted_gap is None or gap.signed_gap is None:
        return StratifiedResult("weighted_gap", None, None, None, None, None, method, bins, 0, matching, gap.notes)
    sizes, hits = contingency.sizes[gap.shared], contingency.n_correct[gap.shared]
    totals = hits.sum(axis=1)
    nulls = [bin_null(size, k, DISPLAY) for size, k in zip(sizes.tolist(), totals.tolist(), strict=True)]
    moments = np.array([gap_moments(null) for null in nulls])
    spread = float(np.sqrt(gap.weights**2 @ moments[:, 1]))
    if spread == 0:
        return untestable("weighted_gap", method, bins, matching)
    z = (gap.weighted_gap * float(gap.weights.sum()) - float(gap.weights @ moments[:, 0])) / spread
    p_asymptotic = max(float(ndtr(-z)), SMALLEST_P)
    p_permutation, notes = None, (*gap.notes, *matching_notes(bins))
    if method == "permutation":
        p_permutation, error = weighted_gap_pvalue(sizes, totals, weighted_numerator(sizes, hits))
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
