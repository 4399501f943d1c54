"""Routing across depth, samples and training (protocol, section 7). Confidence is not held fixed here."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import mannwhitneyu, norm, spearmanr

from engine.core import validation
from engine.core.binning import (
    LEVEL,
    N_BINS,
    TERTILE_QUANTILES,
    TERTILES,
    equal_width_bins,
    histogram_edges,
    quantile_groups,
    tertiles,
)
from engine.core.errors import InvalidInput
from engine.core.types import BoolArray, FloatArray, IntArray

MIN_CELL_COUNT = 5
_HISTOGRAM_BINS = 40
_CURVE_BINS = 20


@dataclass(frozen=True, eq=False)
class DepthProfile:
    """One value per layer and sample, summarised over samples.

    Attributes
    ----------
    names : L layer names in depth order. n_sources : how many sources each mixes, None where nobody knows.
    mean, std : (L,) over all samples, population standard deviation.
    mean_correct, mean_wrong : (L,) over correct and wrong predictions; missing values where there are none.
    """

    names: tuple[str, ...]
    n_sources: tuple[int | None, ...]
    mean: FloatArray
    std: FloatArray
    mean_correct: FloatArray
    mean_wrong: FloatArray

    @property
    def lowest(self) -> int:
        return int(self.mean.argmin())

    @property
    def highest(self) -> int:
        return int(self.mean.argmax())


def depth_profile(
    values: ArrayLike,
    correct: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    n_sources: Sequence[int | None] | None = None,
) -> DepthProfile:
    """Mean and standard deviation over samples of (n, L) values: the profile H_1..H_L, or a stand-in (block norms)."""
    profile = validation.matrix("values", values)
    hits = validation.correct(correct, profile.shape[0])
    n_layers = profile.shape[1]
    if n_layers == 0:
        raise InvalidInput("values", "at least one layer", f"shape {profile.shape}")
    numbered = [f"layer {layer}" for layer in range(1, n_layers + 1)]
    labels = validation.names("names", numbered if names is None else names, n_layers)
    sources = _sources(n_sources, n_layers)
    return DepthProfile(
        labels, sources, profile.mean(axis=0), profile.std(axis=0), _mean_of(profile, hits), _mean_of(profile, ~hits)
    )


def _sources(n_sources: Sequence[int | None] | None, n_layers: int) -> tuple[int | None, ...]:
    if n_sources is None:
        return (None,) * n_layers
    if not isinstance(n_sources, Sequence) or len(n_sources) != n_layers:
        raise InvalidInput("n_sources", f"{n_layers} entries, one per layer", validation.shown(n_sources))
    return tuple(None if count is None else validation.whole("n_sources", count, 1) for count in n_sources)


def _mean_of(profile: FloatArray, rows: BoolArray) -> FloatArray:
    if not rows.any():
        return np.full(profile.shape[1], np.nan)
    mean: FloatArray = profile[rows].mean(axis=0)
    return mean


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation with a 95 % interval (None for fewer than four samples) and a two-sided p-value."""

    value: float
    low: float | None
    high: float | None
    p_value: float
    n_samples: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def spearman(first: ArrayLike, second: ArrayLike) -> RankCorrelation | None:
    """Spearman's rank correlation; None if either side does not vary, or for fewer than three samples.

    The interval is Fisher's, tanh(atanh r -+ z s) with Bonett & Wright's (2000) s^2 = (1 + r^2 / 2) / (n - 3), which
    holds its level for ranks where s^2 = 1 / (n - 3) does not. The p-value is that of t with n - 2 degrees of freedom.
    """
    x = validation.vector("first", first)
    y = validation.vector("second", second, x.size)
    if x.size < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    found = spearmanr(x, y)
    r = float(found.statistic)
    low = high = None
    if x.size > 3:
        centre = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
        half = norm.ppf((1 + LEVEL) / 2) * np.sqrt((1 + r**2 / 2) / (x.size - 3))
        low, high = float(np.tanh(centre - half)), float(np.tanh(centre + half))
    return RankCorrelation(r, low, high, float(found.pvalue), int(x.size))


@dataclass(frozen=True, eq=False)
class OutcomeComparison:
    """A feature's distribution over correct and over wrong predictions.

    Attributes
    ----------
    edges : (B + 1,) shared histogram edges. share_correct, share_wrong : (B,) shares of each group, zero if empty.
    mean_correct, mean_wrong : None for an empty group.
    separation : P(wrong > correct) + P(equal) / 2, the area under the ROC curve of the feature as a detector of errors;
        0.5 for none. p_value : Mann-Whitney, two-sided. Both are None if a group is empty.
    """

    edges: FloatArray
    share_correct: FloatArray
    share_wrong: FloatArray
    n_correct: int
    n_wrong: int
    mean_correct: float | None
    mean_wrong: float | None
    separation: float | None
    p_value: float | None


