"""Calibration errors and proper scores of one set of predictions (protocol, section 3)."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.fft import dct, idct
from scipy.optimize import brentq

from engine.core import validation
from engine.core.binning import (
    N_BINS,
    TERTILE_QUANTILES,
    Matching,
    confidence_bins,
    equal_mass_sizes,
    equal_width_bins,
    equal_width_edges,
    tertiles,
)
from engine.core.errors import InvalidInput
from engine.core.pvalues import wilson_interval
from engine.core.types import BoolArray, FloatArray, IntArray

PROBABILITY_FLOOR = 1e-12
_SMOOTH_GRID = 4096
_SMALLEST_SMOOTHING = 1e-3


def _pair(confidence: ArrayLike, correct: ArrayLike) -> tuple[FloatArray, BoolArray]:
    checked = validation.confidence(confidence)
    return checked, validation.correct(correct, checked.size)


def _predictions(probabilities: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, IntArray]:
    checked = validation.probabilities(probabilities)
    return checked, validation.labels(labels, checked.shape[1], checked.shape[0])


def ece(confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = N_BINS) -> float:
    """Expected calibration error, equal-width bins.

    ECE = sum_b (n_b / n) |acc_b - conf_b| = (1 / n) sum_b |sum_{i in b} (t_i - c_i)|   (Guo et al. 2017).
    """
    checked_confidence, checked_correct = _pair(confidence, correct)
    residuals = _residual_sums(checked_confidence, checked_correct, validation.bins(n_bins))
    return float(np.abs(residuals).sum() / checked_confidence.size)


def _residual_sums(confidence: FloatArray, correct: BoolArray, n_bins: int) -> FloatArray:
    """(n_bins,) sums of t_i - c_i by equal-width bin.

    Most samples of a trained network sit in the last bin, and adding them one by one to the same place is slow: then
    the other bins are summed, and the last one is what is missing to the total.
    """
    others = (confidence < confidence.dtype.type((n_bins - 1) / n_bins)).nonzero()[0]
    if 2 * others.size > confidence.size:
        bins = equal_width_bins(confidence, n_bins)
        return np.bincount(bins, weights=correct - confidence, minlength=n_bins).astype(np.float64, copy=False)
    own_confidence, own_correct = confidence.take(others), correct.take(others)
    bins = equal_width_bins(own_confidence, n_bins)
    residuals: FloatArray = np.bincount(bins, weights=own_correct - own_confidence, minlength=n_bins).astype(np.float64)
    residuals[-1] = np.count_nonzero(correct) - float(confidence.sum(dtype=np.float64)) - residuals.sum()
    return residuals


def adaptive_ece(confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = N_BINS) -> float:
    """Expected calibration error with equal-mass bins (Nixon et al. 2019), sizes differing by at most one."""
    checked_confidence, checked_correct = _pair(confidence, correct)
    n, n_bins = checked_confidence.size, validation.bins(n_bins)
    if n < n_bins:
        raise InvalidInput("n_bins", f"at most {n} equal-mass bins (one sample each)", f"{n_bins}")
    order = np.argsort(checked_confidence, kind="stable")
    starts = np.concatenate(([0], np.cumsum(equal_mass_sizes(n, n_bins))[:-1]))
    residuals = np.add.reduceat((checked_correct - checked_confidence.astype(np.float64))[order], starts)
    return float(np.abs(residuals).sum() / n)


def mce(confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = N_BINS, min_count: int = 5) -> float:
    """Maximum calibration error max_b |acc_b - conf_b| over equal-width bins of at least `min_count` samples."""
    checked_confidence, checked_correct = _pair(confidence, correct)
    bins = equal_width_bins(checked_confidence, validation.bins(n_bins))
    counts = np.bincount(bins)
    kept = counts >= validation.whole("min_count", min_count, 1)
    if not kept.any():
        raise InvalidInput("confidence", f"a bin with at least {min_count} samples", f"at most {counts.max()} in a bin")
    residuals = np.bincount(bins, weights=checked_correct - checked_confidence)
    return float((np.abs(residuals[kept]) / counts[kept]).max())


def classwise_ece(probabilities: ArrayLike, labels: ArrayLike, *, n_bins: int = N_BINS) -> float:
    """Mean over classes of the equal-width ECE of p_k against 1[y = k]."""
    checked, classes = _predictions(probabilities, labels)
    n, n_classes = checked.shape
    n_bins = validation.bins_of_groups(n_bins, n_classes)
    # Nearly all of the n K probabilities lie in the first bin: the others are summed one by one, and the first bin of a
    # class is what is missing to the class's total.
    flat = checked.ravel()
    others = np.flatnonzero(flat >= equal_width_edges(n_bins)[1].astype(flat.dtype))
    values = flat[others]
    cells = (others % n_classes) * n_bins + equal_width_bins(values, n_bins)
    # Of no values at all, numpy counts in integers whatever the weights.
    sums = np.bincount(cells, weights=values, minlength=n_classes * n_bins).astype(np.float64)
    sums = sums.reshape(n_classes, n_bins)
    sums[:, 0] += checked.sum(axis=0, dtype=np.float64) - sums.sum(axis=1)
    own = equal_width_bins(checked[np.arange(n), classes], n_bins)
    sums -= np.bincount(classes * n_bins + own, minlength=n_classes * n_bins).reshape(n_classes, n_bins)
    return float(np.abs(sums).sum() / n / n_classes)


def smooth_ece(confidence: ArrayLike, correct: ArrayLike) -> float:
    """SmoothECE (Blasiok & Nakkiran 2023): the calibration error after smoothing at its own scale.

    With r_sigma(t) = (1 / n) sum_i (t_i - c_i) K_sigma(t, c_i), K the Gaussian kernel reflected at 0 and 1, and
    smECE_sigma = integral |r_sigma(t)| dt, the value returned is smECE_sigma at the sigma where smECE_sigma = sigma.

    Reflected smoothing is diagonal in the cosine basis (frequency k is damped by exp(-(pi k sigma)^2 / 2)), so one
    transform of the residuals serves every sigma tried. Residuals are shared linearly between neighbouring cells
    of a 4096-cell grid; below sigma = 1e-3, where the grid would show, sigma stays at 1e-3.
    """
    checked_confidence, checked_correct = _pair(confidence, correct)
    residual = (checked_correct - checked_confidence.astype(np.float64)) / checked_confidence.size
    position = checked_confidence * float(_SMOOTH_GRID) - 0.5
    lower = np.floor(position).astype(np.int64)
    share = position - lower
    # Reflection sends the cells -1 and 4096 back to 0 and 4095.
    grid = np.bincount(np.maximum(lower, 0), weights=residual * (1 - share), minlength=_SMOOTH_GRID)
    grid += np.bincount(np.minimum(lower + 1, _SMOOTH_GRID - 1), weights=residual * share, minlength=_SMOOTH_GRID)
    spectrum = dct(grid)
    decay = (np.pi * np.arange(_SMOOTH_GRID)) ** 2 / 2

    def error_at(sigma: float) -> float:
        return float(np.abs(idct(spectrum * np.exp(-decay * sigma**2))).sum())

    if error_at(_SMALLEST_SMOOTHING) <= _SMALLEST_SMOOTHING:
        return error_at(_SMALLEST_SMOOTHING)
    if error_at(1.0) >= 1.0:  # every prediction certain and wrong: no smoothing scale is large enough
        return error_at(1.0)
    scale = brentq(lambda sigma: error_at(sigma) - sigma, _SMALLEST_SMOOTHING, 1.0, xtol=1e-7)
    return error_at(float(scale))


def nll(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Mean negative log-likelihood -log p_y, with p clipped at 1e-12."""
    checked, classes = _predictions(probabilities, labels)
    own = checked[np.arange(len(checked)), classes]
    return float(-np.log(np.maximum(own, PROBABILITY_FLOOR)).mean())


