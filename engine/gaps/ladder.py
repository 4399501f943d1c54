"""How far does evidence carry: beyond confidence, beyond the shape of the softmax, beyond the whole output?

Each rung conditions on more of the model's output (Z) by regressing both rho and correctness on it and testing the
residuals' covariance: the generalised covariance measure (Shah & Peters 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit, ndtri
from scipy.stats import rankdata

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import FloatArray, IntArray
from engine.gaps.shape import spline_columns
from engine.gaps.stratified import two_sided

LABELS = (
    "confidence",
    "the shape of the softmax (confidence, predictive entropy, top-two margin)",
    "the shape of the softmax and the predicted class",
    "the whole output",
)
MOST_CLASSES = 200
"""With more classes than this, the last rung takes the largest logits, sorted, and the class instead of all logits."""
LARGEST_LOGITS = 50
N_FOLDS = 5
RIDGES = 10.0 ** np.arange(-2, 6)
SPLINE_COLUMNS = 8
_CLIP = 1e-6


@dataclass(frozen=True)
class Rung:
    """rho against correctness given one conditioning set.

    effect : change of accuracy from the low to the high third of what Z leaves of rho, with its standard_error; a
    rung on which the effect shrinks and one on which its error grows are different findings. p_value and z are None
    where Z leaves nothing of rho or of correctness.
    """

    number: int
    label: str
    p_value: float | None
    z: float | None
    effect: float | None
    standard_error: float | None
    n_columns: int


def class_probabilities(outputs: ArrayLike, confidence: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n, K) logits and probabilities, from either: whichever reproduces the confidence given is what they are."""
    given = validation.matrix("outputs", outputs, confidence.size)
    if given.shape[1] < 2:
        raise InvalidInput("outputs", "at least two classes", f"shape {given.shape}")
    if np.abs(given.max(axis=1) - confidence).max() < 1e-3 and np.abs(given.sum(axis=1) - 1).max() < 1e-3:
        return np.log(given.clip(np.finfo(np.float32).tiny)), given
    shifted = np.exp(given - given.max(axis=1, keepdims=True))
    probabilities = shifted / shifted.sum(axis=1, keepdims=True)
    away = float(np.abs(probabilities.max(axis=1) - confidence).max())
    if away > 1e-2:
        raise InvalidInput(
            "outputs", "logits or probabilities whose largest probability is the confidence", f"off by {away:.3g}"
        )
    return given, probabilities


def _smooth(values: FloatArray) -> FloatArray:
    """Columns for a smooth function of a continuous member: splines of its rank, and its log-odds where it has one."""
    columns = spline_columns((rankdata(values) - 0.5) / values.size, SPLINE_COLUMNS)[:, 1:]
    return np.column_stack([columns, logit(values.clip(_CLIP, 1 - _CLIP))])


def conditioning_columns(logits: FloatArray, probabilities: FloatArray, rung: int) -> FloatArray:
    """(n, p) regressors of a rung, standardised: what the protocol's table lists for it."""
    n_classes = probabilities.shape[1]
    top = np.partition(probabilities, n_classes - 2, axis=1)[:, -2:]
    columns = [_smooth(top[:, 1])]
    if rung >= 1:
        entropy = -(probabilities * np.log(probabilities.clip(np.finfo(np.float64).tiny))).sum(axis=1)
        columns += [_smooth(entropy / math.log(n_classes)), _smooth(top[:, 1] - top[:, 0])]
    if rung >= 2:
        columns.append((probabilities.argmax(axis=1)[:, None] == np.arange(n_classes)).astype(float))
    if rung >= 3:
        largest = np.sort(logits, axis=1)[:, -LARGEST_LOGITS:]
        columns.append(logits if n_classes <= MOST_CLASSES else largest)
    joined = np.column_stack(columns)
    spread = joined.std(axis=0)
    kept = spread > 0
    return (joined[:, kept] - joined[:, kept].mean(axis=0)) / spread[kept]


