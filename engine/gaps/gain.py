"""What rho is good for: what a calibrator of confidence gains when it may use rho as well, out of sample.

Proposition 1 of the paper: E(T - E[T|c])^2 - E(T - E[T|c, rho])^2 = E(E[T|c, rho] - E[T|c])^2, the variance of
correctness that rho explains beyond confidence.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtri

from engine.core import validation
from engine.core.types import FloatArray, IntArray
from engine.gaps.shape import confidence_model, logistic_weights, smooth_terms, unit_rank

N_FOLDS = 5
_RESAMPLES = 200
_VALUES_AT_ONCE = 500_000
_CLIP = 1e-12


@dataclass(frozen=True)
class Estimate:
    """A value with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Gain:
    """Confidence alone minus confidence with rho, so that positive means that rho helps; 95 % intervals.

    nll : of correctness, per sample. explained_variance : squared error, the left side of Proposition 1; share : the
    same relative to the squared error of confidence alone. aurc : area under the risk-coverage curve.
    """

    nll: Estimate
    explained_variance: Estimate
    aurc: Estimate
    share: float
    seed: int


def routing_gain(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    seed: int = 42,
) -> Gain:
    """Two logistic models of correctness, each fitted on four fifths and scored on the fifth left out.

    One has a spline of confidence; the other also a cubic in the rank of rho and its interaction with the rank of
    confidence. Ranks are over all samples and use no outcome. Intervals: normal for means of paired differences (sums
    over clusters), 200 paired resamples for the area.
    """
    validation.seed(seed)
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    n = checked_rho.size
    groups: IntArray = np.arange(n) if clusters is None else validation.clusters(clusters, n)
    rng = np.random.default_rng(seed)
    folds = rng.permutation(groups.max() + 1)[groups] % N_FOLDS
    rank, target = unit_rank(checked_confidence), checked_correct.astype(np.float64)
    base = confidence_model(checked_confidence, rank)
    designs = base, np.column_stack([base, smooth_terms(rank, unit_rank(checked_rho))])
    alone, both = (_held_out(design, target, folds) for design in designs)
    nll = [-np.log(np.where(checked_correct, p, 1 - p).clip(_CLIP)) for p in (alone, both)]
    squares = [(target - p) ** 2 for p in (alone, both)]
    explained = _mean(squares[0] - squares[1], groups)
    share = explained.value / max(float(squares[0].mean()), _CLIP)
    return Gain(_mean(nll[0] - nll[1], groups), explained, _area(alone, both, 1 - target, groups, rng), share, seed)


def _held_out(design: FloatArray, target: FloatArray, folds: IntArray) -> FloatArray:
    """(n,) probabilities by models of the other folds."""
    fitted = np.empty(target.size)
    start = logistic_weights(design, target)  # near those of every fold, so that two or three steps are enough
    for fold in range(N_FOLDS):
        held = folds == fold
        if held.any() and not held.all():
            fitted[held] = expit(design[held] @ logistic_weights(design[~held], target[~held], start=start))
        elif held.any():  # a single cluster: nothing is left to learn from
            fitted[held] = target.mean()
    return fitted


def _mean(values: FloatArray, groups: IntArray) -> Estimate:
    mean = float(values.mean())
    sums = np.bincount(groups, weights=values - mean)
    half = float(ndtri(0.975) * np.sqrt(sums @ sums)) / values.size
    return Estimate(mean, mean - half, mean + half)


def _area(
    alone: FloatArray, both: FloatArray, wrong: FloatArray, groups: IntArray, rng: np.random.Generator
) -> Estimate:
    """Mean over coverages of the error rate among the samples trusted most: by the one minus by the other score."""
    orders = [np.argsort(-score, kind="stable") for score in (alone, both)]

    def difference(weights: FloatArray) -> FloatArray:
        """(R,) of samples that count (R, n) times."""
        areas = []
        for order in orders:
            ordered = weights[:, order]
            kept = np.cumsum(ordered, axis=1)
            risk = np.cumsum(ordered * wrong[order], axis=1) / np.maximum(kept, 1)
            areas.append((risk * ordered).sum(axis=1) / np.maximum(kept[:, -1], 1))
        return areas[0] - areas[1]

    value = float(difference(np.ones((1, wrong.size)))[0])
    rows = max(1, min(_RESAMPLES, _VALUES_AT_ONCE // wrong.size))
    resampled = [  # independent Poisson counts stand for the multinomial ones of a bootstrap
        difference(rng.poisson(1.0, (rows, groups.max() + 1)).astype(float)[:, groups])
        for _ in range(-(-_RESAMPLES // rows))
    ]
    half = float(ndtri(0.975) * np.concatenate(resampled).std())
    return Estimate(value, value - half, value + half)
