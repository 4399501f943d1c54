"""Where a run is over- or under-confident: the summary, and the same by predicted class."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from engine import metrics
from engine.core import validation
from engine.core.binning import N_BINS, equal_width_bins
from engine.core.pvalues import wilson_interval
from engine.core.types import FloatArray
from engine.metrics.debiased import DebiasedEce, debiased_ece

Direction = Literal["over", "under", "neither"]


@dataclass(frozen=True)
class CalibrationSummary:
    """Accuracy against mean confidence, and the ECE beside what noise alone would give.

    accuracy_low, accuracy_high : 95 % Wilson interval. ece_if_calibrated : see `expected_ece`. debiased : the ECE
    without noise, with its interval.
    """

    n_samples: int
    n_bins: int
    ece: float
    ece_if_calibrated: float
    debiased: DebiasedEce
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    mean_confidence: float

    @property
    def gap(self) -> float:
        """Accuracy minus mean confidence: negative for an over-confident run."""
        return self.accuracy - self.mean_confidence

    @property
    def direction(self) -> Direction:
        """Over- or under-confident on average, where the interval of the accuracy leaves no doubt."""
        if self.accuracy_low <= self.mean_confidence <= self.accuracy_high:
            return "neither"
        return "under" if self.gap > 0 else "over"


def expected_ece(confidence: ArrayLike, *, n_bins: int = N_BINS) -> float:
    """ECE that these confidences would show, on average, if every one of them were true.

    The residual sum of a bin then has mean 0 and variance V_b = sum c (1 - c); with the mean absolute value of a normal
    variable, E[ECE] = (1 / n) sum_b sqrt(2 V_b / pi). An ECE near this value is no sign of miscalibration.
    """
    checked = validation.confidence(confidence).astype(np.float64, copy=False)
    n_bins = validation.bins(n_bins)
    bins = equal_width_bins(checked, n_bins)
    variance = np.bincount(bins, weights=checked * (1 - checked), minlength=n_bins)
    return float(np.sqrt(2 * variance / np.pi).sum() / checked.size)


def calibration_summary(confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = N_BINS) -> CalibrationSummary:
    """ECE (equal-width bins), accuracy with its interval and mean confidence of one set of predictions."""
    checked = validation.confidence(confidence)
    hits = validation.correct(correct, checked.size)
    low, high = wilson_interval(hits.sum(), checked.size)
    return CalibrationSummary(
        n_samples=checked.size,
        n_bins=n_bins,
        ece=metrics.ece(checked, hits, n_bins=n_bins),
        ece_if_calibrated=expected_ece(checked, n_bins=n_bins),
        debiased=debiased_ece(checked, hits, n_bins=n_bins),
        accuracy=float(hits.mean()),
        accuracy_low=float(low),
        accuracy_high=float(high),
        mean_confidence=float(checked.mean(dtype=np.float64)),
    )


def class_table(
    confidence: ArrayLike, correct: ArrayLike, predictions: ArrayLike, *, n_bins: int = N_BINS
) -> pd.DataFrame:
    """One row per predicted class: count, accuracy, mean confidence, signed gap with an interval, ECE.

    Grouped by the predicted class, which is known when the confidence is read; grouping by the true class would make
    even a calibrated model look wrong. The interval of the gap is the accuracy's 95 % Wilson interval minus the mean
    confidence. Classes that are never predicted have no row.
    """
    checked = validation.confidence(confidence).astype(np.float64, copy=False)
    hits = validation.correct(correct, checked.size)
    classes, index = np.unique(validation.vector("predictions", predictions, checked.size), return_inverse=True)
    counts = np.bincount(index)
    n_correct = np.bincount(index, weights=hits)
    mean_confidence: FloatArray = np.bincount(index, weights=checked) / counts
    low, high = wilson_interval(n_correct, counts)
    n_bins = validation.bins_of_groups(n_bins, classes.size)
    cells = index * n_bins + equal_width_bins(checked, n_bins)
    residuals = np.bincount(cells, weights=hits - checked, minlength=classes.size * n_bins)
    return pd.DataFrame(
        {
            "predicted": classes.astype(np.int64),
            "count": counts,
            "accuracy": n_correct / counts,
            "mean_confidence": mean_confidence,
            "gap": n_correct / counts - mean_confidence,
            "gap_low": low - mean_confidence,
            "gap_high": high - mean_confidence,
            "ece": np.abs(residuals.reshape(classes.size, n_bins)).sum(axis=1) / counts,
        }
    )
