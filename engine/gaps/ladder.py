"""How far does evidence carry: beyond confidence, beyond the shape of the softmax, beyond the whole output?

Each rung conditions on more of the model's output (Z) by regressing both rho and correctness on it and testing the
residuals' covariance: the generalised covariance measure (Shah & Peters 2020).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit, ndtri
from scipy.stats import rankdata

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import BoolArray, FloatArray, IntArray
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


def conditioning_columns(
    logits: FloatArray, probabilities: FloatArray, rung: int = 3
) -> tuple[FloatArray, tuple[int, ...]]:
    """(n, p) regressors of a rung, standardised, and how many of them belong to each rung from 0 up to it.

    What the protocol's table lists, in its order: the first columns of a rung are those of the rung below.
    """
    n_classes = probabilities.shape[1]
    top = np.partition(probabilities, n_classes - 2, axis=1)[:, -2:]
    parts: list[list[FloatArray]] = [[_smooth(top[:, 1])]]
    if rung >= 1:
        entropy = -(probabilities * np.log(probabilities.clip(np.finfo(np.float64).tiny))).sum(axis=1)
        parts.append([_smooth(entropy / math.log(n_classes)), _smooth(top[:, 1] - top[:, 0])])
    if rung >= 2:
        parts.append([(probabilities.argmax(axis=1)[:, None] == np.arange(n_classes)).astype(float)])
    if rung >= 3:
        parts.append([logits if n_classes <= MOST_CLASSES else np.sort(logits, axis=1)[:, -LARGEST_LOGITS:]])
    columns, widths = [], []
    for part in parts:
        joined = np.column_stack(part)
        spread = joined.std(axis=0)
        kept = spread > 0
        columns.append((joined[:, kept] - joined[:, kept].mean(axis=0)) / spread[kept])
        widths.append(int(kept.sum()))
    return np.column_stack(columns), tuple(np.cumsum(widths).tolist())


class CrossFit:
    """Ridge regressions of targets (n, m) on nested sets of columns (n, p), fitted on the other folds.

    All that is asked of the samples is their second moments by fold, once for all sets and ridges. The ridge of each
    target is the one of least squared error on the folds held out.
    """

    def __init__(self, columns: FloatArray, targets: FloatArray, folds: IntArray) -> None:
        self._columns, self._targets = columns, targets
        self._rows = [np.flatnonzero(folds == fold) for fold in range(N_FOLDS)]
        joined = np.column_stack([np.ones(len(columns)), columns, targets])
        self._moments = np.stack([joined[rows].T @ joined[rows] for rows in self._rows])

    def residuals(self, width: int | None = None) -> FloatArray:
        """(n, m) of the regressions on the first `width` columns, or on all.

        One eigendecomposition a fold serves all ridges: beta = E (E' X'y) / (w + ridge), X'X = E diag(w) E'.
        """
        p, m = self._columns.shape[1], self._targets.shape[1]
        x = np.arange(p if width is None else width)
        y = p + np.arange(m)
        slopes, errors, means = [], np.zeros((RIDGES.size, m)), []
        for held in self._moments:
            kept = self._moments.sum(axis=0) - held
            mean = kept[0, 1:] / kept[0, 0]
            centred = kept[1:, 1:] - kept[0, 0] * np.outer(mean, mean)
            values, vectors = np.linalg.eigh(centred[np.ix_(x, x)])
            rotated = vectors.T @ centred[np.ix_(x, y)]
            shrunk = rotated[:, None, :] / (np.maximum(values, 0)[:, None] + RIDGES)[:, :, None]
            slope = np.tensordot(vectors, shrunk, axes=1)  # (p, ridges, m)
            # The squared error on the fold held out, from its moments about the means of the others.
            shift = np.outer(held[0, 1:], mean)
            about = held[1:, 1:] - shift - shift.T + held[0, 0] * np.outer(mean, mean)
            errors += np.diagonal(about)[y] - 2 * (slope * about[np.ix_(x, y)][:, None]).sum(axis=0)
            errors += (slope * np.tensordot(about[np.ix_(x, x)], slope, axes=1)).sum(axis=0)
            slopes.append(slope)
            means.append(mean)
        best = errors.argmin(axis=0)
        found = np.empty(self._targets.shape)
        for rows, slope, mean in zip(self._rows, slopes, means, strict=True):
            fitted = (self._columns[rows, : x.size] - mean[x]) @ slope[:, best, np.arange(m)]
            found[rows] = self._targets[rows] - mean[y] - fitted
        return found


def _outer_distance(values: FloatArray) -> float:
    """Mean of the upper third minus mean of the lower third."""
    ordered = np.sort(values)
    third = max(1, ordered.size // 3)
    return float(ordered[-third:].mean() - ordered[:third].mean())


def rung_of(number: int, residuals: FloatArray, n_columns: int, clusters: IntArray | None = None) -> Rung:
    """The test of (n, 2) residuals of rho and of correctness."""
    rho, correct = residuals.T
    products = rho * correct
    squares = float(rho @ rho)
    slope = float(products.sum()) / squares if squares > 0 else 0.0
    scores = products - products.mean()
    errors = rho * (correct - slope * rho)
    if clusters is not None:
        scores, errors = (np.bincount(clusters, weights=values) for values in (scores, errors))
    spread = math.sqrt(float(scores @ scores))
    if spread <= _CLIP or squares <= _CLIP * rho.size:
        return Rung(number, LABELS[number], None, None, None, None, n_columns)
    z = float(products.sum()) / spread
    reach = _outer_distance(rho)
    standard_error = math.sqrt(float(errors @ errors)) / squares * reach
    return Rung(number, LABELS[number], float(two_sided(z)), z, slope * reach, standard_error, n_columns)


def ladder_fit(
    confidence: FloatArray,
    correct: BoolArray,
    rho: FloatArray,
    outputs: ArrayLike,
    clusters: IntArray | None = None,
    seed: int = 42,
) -> tuple[CrossFit, tuple[int, ...]]:
    """The regressions of rho's normal scores and of correctness on the columns of all rungs, and each rung's width."""
    n = rho.size
    logits, probabilities = class_probabilities(outputs, confidence.astype(np.float64))
    targets = np.column_stack([ndtri((rankdata(rho) - 0.5) / n), correct.astype(np.float64)])
    rng = np.random.default_rng(seed)
    # Samples of one cluster stay in one fold, or the fit would know them.
    folds = rng.permutation(n) if clusters is None else rng.permutation(clusters.max() + 1)[clusters]
    columns, widths = conditioning_columns(logits, probabilities)
    return CrossFit(columns, targets, folds % N_FOLDS), widths


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
    checked = validation.samples(confidence, correct, rho)
    groups = None if clusters is None else validation.clusters(clusters, checked[0].size)
    fit, widths = ladder_fit(*checked, outputs, groups, seed)
    return tuple(
        rung_of(number, fit.residuals(widths[number]), widths[number], groups) for number in range(1, len(LABELS))
    )