def cross_fitted_residuals(columns: FloatArray, targets: FloatArray, folds: IntArray) -> FloatArray:
    """(n, m) residuals of ridge regressions fitted on the other folds; each target has the ridge of least error.

    One eigendecomposition per fold serves all ridges: beta = E (E' X'y) / (w + ridge), X'X = E diag(w) E'.
    """
    gram, cross = columns.T @ columns, columns.T @ targets
    sums, target_sums = columns.sum(axis=0), targets.sum(axis=0)
    residuals = np.empty((RIDGES.size, *targets.shape))
    for fold in range(N_FOLDS):
        held = folds == fold
        x, y = columns[held], targets[held]
        n = columns.shape[0] - len(x)
        x_mean, y_mean = (sums - x.sum(axis=0)) / n, (target_sums - y.sum(axis=0)) / n
        values, vectors = np.linalg.eigh(gram - x.T @ x - n * np.outer(x_mean, x_mean))
        rotated = vectors.T @ (cross - x.T @ y - n * np.outer(x_mean, y_mean))
        projected = (x - x_mean) @ vectors
        for place, ridge in enumerate(RIDGES):
            shrunk = rotated / (np.maximum(values, 0) + ridge)[:, None]
            residuals[place, held] = y - y_mean - projected @ shrunk
    best = np.square(residuals).mean(axis=1).argmin(axis=0)
    return residuals[best, :, np.arange(targets.shape[1])].T


def _outer_distance(values: FloatArray) -> float:
    """Mean of the upper third minus mean of the lower third."""
    ordered = np.sort(values)
    third = max(1, ordered.size // 3)
    return float(ordered[-third:].mean() - ordered[:third].mean())


def _rung(number: int, columns: FloatArray, targets: FloatArray, folds: IntArray, clusters: IntArray | None) -> Rung:
    rho, correct = cross_fitted_residuals(columns, targets, folds).T
    products = rho * correct
    squares = float(rho @ rho)
    slope = float(products.sum()) / squares if squares > 0 else 0.0
    scores = products - products.mean()
    errors = rho * (correct - slope * rho)
    if clusters is not None:
        scores, errors = (np.bincount(clusters, weights=values) for values in (scores, errors))
    spread = math.sqrt(float(scores @ scores))
    if spread <= _CLIP or squares <= _CLIP * rho.size:
        return Rung(number, LABELS[number], None, None, None, None, columns.shape[1])
    z = float(products.sum()) / spread
    reach = _outer_distance(rho)
    standard_error = math.sqrt(float(errors @ errors)) / squares * reach
    return Rung(number, LABELS[number], float(two_sided(z)), z, slope * reach, standard_error, columns.shape[1])


def ladder_test(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    outputs: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    seed: int = 42,
) -> tuple[Rung, ...]:
    """Rungs 1 to 3: does rho say anything about correctness beyond ever more of the output?

    z = sum_i e_i f_i / sqrt(sum_i (e_i f_i - mean)^2), e and f the cross-fitted residuals of rho's normal scores and of
    correctness on Z. Normal scores (of ranks) rather than ranks, since their regression on Z is closer to additive.
    outputs : (n, K) logits or probabilities. Rung 0 is the primary test, `trend_test`.
    """
    keep_blas_to_one_thread()
    validation.seed(seed)
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    n = checked_rho.size
    groups = None if clusters is None else validation.clusters(clusters, n)
    logits, probabilities = class_probabilities(outputs, checked_confidence.astype(np.float64))
    targets = np.column_stack([ndtri((rankdata(checked_rho) - 0.5) / n), checked_correct.astype(np.float64)])
    rng = np.random.default_rng(seed)
    # Samples of one cluster stay in one fold, or the fit would know them.
    folds = rng.permutation(n) % N_FOLDS if groups is None else rng.permutation(groups.max() + 1)[groups] % N_FOLDS
    return tuple(
        _rung(number, conditioning_columns(logits, probabilities, number), targets, folds, groups)
        for number in range(1, len(LABELS))
    )
