"""What a trend cannot see: U-shapes, bumps, effects in part of the confidence range, signs that change with confidence.

Three tests of rho at matched confidence, each with its own kind of alternative, combined to one p-value:

groups : the generalised Cochran-Mantel-Haenszel test over five groups of rho (Landis, Heyman & Koch 1978).
weighted : the trend's products of residuals, weighted by step functions of confidence (weighted generalised covariance
    measure, Scheidegger, Hoerrmann & Bühlmann 2022).
spline : a score test of a cubic in the rank of rho, and of its interaction with the rank of confidence, in a logistic
    model with a spline of confidence and a level of its own for each confidence bin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline
from scipy.special import expit, logit
from scipy.stats import chi2, rankdata

from engine.core import validation
from engine.core.binning import equal_mass_bins
from engine.core.pvalues import cauchy_combination
from engine.core.types import BoolArray, FloatArray, IntArray
from engine.gaps.settings import FEWEST_SAMPLES_PER_BIN, primary_bins

PARTS = ("groups", "weighted", "spline")
N_GROUPS = 5
STEPS = (1 / 3, 1 / 2, 2 / 3)
"""Quantiles of confidence at which the weights of the weighted trend change sign."""
SPLINE_COLUMNS = 10
_CLIP = 1e-6
_FAINT = 1e-4
"""Ridge that keeps a separable fit finite."""
_RANK = 1e-9
"""Directions of less variance than this, relative to the largest, are rounding."""


@dataclass(frozen=True, eq=False)
class ShapeResult:
    """One p-value for any shape and the three it is combined from, by name; None where there is nothing to test."""

    p_value: float | None
    parts: Mapping[str, float | None]


def chi_square_pvalues(statistic: FloatArray, covariance: FloatArray) -> FloatArray:
    """(R,) P(chi2_rank >= U' V^+ U) of (R, m) statistics with (R, m, m) covariances; NaN where V is zero."""
    scale = np.sqrt(np.einsum("rii->ri", covariance))
    safe = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / (safe[:, :, None] * safe[:, None, :]))
    real = values > _RANK * np.maximum(values.max(axis=1, keepdims=True), _RANK)
    along = np.einsum("rij,ri->rj", vectors, statistic / safe)
    freedom = real.sum(axis=1)
    total = np.where(real, along**2 / np.where(real, values, 1.0), 0.0).sum(axis=1)
    return np.where(freedom > 0, chi2.sf(total, np.maximum(freedom, 1)), np.nan)


def centre(columns: FloatArray, bins: IntArray, weights: FloatArray | None = None) -> FloatArray:
    """(n, m) columns minus their (weighted) means in each bin."""
    order = np.argsort(bins, kind="stable")
    starts = np.flatnonzero(np.diff(bins[order], prepend=-1))
    weight = np.ones(bins.size) if weights is None else weights
    totals = np.add.reduceat((columns * weight[:, None])[order], starts, axis=0)
    means = totals / np.add.reduceat(weight[order], starts)[:, None]
    return columns - means[bins]


@dataclass(frozen=True, eq=False)
class BinnedScores:
    """Mantel's test with m score columns, each centred inside confidence bins.

    U = a' t with permutation covariance sum_b k_b (n_b - k_b) / (n_b (n_b - 1)) S_b, S_b = sum_{i in b} a_i a_i'.
    """

    bins: IntArray
    sizes: IntArray
    columns: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, bins: IntArray, n_bins: int, columns: FloatArray) -> BinnedScores:
        sizes = np.bincount(bins, minlength=n_bins)
        order = np.argsort(bins, kind="stable")
        starts = np.cumsum(sizes) - sizes
        centred = centre(columns, bins)
        products = np.add.reduceat(centred[order, :, None] * centred[order, None, :], starts, axis=0)
        return cls(bins, sizes, centred, products)

    def pvalues(self, outcomes: FloatArray, n_correct: IntArray, clusters: IntArray | None) -> FloatArray:
        if clusters is not None:
            residuals = outcomes - (n_correct / self.sizes)[:, self.bins]
            return _clustered_pvalues(residuals, self.columns, clusters)
        spread: FloatArray = n_correct * (self.sizes - n_correct) / (self.sizes * np.maximum(self.sizes - 1.0, 1.0))
        covariance: FloatArray = np.einsum("rb,bij->rij", spread, self.products)
        return chi_square_pvalues(outcomes @ self.columns, covariance)


