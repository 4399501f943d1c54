"""Mantel's trend: correctness against the rank of rho, all samples, inside confidence bins."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from engine.core import validation
from engine.core.binning import Matching, confidence_bins
from engine.core.contingency import Contingency
from engine.core.errors import InvalidInput
from engine.core.pvalues import monte_carlo_pvalue
from engine.core.types import BoolArray, FloatArray, IntArray, Progress
from engine.gaps.settings import TestSettings, primary_bins
from engine.gaps.statistics.base import Method, Partition, Permuted, Samples, Standardised
from engine.gaps.stratified import PValueMethod, StratifiedResult, check_method, matching_notes, two_sided, untestable

_SHUFFLE_ELEMENTS = 4_000_000


@dataclass(frozen=True, eq=False)
class TrendDesign:
    """What the trend statistic keeps fixed: bins and centred global ranks of rho.

    scores : (n,) rank of rho among all samples minus its mean in the bin; squares : (n_bins,) their sums of squares.
    """

    bins: IntArray
    sizes: IntArray
    scores: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, bins: IntArray, rho: FloatArray, n_bins: int) -> TrendDesign:
        ranks = rankdata(rho)
        sizes = np.bincount(bins, minlength=n_bins)
        means = np.bincount(bins, weights=ranks, minlength=n_bins) / np.maximum(sizes, 1)
        scores = ranks - means[bins]
        # Equal ranks minus their mean may leave rounding dust, which must not count as variation.
        scores[np.abs(scores) < 1e-9 * rho.size] = 0.0
        return cls(bins, sizes, scores, np.bincount(bins, weights=scores**2, minlength=n_bins).astype(float))

    def variance(self, n_correct: FloatArray | IntArray) -> FloatArray:
        """(..., n_bins) permutation variance squares_b k_b (n_b - k_b) / (n_b (n_b - 1)) for k_b correct in bin b."""
        n = np.maximum(self.sizes, 2).astype(float)
        return self.squares * (n_correct / n) * ((self.sizes - n_correct) / (n - 1))

    def reach(self) -> float:
        """Distance in rank between the upper and the lower third of a bin by rho, averaged over samples.

        sum_b n_b (mean score of the upper third of bin b - that of the lower third) / n, where a third is n_b / 3
        samples, one of them in part. About 2n/3 where rho is independent of confidence, and less the more rho follows
        it: between samples of similar confidence there is then only so much distance, and an effect over 2n/3 ranks
        would be an extrapolation.
        """
        order = np.lexsort((self.scores, self.bins))
        size = self.sizes[self.bins[order]]
        place = np.arange(order.size) - (np.cumsum(self.sizes) - self.sizes)[self.bins[order]]
        # How much of each sample belongs to either third; the weights of a third add up to n_b / 3.
        lower, upper = (size / 3 - place).clip(0, 1), (place + 1 - 2 * size / 3).clip(0, 1)
        return float(3 * (upper - lower) @ self.scores[order] / order.size)


class Trend(Standardised):
    """|change of accuracy from the low to the high third|, as the slope on the rank of rho has it (`trend_test`).

    It uses every sample, so its null is simulated by shuffling samples. In tables and controls the p-value is the
    normal one. Thirds of rho and minimum support do not matter to it.
    """

    name = "trend"
    label = "trend"
    quantity = "change from the low to the high third"
    methods = ("shuffle",)
    fine = True

    def permute(
        self,
        contingency: Contingency,
        samples: Samples | None,
        min_support: int,  # noqa: ARG002
        method: Method,  # noqa: ARG002
        n_permutations: int,
        seed: int,
        progress: Progress | None,
    ) -> Permuted | None:
        if samples is None:
            raise InvalidInput("statistic", "a statistic of counts", f"{self.name!r}, which needs the samples")
        confidence, correct, rho = samples
        bins = confidence_bins(confidence, contingency.n_bins, contingency.matching)
        design = TrendDesign.of(bins, rho, contingency.n_bins)
        if not (design.variance(np.bincount(bins[correct], minlength=contingency.n_bins)) > 0).any():
            return None
        observed = abs(float(design.scores @ correct))
        draws = np.abs(_permuted_statistics(design, correct, n_permutations, seed, progress))
        scale = design.reach() / float(design.squares.sum())
        return Permuted(observed * scale, monte_carlo_pvalue(observed, draws), draws=draws * scale)

    def p_value(self, samples: Samples, n_bins: int, matching: Matching, settings: TestSettings) -> float | None:  # noqa: ARG002
        return trend_test(*samples, n_bins=n_bins, matching=matching).p_value

    def summarise(self, partition: Partition, outcomes: BoolArray, hits: FloatArray) -> FloatArray:
        if self.name not in partition.prepared:
            partition.prepared[self.name] = TrendDesign.of(partition.bins, partition.rho, partition.sizes.shape[1])
        design: TrendDesign = partition.prepared[self.name]
        statistic = outcomes.astype(np.float32) @ design.scores.astype(np.float32)
        return np.column_stack([statistic, design.variance(hits.sum(axis=1)).sum(axis=1)])


def _permuted_statistics(
    design: TrendDesign, correct: BoolArray, n_permutations: int, seed: int, progress: Progress | None = None
) -> FloatArray:
    """(P,) the statistic of permutations: in each bin the rarer outcome falls on a random subset of the scores."""
    rng = np.random.default_rng(seed)
    order = np.argsort(design.bins, kind="stable")
    ends = np.cumsum(design.sizes)
    n_correct = np.bincount(design.bins[correct], minlength=design.sizes.size)
    totals, done = np.zeros(n_permutations), 0
    for size, end, k in zip(design.sizes.tolist(), ends.tolist(), n_correct.tolist(), strict=True):
        rarer = min(k, size - k)
        if rarer == 0:
            continue
        scores = design.scores[order[end - size : end]]
        sign = 1.0 if rarer == k else -1.0  # scores sum to zero in a bin
        rows = max(1, _SHUFFLE_ELEMENTS // size)
        for start in range(0, n_permutations, rows):
            stop = min(start + rows, n_permutations)
            totals[start:stop] += sign * _subset_sums(rng, scores, rarer, stop - start)
        done += size
        if progress is not None:
            progress(done / correct.size, "shuffling")
    return totals


def _subset_sums(rng: np.random.Generator, scores: FloatArray, size: int, n_draws: int) -> FloatArray:
    """Sums of random subsets without replacement: the first steps of a Fisher-Yates shuffle, all draws at once."""
    pool = np.tile(scores, (n_draws, 1))
    draws = np.arange(n_draws)
    sums = np.zeros(n_draws)
    for step in range(size):
        pick = rng.integers(step, scores.size, n_draws)
        sums += pool[draws, pick]
        pool[draws, pick] = pool[:, step]
    return sums


def trend_test(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    n_bins: int | None = None,
    matching: Matching = "equal_mass",
    method: PValueMethod = "asymptotic",
    n_permutations: int = 5000,
    seed: int = 42,
    clusters: ArrayLike | None = None,
) -> StratifiedResult:
    """Mantel's trend: does correctness rise or fall with the global rank of rho inside confidence bins?

    T = sum_b sum_{i in b} (R_i - mean_b R) t_i, with permutation variance sum_b S_b k_b (n_b - k_b) / (n_b (n_b - 1)),
    S_b = sum_{i in b} (R_i - mean_b R)^2; z = T / sqrt(V), two-sided (Mantel 1963). All samples are used. The effect
    is the within-bin least-squares slope of correctness on rank, T / sum_b S_b, times the distance between the outer
    thirds of a bin (`TrendDesign.reach`): the change of accuracy from the low to the high third of samples of similar
    confidence. `n_bins` None means the primary bins (`primary_bins`). Samples of equal confidence go to equal-mass bins
    in their given order.

    clusters : (n,) the source that samples share (tokens of one sequence); the variance is then that of sums over
    clusters, V = sum_c (sum_{i in c} (R_i - mean_b R) (t_i - mean_b t))^2, and there is no permutation p-value.
    """
    check_method(method)
    if clusters is not None and method == "permutation":
        raise InvalidInput("method", "'asymptotic' where there are clusters", repr(method))
    validation.draws("n_permutations", n_permutations)
    validation.seed(seed)
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    n = checked_confidence.size
    bins = primary_bins(n) if n_bins is None else n_bins
    design = TrendDesign.of(confidence_bins(checked_confidence, bins, matching), checked_rho, bins)
    n_correct = np.bincount(design.bins[checked_correct], minlength=bins)
    variance = design.variance(n_correct)
    if not (variance > 0).any():
        return untestable("trend", method, bins, matching)
    statistic = float(design.scores @ checked_correct)
    total = float(variance.sum())
    if clusters is not None:
        residual = design.scores * (checked_correct - (n_correct / np.maximum(design.sizes, 1))[design.bins])
        total = float(np.square(np.bincount(validation.clusters(clusters, n), weights=residual)).sum())
        if total <= 0:
            return untestable("trend", method, bins, matching)
    z = statistic / math.sqrt(total)
    scale = design.reach() / float(design.squares.sum())
    p_asymptotic = float(two_sided(z))
    p_permutation = None
    if method == "permutation":
        draws = _permuted_statistics(design, checked_correct, n_permutations, seed)
        p_permutation = monte_carlo_pvalue(abs(statistic), np.abs(draws))
    return StratifiedResult(
        "trend",
        p_asymptotic if p_permutation is None else p_permutation,
        z,
        effect=statistic * scale,
        p_asymptotic=p_asymptotic,
        p_permutation=p_permutation,
        method=method,
        n_strata=bins,
        n_informative=int((variance > 0).sum()),
        matching=matching,
        notes=matching_notes(bins),
        standard_error=math.sqrt(total) * scale,
    )


def match_diagnostic(
    confidence: ArrayLike, rho: ArrayLike, *, n_bins: int | None = None, matching: Matching = "equal_mass"
) -> float | None:
    """Within-bin rank correlation of rho with confidence: what the bins failed to match away.

    Pearson correlation of the two global ranks after removing each bin's mean; None when either does not vary inside
    any bin. Near zero is good; far from zero, a test on these bins may mistake confidence for rho.
    """
    checked_confidence = validation.confidence(confidence)
    checked_rho = validation.vector("rho", rho, checked_confidence.size)
    bins = primary_bins(checked_confidence.size) if n_bins is None else n_bins
    index = confidence_bins(checked_confidence, bins, matching)
    by_rho = TrendDesign.of(index, checked_rho, bins)
    by_confidence = TrendDesign.of(index, checked_confidence, bins)
    scale = math.sqrt(by_rho.squares.sum() * by_confidence.squares.sum())
    if scale == 0:
        return None
    return float(by_rho.scores @ by_confidence.scores / scale)
