"""The matched-confidence gap: low against high tertile of rho, inside bins of confidence."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.binning import N_BINS, TERTILE_QUANTILES, Matching
from engine.core.contingency import Contingency, tabulate
from engine.core.types import BoolArray, IntArray
from engine.gaps.settings import MIN_SUPPORT


@dataclass(frozen=True, eq=False)
class GapResult:
    """Gaps between the low and the high tertile over the bins that both share.

    A bin is shared if it holds at least `min_support` samples of each. With weights w_b = min(n_low, n_high),
    max gap = max_b |acc_low - acc_high|, weighted gap = sum_b w_b |acc_low - acc_high| / sum_b w_b; the signed
    weighted gap drops the absolute value (positive: the low tertile is more often right). All three are None, and
    `notes` says why, when no bin is shared.
    """

    contingency: Contingency
    min_support: int
    max_gap: float | None
    weighted_gap: float | None
    signed_gap: float | None
    notes: tuple[str, ...]

    @cached_property
    def shared(self) -> BoolArray:
        """(n_bins,) whether both outer tertiles have enough samples in the bin."""
        return shared_bins(self.contingency, self.min_support)

    @property
    def n_shared(self) -> int:
        return int(self.shared.sum())

    @property
    def n_bins(self) -> int:
        return self.contingency.n_bins

    @cached_property
    def weights(self) -> IntArray:
        """min(n_low, n_high) of the shared bins."""
        sizes = self.contingency.sizes[self.shared]
        return np.minimum(sizes[:, 0], sizes[:, 2])

    @property
    def support(self) -> tuple[float, float, float] | None:
        """Minimum, 25th percentile and median of the weights; None without a shared bin."""
        if self.n_shared == 0:
            return None
        low, quarter, middle = np.percentile(self.weights, [0, 25, 50])
        return float(low), float(quarter), float(middle)

    @property
    def bins(self) -> pd.DataFrame:
        """One row per bin: samples and accuracy of each tertile, gap (low - high), shared; missing where empty."""
        sizes, hits = self.contingency.sizes, self.contingency.n_correct
        accuracy = np.divide(hits, sizes, out=np.full(sizes.shape, np.nan), where=sizes > 0)
        columns: dict[str, ArrayLike] = {"bin": np.arange(1, self.n_bins + 1)}
        for index, name in enumerate(("low", "mid", "high")):
            columns[f"n_{name}"] = sizes[:, index]
            columns[f"accuracy_{name}"] = accuracy[:, index]
        columns["gap"] = accuracy[:, 0] - accuracy[:, 2]
        columns["shared"] = self.shared
        return pd.DataFrame(columns)


def shared_bins(contingency: Contingency, min_support: int) -> BoolArray:
    """(n_bins,) bins with at least `min_support` low and high samples."""
    sizes = contingency.sizes
    return np.minimum(sizes[:, 0], sizes[:, 2]) >= min_support


def gap_of_counts(contingency: Contingency, min_support: int = MIN_SUPPORT) -> GapResult:
    """The gap of counts that were tabulated before."""
    validation.whole("min_support", min_support, 1)
    shared = shared_bins(contingency, min_support)
    notes = [
        f"the {name} tertile is empty: the cuts leave it no sample (tied values, or too few samples)"
        for name in contingency.empty_tertiles
    ]
    if not shared.any():
        notes.append(
            f"no confidence bin holds at least {min_support} samples of both outer tertiles, so no gap can be measured"
        )
        return GapResult(contingency, min_support, None, None, None, tuple(notes))
    sizes, hits = contingency.sizes[shared], contingency.n_correct[shared]
    gaps = hits[:, 0] / sizes[:, 0] - hits[:, 2] / sizes[:, 2]
    weights = np.minimum(sizes[:, 0], sizes[:, 2])
    return GapResult(
        contingency,
        min_support,
        max_gap=float(np.abs(gaps).max()),
        weighted_gap=float(weights @ np.abs(gaps) / weights.sum()),
        signed_gap=float(weights @ gaps / weights.sum()),
        notes=tuple(notes),
    )


def matched_gap(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    n_bins: int = N_BINS,
    min_support: int = MIN_SUPPORT,
    matching: Matching = "equal_width",
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
) -> GapResult:
    """Low-against-high tertile gap in accuracy at matched confidence (protocol, section 4)."""
    contingency = tabulate(confidence, correct, rho, n_bins=n_bins, matching=matching, quantiles=quantiles)
    return gap_of_counts(contingency, min_support)
