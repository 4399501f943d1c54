"""The effect that the primary test and the ladder speak of, decile by decile of the feature: a trend and its shape."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import rankdata

from engine.core import validation
from engine.core.binning import LEVEL, equal_mass_bins
from engine.core.errors import InvalidInput
from engine.core.types import FloatArray, IntArray
from engine.gaps.ladder import LABELS, Rung, ladder_fit, rung_of
from engine.gaps.settings import primary_bins
from engine.gaps.shape import cluster_sums
from engine.gaps.statistics.trend import TrendDesign, trend_test
from engine.gaps.stratified import StratifiedResult

MOST_GROUPS = 100
_DRAWS = 20_000
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class DecileEffect:
    """Accuracy minus what the rung's conditioning set predicts, by group of the feature; NaN where a group is empty.

    values, low, high, fitted : (G,) the difference, its simultaneous null band, the fitted trend. counts : (G,).
    test : of the rung: its effect is the change from the low to the high third.
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray
    fitted: FloatArray
    counts: IntArray
    test: StratifiedResult | Rung
    rung: int
    n_bins: int
    level: float
    seed: int

    @property
    def n_outside(self) -> int:
        """Groups outside the band, by more than rounding."""
        return int(((self.values < self.low - _ROUNDING) | (self.values > self.high + _ROUNDING)).sum())


def _groups(values: FloatArray, bins: IntArray, n_groups: int) -> IntArray:
    """(n,) which of n_groups parts of its bin each sample falls in by value; equal values fall together."""
    dense = rankdata(values, "dense")
    sizes = np.bincount(bins)
    within = rankdata(bins * (dense.max() + 1) + dense) - (np.cumsum(sizes) - sizes)[bins]
    return np.minimum(((within - 0.5) / sizes[bins] * n_groups).astype(np.int64), n_groups - 1)


def _null(
    residuals: FloatArray, bins: IntArray, groups: IntArray, n_groups: int, clusters: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """(G,) mean and (G, G) covariance of the groups' sums when groups are permuted inside bins.

    Sampling without replacement: Cov_gh = sum_b s_b^2 (n_bg 1[g = h] - n_bg n_bh / n_b), s_b^2 = S_b / (n_b - 1). With
    clusters, as in `trend_test`: Cov = sum_c u_c u_c', u_c = sum_{i in c} (1[g_i] - n_b / |n_b|) (r_i - mean_b r).
    """
    n_bins = int(bins.max()) + 1
    cells = np.bincount(bins * n_groups + groups, minlength=n_bins * n_groups).reshape(n_bins, n_groups)
    sizes = cells.sum(axis=1)
    means = np.bincount(bins, weights=residuals, minlength=sizes.size) / np.maximum(sizes, 1)
    if clusters is not None:
        scores = np.eye(n_groups)[groups] - (cells / np.maximum(sizes, 1)[:, None])[bins]
        sums = cluster_sums(scores * (residuals - means[bins])[:, None], clusters)
        return means @ cells, sums.T @ sums
    squares = np.bincount(bins, weights=(residuals - means[bins]) ** 2, minlength=sizes.size)
    spread = squares / np.maximum(sizes - 1, 1)
    weight = spread / np.maximum(sizes, 1)
    covariance = -(cells * weight[:, None]).T @ cells
    np.fill_diagonal(covariance, weight @ (cells * (sizes[:, None] - cells)))  # never negative, unlike a difference
    return means @ cells, covariance


def _critical(covariance: FloatArray, seed: int) -> float:
    """The LEVEL quantile of max_g |Z_g|, Z normal with this covariance scaled to unit variances (simulated)."""
    scale = np.sqrt(np.diag(covariance))
    kept = scale > 0
    if not kept.any():
        return float(ndtri((1 + LEVEL) / 2))
    values, vectors = np.linalg.eigh(covariance[np.ix_(kept, kept)] / np.outer(scale[kept], scale[kept]))
    drawn = np.random.default_rng(seed).standard_normal((_DRAWS, values.size))
    return float(np.quantile(np.abs(drawn * np.sqrt(values.clip(0)) @ vectors.T).max(axis=1), LEVEL))


def effect_by_decile(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    outputs: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    rung: int = 0,
    n_groups: int = 10,
    seed: int = 42,
) -> DecileEffect:
    """Where along the feature does accuracy leave what the rung's conditioning set predicts?

    Rung 0: residuals are correctness minus the accuracy of the sample's primary bin, groups are deciles of rho inside
    the bin, and the fitted trend is that of `trend_test`, slope times the group's mean centred rank. Rungs 1 to 3 need
    `outputs`: residuals of correctness and of rho are those of `ladder_test`, groups are deciles of rho's residuals.
    The band has the exact mean and variance of permuting groups inside the primary bins, and a normal quantile that
    makes it simultaneous: all groups together stay inside in 95 % of permutations. clusters : (n,) the source that
    samples share (tokens of one sequence); the variances of test and band are then of sums over clusters.
    """
    validation.whole("rung", rung, 0, len(LABELS) - 1)
    validation.whole("n_groups", n_groups, 2, MOST_GROUPS)
    validation.seed(seed)
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    shared = None if clusters is None else validation.clusters(clusters, checked_rho.size)
    n_bins = primary_bins(checked_rho.size)
    bins = equal_mass_bins(checked_confidence, n_bins)
    outcome = checked_correct.astype(np.float64)
    test: StratifiedResult | Rung
    if rung == 0:
        test = trend_test(checked_confidence, checked_correct, checked_rho, clusters=shared)
        residuals = outcome - (np.bincount(bins, weights=outcome) / np.bincount(bins))[bins]
        scores = TrendDesign.of(bins, checked_rho, n_bins).scores
        groups = _groups(checked_rho, bins, n_groups)
    else:
        if outputs is None:
            raise InvalidInput("outputs", f"logits or probabilities for rung {rung}", "none")
        fit, widths = ladder_fit(checked_confidence, checked_correct, checked_rho, outputs, shared, seed)
        both = fit.residuals(widths[rung])
        test = rung_of(rung, both, widths[rung], shared)
        scores, residuals = both.T
        groups = _groups(scores, np.zeros_like(bins), n_groups)
    counts = np.bincount(groups, minlength=n_groups)
    per_sample = np.where(counts > 0, 1 / np.maximum(counts, 1), np.nan)
    mean, covariance = _null(residuals, bins, groups, n_groups, shared)
    half = _critical(covariance, seed) * np.sqrt(np.diag(covariance))
    squares = float(scores @ scores)
    slope = float(scores @ residuals) / squares if squares > 0 and test.effect is not None else 0.0
    sums = np.array([np.bincount(groups, weights=each, minlength=n_groups) for each in (residuals, slope * scores)])
    values, low, high, fitted = np.stack([sums[0], mean - half, mean + half, sums[1]]) * per_sample
    return DecileEffect(values, low, high, fitted, counts, test, rung, n_bins, LEVEL, seed)
