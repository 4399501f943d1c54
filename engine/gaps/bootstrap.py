"""How far the gaps move when the samples are drawn again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.binning import N_BINS, TERTILE_QUANTILES, Matching
from engine.core.contingency import Contingency, tabulate
from engine.core.types import FloatArray
from engine.gaps.gap import GapResult, gap_of_counts
from engine.gaps.multinomial import draw_multinomial
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
    max_gaps: FloatArray
    weighted_gaps: FloatArray
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
    """The bootstrap of counts that were tabulated in numpy or in SQL."""
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