def cluster_sums(scores: FloatArray, clusters: IntArray) -> FloatArray:
    """(n_clusters, m) sums of (n, m) scores over the samples of each cluster."""
    sums: FloatArray = np.column_stack([np.bincount(clusters, weights=column) for column in scores.T])
    return sums


def _clustered_pvalues(residuals: FloatArray, columns: FloatArray, clusters: IntArray) -> FloatArray:
    """Score test with variance from sums over clusters: V = sum_c u_c u_c', u_c = sum_{i in c} a_i e_i."""
    p_values = []
    for residual in residuals:
        sums = cluster_sums(residual[:, None] * columns, clusters)
        p_values.append(chi_square_pvalues(sums.sum(axis=0, keepdims=True), (sums.T @ sums)[None])[0])
    return np.array(p_values)


def spline_columns(rank: FloatArray, n_columns: int = SPLINE_COLUMNS) -> FloatArray:
    """(n, n_columns) cubic B-splines on evenly spaced knots of values in (0, 1); they sum to one in every row."""
    knots = np.concatenate([np.zeros(3), np.linspace(0, 1, n_columns - 2), np.ones(3)])
    columns: FloatArray = BSpline.design_matrix(rank, knots, 3).toarray()
    return columns


def logistic_weights(
    design: FloatArray, target: FloatArray, ridge: float = _FAINT, start: FloatArray | None = None
) -> FloatArray:
    """(p,) coefficients of a logistic regression (Newton; the ridge keeps separable data finite)."""
    weights = np.zeros(design.shape[1]) if start is None else start
    for _ in range(50):
        p = expit(design @ weights)
        gradient = design.T @ (target - p) - ridge * weights
        hessian = (design * (p * (1 - p))[:, None]).T @ design + ridge * np.eye(weights.size)
        step = np.linalg.solve(hessian, gradient)
        step /= max(1.0, float(np.abs(step).max()) / 3)  # a long step may overshoot into saturation
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def logistic_fit(design: FloatArray, target: FloatArray, ridge: float = _FAINT) -> FloatArray:
    """(n,) fitted probabilities of a logistic regression; the target may itself be probabilities."""
    fitted: FloatArray = expit(design @ logistic_weights(design, target, ridge))
    return fitted


def unit_rank(values: FloatArray) -> FloatArray:
    """(n,) ranks in (0, 1), ties sharing theirs."""
    ranks: FloatArray = (rankdata(values) - 0.5) / values.size
    return ranks


def confidence_model(confidence: FloatArray, rank: FloatArray) -> FloatArray:
    """(n, 11) columns of a logistic model of accuracy on confidence: splines of its rank, and its log-odds."""
    log_odds = logit(confidence.astype(np.float64).clip(_CLIP, 1 - _CLIP))
    log_odds = (log_odds - log_odds.mean()) / max(float(log_odds.std()), _CLIP)
    return np.column_stack([spline_columns(rank), log_odds])


def smooth_terms(confidence_rank: FloatArray, rank: FloatArray) -> FloatArray:
    """(n, 6) a cubic in the rank of rho (Legendre), and the same times the rank of confidence."""
    x = 2 * rank - 1
    cubic = np.column_stack([x, (3 * x**2 - 1) / 2, (5 * x**3 - 3 * x) / 2])
    return np.column_stack([cubic, cubic * (2 * confidence_rank - 1)[:, None]])


