"""Rounded or tied confidence: a feature related to the lost digits then passes for one that knows more."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.labels import counted
from engine.core.types import FloatArray

_DECIMALS = (1, 2, 3, 4)
_FEW = 30  # samples; fewer may be round numbers by accident, or written by hand


@dataclass(frozen=True)
class Rounding:
    """Too few digits of confidence: `n_distinct` values in `n_samples`, and their decimal step if they have one."""

    n_samples: int
    n_distinct: int
    step: float | None

    @property
    def sentence(self) -> str:
        """The warning, with its remedy."""
        how = "has many ties" if self.step is None else f"is rounded to {counted(round(-np.log10(self.step)), 'digit')}"
        return (
            f"Confidence {how}: {counted(self.n_distinct, 'distinct value')} in {counted(self.n_samples, 'sample')}. "
            "A feature related to the lost digits then looks informative, so the tests can raise many false alarms. "
            "Store confidence with more digits, or import logits."
        )


def find_rounding(confidence: ArrayLike) -> Rounding | None:
    """Whether fewer than a third of the confidences are distinct, or all are multiples of 10^-4 or of a coarser step.

    0.37 stored in single precision still counts as a multiple of 0.01; 1 - 1e-9 does not count as 1. Of the float32
    numbers in [0.5, 1) only 6 in 10,000 are multiples of 10^-4, so the ten or more distinct values that 30 samples
    without many ties have are not all multiples by accident. Below 30 samples only ties count.
    """
    checked = validation.confidence(confidence)
    distinct: FloatArray = np.unique(checked).astype(np.float64)
    step = next((10.0**-decimals for decimals in _DECIMALS if _on_grid(distinct, decimals)), None)
    if distinct.size < checked.size / 3 or (step is not None and checked.size >= _FEW):
        return Rounding(checked.size, distinct.size, step)
    return None


def _on_grid(values: FloatArray, decimals: int) -> bool:
    grid = np.round(values, decimals)
    same = (grid.astype(np.float32) == values.astype(np.float32)) & (grid > 0) & (grid < 1)
    return bool((same | (grid == values)).all())
