"""Could the matched-confidence gap be chance? One null, three ways to it, one result."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.binning import N_BINS, TERTILE_QUANTILES, Matching
from engine.core.contingency import Contingency, tabulate
from engine.core.types import FloatArray, IntArray, Progress
from engine.gaps.exact import NullDistribution
from engine.gaps.gap import GapResult, gap_of_counts
from engine.gaps.settings import MIN_SUPPORT
from engine.gaps.statistics import STATISTICS
from engine.gaps.statistics.base import N_PERMUTATIONS, SEED, Method, Samples, displayed_nulls
from engine.gaps.stratified import NOTHING_TO_TEST


@dataclass(frozen=True, eq=False)
class NullBand:
    """Percentiles (2.5, 50, 97.5) of the null in each shared bin: the grey band.

    bins : (n_shared,) bin numbers from 1; gap : (n_shared, 3) of |acc_low - acc_high|;
    accuracy_low, accuracy_high : (n_shared, 3) of each outer tertile's accuracy.
    """

    bins: IntArray
    gap: FloatArray
    accuracy_low: FloatArray
    accuracy_high: FloatArray


@dataclass(frozen=True, eq=False)
class PermutationResult:
    """A statistic, its p-value under within-bin permutation of rho, and the null it was held against.

    `p_value` is None, with the `reason`, when the data cannot move the statistic. `p_error` bounds how much too large
    an exact p-value may be (zero for the max gap). `draws` holds the simulated values, None for the exact method.
    """

    gap: GapResult
    statistic: str
    method: Method
    observed: float | None
    p_value: float | None
    p_error: float
    n_permutations: int
    seed: int
    draws: FloatArray | None

    @property
    def reason(self) -> str:
        """Why there is no p-value."""
        return self.gap.notes[-1] if self.gap.notes else NOTHING_TO_TEST

    @cached_property
    def null(self) -> NullDistribution | None:
        """The null distribution of the statistic; simulated methods give that of their draws."""
        if self.p_value is None:
            return None
        if self.draws is not None:
            return NullDistribution(np.sort(self.draws), np.arange(1, self.draws.size + 1) / self.draws.size)
        return STATISTICS[self.statistic].null(self.gap.contingency, self.gap.min_support)

    @cached_property
    def band(self) -> NullBand:
        """The null in each shared bin, from the closed form whatever the method."""
        gap, low, high = [], [], []
        table, shared = self.gap.contingency, self.gap.shared
        for null in displayed_nulls(table.sizes[shared], table.n_correct[shared]):
            gap.append(NullDistribution(*null.gap_distribution()).percentiles)
            by_low, by_high = null.probability.sum(axis=1), null.probability.sum(axis=0)
            low.append(NullDistribution(null.low / null.n_low, np.cumsum(by_low)).percentiles)
            high.append(NullDistribution(null.high / null.n_high, np.cumsum(by_high)).percentiles)
        shape = (len(gap), 3)
        return NullBand(
            np.flatnonzero(shared) + 1,
            np.array(gap).reshape(shape),
            np.array(low).reshape(shape),
            np.array(high).reshape(shape),
        )


def permutation_test_of_counts(
    contingency: Contingency,
    *,
    statistic: str = "max_gap",
    method: Method = "exact",
    n_permutations: int = N_PERMUTATIONS,
    seed: int = SEED,
    min_support: int = MIN_SUPPORT,
    samples: Samples | None = None,
    progress: Progress | None = None,
) -> PermutationResult:
    """The permutation test of counts; a statistic that looks at every sample also needs those that were counted."""
    validation.choice("statistic", statistic, STATISTICS)
    validation.choice("method", method, STATISTICS[statistic].methods)
    validation.draws("n_permutations", n_permutations)
    validation.seed(seed)
    gap = gap_of_counts(contingency, min_support)
    found = STATISTICS[statistic].permute(contingency, samples, min_support, method, n_permutations, seed, progress)
    if found is None:
        return PermutationResult(gap, statistic, method, None, None, 0.0, n_permutations, seed, None)
    return PermutationResult(
        gap, statistic, method, found.observed, found.p_value, found.p_error, n_permutations, seed, found.draws
    )


def permutation_test(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    statistic: str = "max_gap",
    method: Method = "exact",
    n_permutations: int = N_PERMUTATIONS,
    seed: int = SEED,
    n_bins: int = N_BINS,
    min_support: int = MIN_SUPPORT,
    matching: Matching = "equal_width",
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
    progress: Progress | None = None,
) -> PermutationResult:
    """Test a statistic against permutations of rho inside confidence bins (protocol, section 4).

    statistic : one of `engine.gaps.statistics.STATISTICS`.
    method : one that the statistic has: "exact" (closed form), "hypergeometric" (Monte Carlo on counts,
        p = (1 + hits) / (1 + P)) or "shuffle" (Monte Carlo on samples, the paper's own procedure). `n_permutations` and
        `seed` matter to the last two, only the last one takes long enough to report `progress`.
    """
    samples = validation.samples(confidence, correct, rho)
    return permutation_test_of_counts(
        tabulate(*samples, n_bins=n_bins, matching=matching, quantiles=quantiles),
        statistic=statistic,
        method=method,
        n_permutations=n_permutations,
        seed=seed,
        min_support=min_support,
        samples=samples,
        progress=progress,
    )