def compare_outcomes(rho: ArrayLike, correct: ArrayLike, *, n_bins: int = _HISTOGRAM_BINS) -> OutcomeComparison:
    """The distributions of rho for correct and wrong predictions, and how far apart they are."""
    values = validation.vector("rho", rho).astype(np.float64, copy=False)
    hits = validation.correct(correct, values.size)
    edges = histogram_edges(values, validation.bins(n_bins))
    groups = {"correct": values[hits], "wrong": values[~hits]}
    shares = {name: np.histogram(group, edges)[0] / max(group.size, 1) for name, group in groups.items()}
    separation = p_value = None
    if all(group.size for group in groups.values()):
        test = mannwhitneyu(groups["wrong"], groups["correct"], method="asymptotic")
        separation = float(test.statistic) / (groups["wrong"].size * groups["correct"].size)
        # Values that are all equal leave the test without a variance: nothing to see.
        p_value = 1.0 if np.ptp(values) == 0 else float(test.pvalue)
    means = {name: float(group.mean()) if group.size else None for name, group in groups.items()}
    return OutcomeComparison(
        edges, shares["correct"], shares["wrong"], groups["correct"].size, groups["wrong"].size,
        means["correct"], means["wrong"], separation, p_value,
    )  # fmt: skip


def error_curve(
    confidence: ArrayLike, correct: ArrayLike, rho: ArrayLike, *, n_bins: int = _CURVE_BINS
) -> pd.DataFrame:
    """Mean error |c - t| by quantile groups of rho, with 95 % t intervals, beside what confidence alone would give.

    Columns: rho (mean of the group), count, error, error_low, error_high, expected. `expected` is the group's mean of
    2 c (1 - c), the mean of |c - t| for a calibrated model: a curve that follows it says nothing beyond confidence.
    Tied values of rho stay in one group, so there may be fewer groups than asked for. The interval of a group of one is
    missing.
    """
    checked_confidence, checked_correct, values = validation.samples(confidence, correct, rho)
    n_bins = validation.bins(n_bins)
    groups = quantile_groups(values, n_bins)
    c = checked_confidence.astype(np.float64, copy=False)
    error = np.abs(c - checked_correct)
    low, high = groups.interval(error)
    return pd.DataFrame(
        {
            "rho": groups.mean(values),
            "count": groups.counts,
            "error": groups.mean(error),
            "error_low": low,
            "error_high": high,
            "expected": groups.mean(2 * c * (1 - c)),
        }
    )


@dataclass(frozen=True, eq=False)
class ErrorRelation:
    """How a feature goes with being wrong: Spearman with |c - t| (None if it cannot be ranked), groups and curve."""

    spearman: RankCorrelation | None
    outcomes: OutcomeComparison
    curve: pd.DataFrame


def relate_to_error(confidence: ArrayLike, correct: ArrayLike, rho: ArrayLike) -> ErrorRelation:
    """Spearman of rho with |c - t|, its distribution by outcome and its error curve."""
    checked_confidence, checked_correct, values = validation.samples(confidence, correct, rho)
    return ErrorRelation(
        spearman(values, np.abs(checked_confidence - checked_correct)),
        compare_outcomes(values, checked_correct),
        error_curve(checked_confidence, checked_correct, values),
    )


@dataclass(frozen=True, eq=False)
class ReliabilityMap:
    """Signed accuracy minus confidence by tertile of rho and confidence bin.

    gap : (3, n_bins), missing where a cell holds fewer than `min_count` samples. counts : (3, n_bins).
    """

    gap: FloatArray
    counts: IntArray
    cuts: tuple[float, float]
    empty: tuple[str, ...]
    min_count: int

    @property
    def largest(self) -> tuple[str, int] | None:
        """Tertile and bin (from 0) of the cell that is furthest off; None if all are blank."""
        if np.isnan(self.gap).all():
            return None
        tertile, column = np.unravel_index(np.nanargmax(np.abs(self.gap)), self.gap.shape)
        return TERTILES[int(tertile)], int(column)


def reliability_map(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    n_bins: int = N_BINS,
    min_count: int = MIN_CELL_COUNT,
    quantiles: tuple[float, float] = TERTILE_QUANTILES,
) -> ReliabilityMap:
    """acc - conf in each cell (tertile x equal-width bin) that holds at least `min_count` samples."""
    checked_confidence, checked_correct, values = validation.samples(confidence, correct, rho)
    validation.whole("min_count", min_count, 1)
    groups = tertiles(values, quantiles)
    n_bins = validation.bins(n_bins)
    cells = groups.index * n_bins + equal_width_bins(checked_confidence, n_bins)
    counts = np.bincount(cells, minlength=3 * n_bins).reshape(3, n_bins)
    sums = np.bincount(cells, weights=checked_correct - checked_confidence, minlength=3 * n_bins).reshape(3, n_bins)
    gap = np.divide(sums, counts, out=np.full((3, n_bins), np.nan), where=counts >= min_count)
    return ReliabilityMap(gap, counts, groups.cuts, groups.empty, min_count)


@dataclass(frozen=True, eq=False)
class TrainingEntropy:
    """Mean routing entropy by layer (rows, numbered from 1) and sampled epoch (columns); missing where not sampled."""

    epochs: IntArray
    layers: IntArray
    mean: FloatArray

    @property
    def change(self) -> FloatArray:
        """(L,) last sampled epoch minus the first."""
        difference: FloatArray = self.mean[:, -1] - self.mean[:, 0]
        return difference


def training_entropy(epochs: pd.DataFrame) -> TrainingEntropy | None:
    """The `epochs` table of a run as a matrix; None if nothing was sampled."""
    if epochs.empty:
        return None
    wide = epochs.pivot_table(index="layer", columns="epoch", values="mean_entropy")
    return TrainingEntropy(wide.columns.to_numpy(np.int64), wide.index.to_numpy(np.int64), wide.to_numpy(np.float64))