def shape_bins(n_samples: int) -> int:
    """Twice as many bins as the primary test has, as long as they keep 10 samples each.

    Five groups of rho are moved by the rest of confidence that a bin leaves more than a trend is: with predictive
    entropy as rho and only confidence mattering, the groups part rejects 7 % in the primary bins and 5-6 % in these.
    """
    coarse = primary_bins(n_samples)
    return max(coarse, min(2 * coarse, n_samples // FEWEST_SAMPLES_PER_BIN))


def count_correct(outcomes: BoolArray, bins: IntArray, n_bins: int) -> IntArray:
    """(R, n_bins) correct samples by bin of (R, n) outcomes."""
    flat = bins + n_bins * np.arange(len(outcomes))[:, None]
    return np.bincount(flat[outcomes], minlength=n_bins * len(outcomes)).reshape(len(outcomes), -1)


class ShapeDesign:
    """What the three tests keep fixed for a run: bins, score columns and the confidence model's columns."""

    def __init__(
        self,
        confidence: FloatArray,
        rho: FloatArray,
        clusters: IntArray | None = None,
        matched_by: FloatArray | None = None,
    ) -> None:
        """matched_by : confidence again, or its ranks where ties are to be dealt out in another order than given."""
        n = confidence.size
        self.clusters = clusters
        self.n_bins = shape_bins(n)
        self.bins = equal_mass_bins(confidence if matched_by is None else matched_by, self.n_bins)
        confidence_rank, rank = unit_rank(confidence), unit_rank(rho)
        group = np.minimum((rank * N_GROUPS).astype(np.int64), N_GROUPS - 1)
        steps = np.where(confidence_rank[:, None] > np.array(STEPS), 1.0, -1.0)
        columns = {
            "groups": (group[:, None] == np.arange(1, N_GROUPS)).astype(float),
            "weighted": (rank - 0.5)[:, None] * np.column_stack([np.ones(n), steps]),
        }
        self._binned = {name: BinnedScores.of(self.bins, self.n_bins, each) for name, each in columns.items()}
        self._tested = smooth_terms(confidence_rank, rank)
        self.model = confidence_model(confidence, confidence_rank)

    def pvalues(self, outcomes: BoolArray, probability: FloatArray) -> dict[str, FloatArray]:
        """(R,) p-values of each part for (R, n) outcomes.

        probability : (n,) the confidence model's fit, to the one outcome tested, or to the accuracies that many
        simulated outcomes are drawn from: one Newton step from there stands for each outcome's own fit.

        The spline part's columns are orthogonal to the bins too: where accuracy jumps, a smooth model of it leaves
        residuals that any feature near confidence follows (14 % false alarms with predictive entropy at n = 50,000).
        """
        drawn = outcomes.astype(np.float64)
        n_correct = count_correct(outcomes, self.bins, self.n_bins)
        found = {name: part.pvalues(drawn, n_correct, self.clusters) for name, part in self._binned.items()}
        weight = np.maximum(probability * (1 - probability), _CLIP)
        model, tested = (centre(columns, self.bins, weight) for columns in (self.model, self._tested))
        weighted = model * weight[:, None]
        gram = weighted.T @ model + _FAINT * np.eye(model.shape[1])
        efficient = tested - model @ np.linalg.solve(gram, weighted.T @ tested)
        if self.clusters is not None:
            return {**found, "spline": _clustered_pvalues(drawn - probability, efficient, self.clusters)}
        information = (efficient * weight[:, None]).T @ efficient
        score = (drawn - probability) @ efficient
        every = np.broadcast_to(information, (len(drawn), *information.shape))
        return {**found, "spline": chi_square_pvalues(score, every)}


def shape_test(
    confidence: ArrayLike, correct: ArrayLike, rho: ArrayLike, *, clusters: ArrayLike | None = None
) -> ShapeResult:
    """Does correctness depend on rho at matched confidence in any shape?

    clusters : (n,) the source that each sample shares with others (tokens of one sequence); variances are then of sums
    over clusters. The three p-values are combined by Cauchy's combination (Liu & Xie 2020).
    """
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    groups = None if clusters is None else validation.clusters(clusters, checked_rho.size)
    design = ShapeDesign(checked_confidence, checked_rho, groups)
    fitted = logistic_fit(design.model, checked_correct.astype(np.float64))
    found = {name: float(p[0]) for name, p in design.pvalues(checked_correct[None], fitted).items()}
    parts = {name: None if np.isnan(p) else p for name, p in found.items()}
    tested = [p for p in parts.values() if p is not None]
    return ShapeResult(float(cauchy_combination(np.array(tested))) if tested else None, parts)
