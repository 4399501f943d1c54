"""The held-out metrics of the benchmark: their names, the table that holds them, and their values over resamples.

Metrics are resampled without resampled arrays: each is a function of sums over samples, weighted by counts. A
bootstrap resample of n samples is a vector of counts. What a metric needs of it (residuals by bin, losses) are products
of these counts with a per-sample table that is made once per method. A resampled ECE serves only to tell how two
methods vary together: its percentiles miss the ECE (`engine.metrics.debiased`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine import metrics
from engine.calibrators import CALIBRATORS, Fitted, FittedKernel, Samples
from engine.core.binning import N_BINS, equal_width_bins
from engine.core.types import BoolArray, FloatArray, IntArray
from engine.kernel import TemperatureSolution
from engine.metrics import PROBABILITY_FLOOR

MIN_BIN_COUNT = 5


@dataclass(frozen=True)
class Metric:
    """How a column is shown: `digits` after the point, and whether less is better (None: neither way)."""

    label: str
    digits: int
    lower_is_better: bool | None = True


METRICS: dict[str, Metric] = {
    "ece": Metric("ECE", 4),
    "adaptive_ece": Metric("AdaECE", 4),
    "nll": Metric("NLL", 3),
    "brier": Metric("Brier", 3),
    "worst_tertile_ece": Metric("Worst-tertile ECE", 4),
    "mce": Metric("MCE", 4),
    "classwise_ece": Metric("Classwise ECE", 4),
    "smooth_ece": Metric("SmoothECE", 4),
    "accuracy": Metric("Accuracy", 4, lower_is_better=False),
    "delta_nll": Metric("Change of NLL", 4),
    "delta_brier": Metric("Change of Brier", 4),
    "delta_accuracy": Metric("Change of accuracy", 4, lower_is_better=None),
}
HEADLINE = ("ece", "adaptive_ece", "nll", "brier", "worst_tertile_ece")
"""The metrics that the sensitivity studies repeat."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """One method on the evaluated half.

    Attributes
    ----------
    probabilities : (n, K). confidence : (n,) of the predicted class. correct : (n,).
    """

    probabilities: FloatArray
    confidence: FloatArray
    correct: BoolArray


def predict(fitted: Fitted, samples: Samples) -> tuple[Prediction, TemperatureSolution | None]:
    """Apply a fitted method; a kernel method also tells its temperatures, with clip and tie counts."""
    if isinstance(fitted, FittedKernel):
        return predict_kernel(fitted, samples)
    return _judged(fitted, fitted.transform(samples), samples), None


def predict_kernel(fitted: FittedKernel, samples: Samples) -> tuple[Prediction, TemperatureSolution]:
    """Apply a fitted kernel method."""
    result = fitted.predict(samples)
    return _judged(fitted, result.probabilities, samples), result.solution


def _judged(fitted: Fitted, probabilities: FloatArray, samples: Samples) -> Prediction:
    """Where a method keeps the argmax, a tie made by rounding cannot change the predicted class."""
    top = samples.top if CALIBRATORS[fitted.name].keeps_argmax else probabilities.argmax(axis=1)
    confidence = probabilities[np.arange(samples.n_samples), top]
    return Prediction(probabilities, np.minimum(confidence, 1.0), top == samples.known_labels)


def headline_scores(prediction: Prediction, samples: Samples, rho: FloatArray | None) -> dict[str, float]:
    """The `HEADLINE` metrics; worst-tertile ECE is NaN without a rho to cut."""
    confidence, correct, labels = prediction.confidence, prediction.correct, samples.known_labels
    return {
        "ece": metrics.ece(confidence, correct),
        "adaptive_ece": metrics.adaptive_ece(confidence, correct),
        "nll": metrics.nll(prediction.probabilities, labels),
        "brier": metrics.brier(prediction.probabilities, labels),
        "worst_tertile_ece": np.nan if rho is None else metrics.worst_tertile_ece(confidence, correct, rho),
    }


def all_scores(prediction: Prediction, samples: Samples, rho: FloatArray | None) -> dict[str, float]:
    """Every metric except the paired changes; MCE is NaN if no bin holds five samples."""
    confidence, correct = prediction.confidence, prediction.correct
    supported = np.bincount(equal_width_bins(confidence, N_BINS)).max() >= MIN_BIN_COUNT
    return headline_scores(prediction, samples, rho) | {
        "mce": metrics.mce(confidence, correct, min_count=MIN_BIN_COUNT) if supported else np.nan,
        "classwise_ece": metrics.classwise_ece(prediction.probabilities, samples.known_labels),
        "smooth_ece": metrics.smooth_ece(confidence, correct),
        "accuracy": float(correct.mean()),
    }


def paired_changes(scores: Mapping[str, float], reference: Mapping[str, float]) -> dict[str, float]:
    """NLL, Brier and accuracy minus those of the uncalibrated model on the same samples."""
    return {f"delta_{name}": scores[name] - reference[name] for name in ("nll", "brier", "accuracy")}


COUNTS_PER_BLOCK = 1 << 21
"""Resampling counts held at once (16 MB)."""
BOOTSTRAPPED = ("ece", "nll", "brier", "accuracy")


def resample_counts(n: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """(n_resamples, n) how often each sample is drawn in n draws with replacement."""
    drawn = rng.integers(0, n, (n_resamples, n)) + np.arange(n_resamples)[:, np.newaxis] * n
    return np.bincount(drawn.ravel(), minlength=n_resamples * n).reshape(n_resamples, n).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Sums:
    """Per-sample tables of one method, from which any resample's metrics follow.

    table : (n, 3 + 15) columns NLL, Brier, correct; residual t - c in its bin.
    """

    table: FloatArray

    @classmethod
    def of(cls, prediction: Prediction, labels: IntArray) -> Sums:
        confidence, n = prediction.confidence, labels.size
        rows = np.arange(n)
        own = prediction.probabilities[rows, labels]
        squares = np.einsum("nk,nk->n", prediction.probabilities, prediction.probabilities)
        losses = np.column_stack(
            [-np.log(np.maximum(own, PROBABILITY_FLOOR)), squares - 2 * own + 1, prediction.correct]
        )
        bins = equal_width_bins(confidence, N_BINS)
        cells = np.zeros((n, N_BINS))
        cells[rows, bins] = prediction.correct - confidence
        return cls(np.hstack([losses, cells]))

    def metrics(self, counts: FloatArray) -> dict[str, FloatArray]:
        """(resamples,) values of each of `BOOTSTRAPPED`."""
        n = counts.shape[1]
        sums = counts @ self.table
        losses, residuals = np.split(sums, [3], axis=1)
        return {
            "ece": np.abs(residuals).sum(axis=1) / n,
            "nll": losses[:, 0] / n,
            "brier": losses[:, 1] / n,
            "accuracy": losses[:, 2] / n,
        }
