"""Histogram binning of the confidence."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.calibrators.base import Calibrator, Fitted, span
from engine.calibrators.samples import Samples, with_top_probability
from engine.core.binning import N_BINS, equal_width_bins
from engine.core.labels import counted
from engine.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedHistogram(Fitted):
    """The top probability becomes the accuracy of its confidence bin; an empty bin leaves it as it is."""

    accuracy: FloatArray
    count: IntArray

    def transform(self, samples: Samples) -> FloatArray:
        bins = equal_width_bins(samples.confidence, self.count.size)
        return with_top_probability(samples, np.where(self.count[bins] > 0, self.accuracy[bins], samples.confidence))

    @property
    def learned(self) -> Mapping[str, object]:
        return {"accuracy by bin": self.accuracy, "samples by bin": self.count}

    @property
    def summary(self) -> str:
        filled = self.count > 0
        return f"accuracies {span(self.accuracy[filled])} in {filled.sum()} of {counted(self.count.size, 'bin')}"


class HistogramBinning(Calibrator):
    """Accuracy of 15 equal-width bins of c = max_k p_k; may flip the argmax where a bin's accuracy is low."""

    name = "hb"
    label = "Histogram binning"
    reference = "Zadrozny & Elkan 2001"
    keeps_argmax = False

    def fit_samples(self, samples: Samples) -> FittedHistogram:
        bins = equal_width_bins(samples.confidence, N_BINS)
        count = np.bincount(bins, minlength=N_BINS)
        hits = np.bincount(bins, samples.correct, N_BINS)
        return FittedHistogram(
            name=self.name,
            n_samples=samples.n_samples,
            n_classes=samples.n_classes,
            accuracy=np.divide(hits, count, out=np.zeros(N_BINS), where=count > 0),
            count=count,
        )
