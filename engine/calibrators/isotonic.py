"""Isotonic regression of correctness on confidence."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from engine.calibrators.base import Calibrator, Fitted, span
from engine.calibrators.samples import Samples, with_top_probability
from engine.core.labels import counted
from engine.core.types import FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedIsotonic(Fitted):
    """Linear interpolation between the knots, constant beyond them."""

    confidence: FloatArray
    value: FloatArray

    def transform(self, samples: Samples) -> FloatArray:
        return with_top_probability(samples, np.interp(samples.confidence, self.confidence, self.value))

    @property
    def learned(self) -> Mapping[str, object]:
        return {"confidence": self.confidence, "calibrated": self.value, "steps": int(np.unique(self.value).size)}

    @property
    def summary(self) -> str:
        return f"{counted(int(np.unique(self.value).size), 'step')}, calibrated confidence {span(self.value)}"


class IsotonicCalibration(Calibrator):
    """The non-decreasing function of c with the least squared distance to t (pool adjacent violators)."""

    name = "isotonic"
    label = "Isotonic regression"
    reference = "Zadrozny & Elkan 2002"
    keeps_argmax = False

    def fit_samples(self, samples: Samples) -> FittedIsotonic:
        knots, position = np.unique(samples.confidence, return_inverse=True)
        count = np.bincount(position)
        mean = np.bincount(position, samples.correct) / count
        value = np.clip(isotonic_regression(mean, weights=count).x, 0.0, 1.0)
        # Inside a constant stretch only its two ends matter.
        flat = np.concatenate(([False], (value[1:-1] == value[:-2]) & (value[1:-1] == value[2:]), [False]))[
            : value.size
        ]
        return FittedIsotonic(
            name=self.name,
            n_samples=samples.n_samples,
            n_classes=samples.n_classes,
            confidence=knots[~flat],
            value=value[~flat],
        )
