"""What a test statistic is, and what all statistics of counts share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from engine.core import validation
from engine.core.binning import Matching
from engine.core.contingency import Contingency, tabulate
from engine.core.pvalues import monte_carlo_pvalue
from engine.core.types import BoolArray, FloatArray, IntArray, Progress
from engine.gaps.exact import DISPLAY, BinNull, NullDistribution, bin_null
from engine.gaps.gap import shared_bins
from engine.gaps.settings import TestSettings
from engine.gaps.stratified import two_sided

Method = Literal["exact", "hypergeometric", "shuffle"]
Samples = tuple[FloatArray, BoolArray, FloatArray]
"""Confidence, correctness and rho, checked."""
N_PERMUTATIONS = 5000
SEED = 42
_BATCH_DRAWS = 199
_SHUFFLE_ELEMENTS = 2_000_000


@dataclass(frozen=True, eq=False)
class Permuted:
    """The observed value of a statistic and how permutation of rho inside bins places it.

    p_error : how much too large an exact p-value may be. draws : the simulated values, None for the exact method.
    """

    observed: float
    p_value: float
    p_error: float = 0.0
    draws: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Partition:
    """What stays while outcomes of a run are simulated: the confidence bins, and rho with its thirds.

    bins, rho : (n,) in the order of the outcomes. sizes : (3, n_bins) samples by third of rho and bin.
    shared : (n_bins,) bins with enough samples of both outer thirds.
    """

    bins: IntArray
    rho: FloatArray
    sizes: IntArray
    shared: BoolArray

    @cached_property
    def prepared(self) -> dict[str, Any]:
        """What statistics have worked out for it and need for every batch, by their names."""
        return {}


class Statistic(ABC):
    """One measure of how accuracy depends on rho at matched confidence; larger means further from "not at all".

    A class with a `name` is registered. label : in tables and choices. quantity : what the observed value is, in
    sentences and on axes; it is in units of accuracy. methods : the nulls that it has, the preferred one first.
    fine : whether it is also tried over the primary test's many equal-mass bins.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    quantity: ClassVar[str]
    methods: ClassVar[tuple[Method, ...]]
    fine: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):  # a shared base class has none
            REGISTERED.append(cls)

    @abstractmethod
    def permute(
        self,
        contingency: Contingency,
        samples: Samples | None,
        min_support: int,
        method: Method,
        n_permutations: int,
        seed: int,
        progress: Progress | None,
    ) -> Permuted | None:
        """The observed value against its null; None if the data cannot move the statistic.

        samples : what was tabulated, None where only the counts are known.
        """

    def null(self, contingency: Contingency, min_support: int) -> NullDistribution:
        """The exact null distribution; for statistics that have the method "exact"."""
        raise NotImplementedError(f"{self.name} has no exact null")

    def p_value(self, samples: Samples, n_bins: int, matching: Matching, settings: TestSettings) -> float | None:
        """The p-value of one run, by the preferred method; None if it cannot be tested."""
        contingency = tabulate(*samples, n_bins=n_bins, matching=matching, quantiles=settings.quantiles)
        found = self.permute(
            contingency, samples, settings.min_support, self.methods[0], N_PERMUTATIONS, SEED, progress=None
        )
        return None if found is None else found.p_value

    @abstractmethod
    def summary_width(self, partition: Partition) -> int:
        """Values that `summarise` returns of one outcome."""

    @abstractmethod
    def summarise(self, partition: Partition, outcomes: BoolArray, hits: FloatArray) -> FloatArray:
        """(R, d) all that the statistic needs of (R, n) simulated outcomes; hits : (R, 3, n_bins) their counts."""

    @abstractmethod
    def batch_pvalues(self, partition: Partition, summary: FloatArray) -> FloatArray:
        """(R,) p-values of summarised outcomes; missing (NaN) where an outcome cannot be tested."""


REGISTERED: list[type[Statistic]] = []
"""Every statistic whose module was imported."""