def brier(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Brier score: mean over samples of sum_k (p_k - 1[y = k])^2."""
    checked, classes = _predictions(probabilities, labels)
    own = checked[np.arange(len(checked)), classes]
    return float((np.einsum("nk,nk->n", checked, checked) - 2 * own + 1).mean())


def worst_tertile_ece(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    n_bins: int = N_BINS,
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
) -> float:
    """Largest equal-width ECE inside a tertile of rho; a tertile emptied by ties does not compete."""
    checked_confidence, checked_correct, checked_rho = validation.samples(confidence, correct, rho)
    n_bins = validation.bins(n_bins)
    groups = tertiles(checked_rho, quantiles)
    cells = groups.index * n_bins + equal_width_bins(checked_confidence, n_bins)
    residuals = np.bincount(cells, weights=checked_correct - checked_confidence, minlength=3 * n_bins)
    sizes = np.array(groups.sizes)
    errors = np.abs(residuals).reshape(3, n_bins).sum(axis=1)[sizes > 0] / sizes[sizes > 0]
    return float(errors.max())


def reliability_table(
    confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = N_BINS, matching: Matching = "equal_width"
) -> pd.DataFrame:
    """One row per bin: range, count, mean confidence, accuracy with a 95 % Wilson interval, signed gap.

    The range of an equal-mass bin is that of its samples. An empty bin keeps its row, with count 0 and missing values.
    """
    checked_confidence, checked_correct = _pair(confidence, correct)
    bins = confidence_bins(checked_confidence, n_bins, matching)
    counts = np.bincount(bins, minlength=n_bins)
    hits = np.bincount(bins, weights=checked_correct, minlength=n_bins)
    total = np.bincount(bins, weights=checked_confidence, minlength=n_bins)
    if matching == "equal_width":
        edges = equal_width_edges(n_bins)
        lower, upper = edges[:-1], edges[1:]
    else:
        ordered = np.sort(checked_confidence)
        ends = np.cumsum(counts)
        lower, upper = ordered[ends - counts], ordered[ends - 1]
    filled = counts > 0
    table = pd.DataFrame({"bin": np.arange(1, n_bins + 1), "lower": lower, "upper": upper, "count": counts})
    for name, sums in (("mean_confidence", total), ("accuracy", hits)):
        table[name] = np.divide(sums, counts, out=np.full(n_bins, np.nan), where=filled)
    table["accuracy_low"], table["accuracy_high"] = wilson_interval(hits, counts)
    table["gap"] = table["accuracy"] - table["mean_confidence"]
    return table
