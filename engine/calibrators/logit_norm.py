"""LC: logits of unit length times one factor."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine import metrics
from engine.calibrators.base import Calibrator, Fitted
from engine.calibrators.samples import Samples, softmax_of_gaps, top_probability
from engine.core.types import FloatArray

_DECADES = (-1.0, 3.0)
_COARSE, _FINE, _ROUNDS = 33, 9, 3


def _unit_gaps(samples: Samples) -> FloatArray:
    """(n, K) gaps of z / ||z||; a sample whose logits are all 0 has gaps 0 whatever the length."""
    length = np.sqrt(np.einsum("ij,ij->i", samples.logits, samples.logits))
    return samples.gaps / np.where(length > 0, length, 1.0)[:, np.newaxis]


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedLogitNorm(Fitted):
    """softmax(factor * z / ||z||_2)."""

    factor: float
    calibration_ece: float

    def transform(self, samples: Samples) -> FloatArray:
        return softmax_of_gaps(_unit_gaps(samples), self.factor)

    @property
    def learned(self) -> Mapping[str, object]:
        return {"factor": self.factor, "ECE on the calibration half": self.calibration_ece}

    @property
    def summary(self) -> str:
        return (
            f"factor {self.factor:.3g} on logits of unit length; ECE {self.calibration_ece:.4f} on the calibration half"
        )


class LogitNormalisation(Calibrator):
    """min over the factor of the 15-bin ECE of softmax(factor * z / ||z||) on the calibration half.

    The ECE jumps as samples change bins, so the factor is found on a grid of log10 values (from a tenth to a thousand
    times the inverse mean gap) that is refined three times around its best point.
    """

    name = "lc"
    label = "Logit normalisation (LC)"
    reference = "the paper's internal baseline, after Wei et al. 2022"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedLogitNorm:
        gaps = _unit_gaps(samples)
        scale = float(gaps.mean())
        unit = 1 / scale if scale > 0 else 1.0

        def error(log_factor: float) -> float:
            return metrics.ece(top_probability(gaps, unit * 10**log_factor), samples.correct)

        low, high = _DECADES
        grid = np.linspace(low, high, _COARSE)
        errors = [error(value) for value in grid]
        best, best_error = float(grid[np.argmin(errors)]), min(errors)
        at_end = best in (low, high)
        spacing = grid[1] - grid[0]
        for _ in range(_ROUNDS):
            grid = best + np.linspace(-spacing, spacing, _FINE)
            errors = [error(value) for value in grid]
            if min(errors) < best_error:
                best, best_error = float(grid[np.argmin(errors)]), min(errors)
            spacing = grid[1] - grid[0]
        return FittedLogitNorm(
            name=self.name,
            n_samples=samples.n_samples,
            n_classes=samples.n_classes,
            converged=not at_end,
            note="the best factor lies at the end of the range searched" if at_end else "",
            factor=unit * 10**best,
            calibration_ece=best_error,
        )