class CountStatistic(Statistic):
    """A statistic of the correct counts of the outer thirds by bin. `value` is all that one has to give.

    Without more, its nulls are simulated, those of the controls with 199 draws for each simulated outcome.
    """

    methods: ClassVar[tuple[Method, ...]] = ("hypergeometric", "shuffle")

    @abstractmethod
    def value(self, sizes: IntArray, low: IntArray, high: IntArray) -> FloatArray:
        """(R,) the statistic of R tables; sizes : (n_strata, 3); low, high : (R, n_strata) correct counts."""

    def strata(self, contingency: Contingency, min_support: int) -> tuple[IntArray, IntArray]:
        """Sizes and correct counts of the thirds, (n_strata, 3) each, in the bins that count: the shared ones."""
        shared = shared_bins(contingency, min_support)
        return contingency.sizes[shared], contingency.n_correct[shared]

    def exact(self, sizes: IntArray, hits: IntArray) -> tuple[float, float]:
        """The exact p-value and how much too large it may be; for statistics that have the method "exact"."""
        raise NotImplementedError(f"{self.name} has no exact null")

    def permute(
        self,
        contingency: Contingency,
        samples: Samples | None,  # noqa: ARG002
        min_support: int,
        method: Method,
        n_permutations: int,
        seed: int,
        progress: Progress | None,
    ) -> Permuted | None:
        sizes, hits = self.strata(contingency, min_support)
        if len(sizes) == 0:
            return None
        observed = float(self.value(sizes, hits[None, :, 0], hits[None, :, 2])[0])
        if method == "exact":
            return Permuted(observed, *self.exact(sizes, hits))
        validation.draws("n_permutations", n_permutations, width=2 * len(sizes))
        totals = hits.sum(axis=1)
        low, high = (
            draw_shuffles(sizes, totals, n_permutations, seed, progress)
            if method == "shuffle"
            else draw_hypergeometric(sizes, totals, n_permutations, seed)
        )
        draws = self.value(sizes, low, high)
        return Permuted(observed, monte_carlo_pvalue(observed, draws), draws=draws)

    def summary_width(self, partition: Partition) -> int:
        return 3 * int(partition.shared.sum())

    def summarise(self, partition: Partition, outcomes: BoolArray, hits: FloatArray) -> FloatArray:
        """The correct counts of the shared bins, third by third."""
        return hits[:, :, partition.shared].reshape(len(outcomes), -1)

    def batch_pvalues(self, partition: Partition, summary: FloatArray) -> FloatArray:
        if not partition.shared.any():
            return np.full(len(summary), np.nan)
        return self.shared_pvalues(
            partition.sizes[:, partition.shared], summary.astype(np.int64).reshape(len(summary), 3, -1)
        )

    def shared_pvalues(self, sizes: IntArray, hits: IntArray) -> FloatArray:
        """(R,) p-values of (R, 3, n_shared) correct counts; sizes : (3, n_shared)."""
        n_low, n_mid, n_high = sizes
        observed = self.value(sizes.T, hits[:, 0], hits[:, 2])
        rng = np.random.default_rng(SEED)
        p_values = np.empty(len(hits))
        for row, totals in enumerate(hits.sum(axis=1)):
            low = rng.hypergeometric(n_low, n_mid + n_high, totals, (_BATCH_DRAWS, totals.size))
            high = rng.hypergeometric(n_high, n_mid, totals - low)
            p_values[row] = monte_carlo_pvalue(observed[row], self.value(sizes.T, low, high))
        return p_values


class Standardised(Statistic):
    """A statistic with a known null variance: summaries are (statistic, variance), p-values two-sided normal."""

    def summary_width(self, partition: Partition) -> int:  # noqa: ARG002
        return 2

    def batch_pvalues(self, partition: Partition, summary: FloatArray) -> FloatArray:  # noqa: ARG002
        statistic, variance = summary.T
        z = np.divide(statistic, np.sqrt(variance), out=np.full(len(summary), np.nan), where=variance > 0)
        return two_sided(z)


def displayed_nulls(sizes: IntArray, hits: IntArray) -> list[BinNull]:
    """The null of each bin, as far out as figures show it."""
    totals = hits.sum(axis=1)
    return [bin_null(size, k, DISPLAY) for size, k in zip(sizes.tolist(), totals.tolist(), strict=True)]


def draw_hypergeometric(
    sizes: IntArray, n_correct: IntArray, n_permutations: int, seed: int
) -> tuple[IntArray, IntArray]:
    """(P, n_shared) correct counts of the low and the high tertile, drawn from the hypergeometric null.

    Sizes and totals are the same for every draw, so one cumulative table of the joint counts of a bin serves them all.
    """
    rng = np.random.default_rng(seed)
    low = np.empty((n_permutations, len(sizes)), dtype=np.int64)
    high = np.empty_like(low)
    for b, (size, k) in enumerate(zip(sizes.tolist(), n_correct.tolist(), strict=True)):
        null = bin_null(size, k)
        cumulative = np.cumsum(null.probability)
        cell = np.searchsorted(cumulative[:-1], rng.random(n_permutations) * cumulative[-1], side="right")
        row, column = np.divmod(cell, null.high.size)
        low[:, b], high[:, b] = null.low[0] + row, null.high[0] + column
    return low, high


def draw_shuffles(
    sizes: IntArray, n_correct: IntArray, n_permutations: int, seed: int, progress: Progress | None = None
) -> tuple[IntArray, IntArray]:
    """The same counts by permuting samples inside each bin, as the paper does; the reference for the other two."""
    done, n_samples = 0, int(sizes.sum())
    rng = np.random.default_rng(seed)
    low = np.empty((n_permutations, len(sizes)), dtype=np.int64)
    high = np.empty_like(low)
    for b, ((n_low, n_mid, n_high), k) in enumerate(zip(sizes.tolist(), n_correct.tolist(), strict=True)):
        samples = np.zeros(n_low + n_mid + n_high, dtype=np.int8)
        samples[:k] = 1
        rows = max(1, _SHUFFLE_ELEMENTS // samples.size)
        for start in range(0, n_permutations, rows):
            stop = min(start + rows, n_permutations)
            shuffled = rng.permuted(np.broadcast_to(samples, (stop - start, samples.size)), axis=1)
            low[start:stop, b] = shuffled[:, :n_low].sum(axis=1, dtype=np.int64)
            high[start:stop, b] = shuffled[:, n_low : n_low + n_high].sum(axis=1, dtype=np.int64)
            done += shuffled.size
            if progress is not None:
                progress(done / (n_permutations * n_samples), "shuffling")
    return low, high
