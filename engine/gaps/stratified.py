"""Stratified tests of rho against correctness: confidence bins are the strata.

They use every bin, or every sample, where the max gap listens to one bin only. Each has a null mean and variance that
are exact under permutation of rho inside bins, a normal p-value from them, and on request a permutation p-value.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr

from engine.core import validation
from engine.core.binning import Matching
from engine.core.labels import counted
from engine.core.types import FloatArray
from engine.gaps.settings import matches_confidence

SMALLEST_P = float(np.finfo(np.float64).tiny)
NOTHING_TO_TEST = "no confidence bin in which both correctness and the feature vary, so there is nothing to test"
PValueMethod = Literal["asymptotic", "permutation"]


@dataclass(frozen=True, eq=False)
class StratifiedResult:
    """One stratified test.

    `p_value` is the one asked for by `method`; both are None, with the reason in `notes`, when the data cannot move
    the statistic (no stratum in which both correctness and rho vary). `effect` is in units of accuracy and signed:
    positive means that larger rho goes with more correct predictions; `standard_error` is that of the effect where rho
    is permuted inside bins, None for tests that do not state it.
    """

    test: str
    p_value: float | None
    z: float | None
    effect: float | None
    p_asymptotic: float | None
    p_permutation: float | None
    method: PValueMethod
    n_strata: int
    n_informative: int
    matching: Matching
    notes: tuple[str, ...]
    standard_error: float | None = None

    @property
    def matched(self) -> bool:
        """Whether there were bins enough to match confidence; otherwise a rejection may be confidence itself."""
        return matches_confidence(self.n_strata)


def two_sided(z: float | FloatArray) -> FloatArray:
    """P(|N(0, 1)| >= |z|), never below the smallest positive double; missing where z is."""
    return np.maximum(2 * ndtr(-np.abs(z)), SMALLEST_P)


def matching_notes(n_bins: int) -> tuple[str, ...]:
    """What has to be said of a test over this many bins: nothing, or that they do not match confidence."""
    return () if matches_confidence(n_bins) else (f"confidence is not matched by {counted(n_bins, 'bin')}",)


def untestable(test: str, method: PValueMethod, n_strata: int, matching: Matching) -> StratifiedResult:
    """The result for data that cannot move the statistic."""
    return StratifiedResult(test, None, None, None, None, None, method, n_strata, 0, matching, (NOTHING_TO_TEST,))


def check_method(method: PValueMethod) -> None:
    """Refuse anything but the two kinds of p-value."""
    validation.choice("method", method, get_args(PValueMethod))
