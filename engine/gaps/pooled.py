"""Effects of many runs put together: runs on the same test images are correlated, cells of runs differ truly.

The primary test's effect is a sum over samples (`trend_test`), so two runs that saw the same images have effects whose
covariance is a sum over images (clustered variance; Liang & Zeger 1986). What chance gives over many runs, in counts of
rejections, sorted p-values and agreeing signs, is drawn from normal scores with that correlation.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from engine.core import validation
from engine.core.binning import equal_mass_bins
from engine.core.errors import InvalidInput
from engine.core.types import FloatArray
from engine.gaps.bound import EffectBound, effect_bound
from engine.gaps.settings import primary_bins
from engine.gaps.shape import cluster_sums
from engine.gaps.statistics.trend import TrendDesign
from engine.gaps.stratified import two_sided

N_DRAWS = 10_000


def trend_scores(
    confidence: ArrayLike, correct: ArrayLike, rho: ArrayLike, *, clusters: ArrayLike | None = None
) -> FloatArray:
    """(n,) what each sample, or cluster of them, contributes to the error of the primary test's effect, of length one.

    (R_i - mean_b R) e_i, where e_i is the residual of correctness from the within-bin regression on rank: the scores of
    that least-squares slope. For two runs on the same samples in the same order the product of these vectors is the
    correlation of their effects. All zero where nothing varies.
    """
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    n_bins = primary_bins(checked_rho.size)
    design = TrendDesign.of(equal_mass_bins(checked_confidence, n_bins), checked_rho, n_bins)
    means = np.bincount(design.bins[checked_correct], minlength=n_bins) / np.maximum(design.sizes, 1)
    residuals = checked_correct - means[design.bins]
    slope = float(design.scores @ residuals) / max(float(design.squares.sum()), np.finfo(float).tiny)
    scores = design.scores * (residuals - slope * design.scores)
    if clusters is not None:
        scores = cluster_sums(scores[:, None], validation.clusters(clusters, scores.size))[:, 0]
    return scores / max(float(np.linalg.norm(scores)), np.finfo(float).tiny)


@dataclass(frozen=True)
class PooledEffect:
    """A mean of n effects.

    q, tau2, i2 : heterogeneity of random effects, Cochran's Q, the variance between true effects, and the share of Q
    that chance does not explain; None where a plain mean was taken.
    """

    effect: float
    standard_error: float
    n: int
    q: float | None = None
    tau2: float | None = None
    i2: float | None = None

    @property
    def bound(self) -> EffectBound:
        """Its 95 % interval, and what two one-sided tests at 5 % exclude."""
        return effect_bound(self.effect, self.standard_error)

    @property
    def p_value(self) -> float:
        return float(two_sided(self.effect / self.standard_error))


def _checked(effects: ArrayLike, covariance: ArrayLike) -> tuple[FloatArray, FloatArray]:
    values = validation.vector("effects", effects).astype(np.float64)
    matrix = validation.matrix("covariance", covariance).astype(np.float64)
    if matrix.shape != (values.size, values.size):
        raise InvalidInput("covariance", f"shape {(values.size, values.size)}, as effects", f"shape {matrix.shape}")
    if not (np.diag(matrix) > 0).all() or not np.allclose(matrix, matrix.T, rtol=1e-6, atol=0):
        raise InvalidInput("covariance", "a symmetric matrix with positive variances", validation.shown(matrix))
    return values, matrix


def pool_seeds(effects: ArrayLike, covariance: ArrayLike) -> PooledEffect:
    """The plain mean of m effects, as of the seeds of a cell, with variance 1'V1 / m^2."""
    values, matrix = _checked(effects, covariance)
    return PooledEffect(float(values.mean()), float(np.sqrt(matrix.sum())) / values.size, values.size)


def pool_cells(effects: ArrayLike, covariance: ArrayLike) -> PooledEffect:
    """Random effects (DerSimonian & Laird 1986) of k cells whose estimates have a covariance V.

    With w = 1 / diag V: Q = sum w (y - y_w)^2 has mean k - w'Vw / sum w when all true effects are equal, and tau2 is
    what it has beyond that over sum w - sum w^2 / sum w. The mean has weights 1 / (v + tau2) and variance
    w'(V + tau2 I)w / (sum w)^2. For a diagonal V this is the usual estimator; a single cell is a plain mean.
    """
    values, matrix = _checked(effects, covariance)
    if values.size == 1:
        return pool_seeds(values, matrix)
    variances = np.diag(matrix)
    weights = 1 / variances
    total = weights.sum()
    q = float(weights @ (values - weights @ values / total) ** 2)
    by_chance = values.size - weights @ matrix @ weights / total
    tau2 = max(0.0, float((q - by_chance) / (total - weights @ weights / total)))
    weights = 1 / (variances + tau2)
    total = weights.sum()
    variance = (weights @ matrix @ weights + tau2 * weights @ weights) / total**2
    i2 = max(0.0, 1 - by_chance / q) if q > 0 else 0.0
    return PooledEffect(float(weights @ values / total), float(np.sqrt(variance)), values.size, q, tau2, float(i2))


def null_scores(correlation: ArrayLike, *, n_draws: int = N_DRAWS, seed: int = 42) -> FloatArray:
    """(n_draws, m) normal scores of m tests with this correlation where nothing is there."""
    matrix = validation.matrix("correlation", correlation).astype(np.float64)
    if matrix.shape[0] != matrix.shape[1] or not np.allclose(np.diag(matrix), 1, atol=1e-3):
        raise InvalidInput("correlation", "a square matrix with ones on its diagonal", validation.shown(matrix))
    validation.draws("n_draws", n_draws, width=len(matrix))
    values, vectors = np.linalg.eigh(matrix)
    independent = np.random.default_rng(validation.seed(seed)).standard_normal((n_draws, len(matrix)))
    return (independent * np.sqrt(values.clip(0))) @ vectors.T


def rejections_by_chance(scores: FloatArray, alpha: float = 0.05, level: float = 0.95) -> tuple[int, int]:
    """Central range of the number of rejections at level alpha among the tests whose `null_scores` these are."""
    validation.fraction("alpha", alpha)
    tail = (1 - validation.fraction("level", level)) / 2
    counts = (np.abs(scores) >= ndtri(1 - alpha / 2)).sum(axis=1)
    low, high = np.quantile(counts, [tail, 1 - tail], method="inverted_cdf")
    return int(low), int(high)


def agreement_by_chance(scores: FloatArray) -> float:
    """P(all signs equal) of the tests whose `null_scores` these are; 2^(1 - m) for m independent ones."""
    positive = (scores > 0).sum(axis=1)
    return float(((positive == 0) | (positive == scores.shape[1])).mean())


def sorted_band(scores: FloatArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """(m,) low and high: a band that holds all m sorted p-values at once with this probability by chance.

    At every rank it leaves out the same share of the draws, as large as the joint level allows.
    """
    validation.fraction("level", level)
    ordered = np.sort(two_sided(scores), axis=1)
    n_draws = len(ordered)
    order = np.argsort(ordered, axis=0)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(n_draws)[:, None], axis=0)
    extreme = np.minimum(place, n_draws - 1 - place).min(axis=1)
    cut = int(np.quantile(extreme, 1 - level, method="lower"))
    low, high = (np.take_along_axis(ordered, order[[end]], axis=0)[0] for end in (cut, n_draws - 1 - cut))
    return low, high
