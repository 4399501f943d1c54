"""Simulated data sets with a known answer, on the confidence and rho of a run.

Correctness is drawn from accuracy that depends on confidence alone, or that has an effect planted in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from engine.core import validation
from engine.core.binning import Matching, confidence_bins, tertiles
from engine.core.errors import InvalidInput
from engine.core.pvalues import wilson_interval
from engine.core.types import BoolArray, FloatArray, IntArray
from engine.gaps.combined import CombinedBatch, combined_test
from engine.gaps.settings import Preset, TestSettings, primary_bins
from engine.gaps.shape import confidence_model, logistic_fit, unit_rank
from engine.gaps.statistics import STATISTICS, TESTS, Partition
from engine.gaps.statistics.base import Samples

VERDICT = "verdict"
SIMULATED = (VERDICT, *TESTS)
"""Tests that can be tried on simulated data sets."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The samples sorted by tertile, then confidence, so that every cell of every matching is one contiguous run.

    `rank` is each sample's place by confidence, ties in their original order: equal-mass bins are cut by it, or ties
    would be dealt out by tertile.
    """

    confidence: FloatArray
    rank: FloatArray
    rho: FloatArray
    groups: IntArray

    @classmethod
    def of(cls, confidence: FloatArray, rho: FloatArray, quantiles: tuple[float, float]) -> tuple[Layout, IntArray]:
        """The layout and the order of the original samples in it."""
        groups = tertiles(rho, quantiles).index
        rank = np.empty(rho.size)
        rank[np.argsort(confidence, kind="stable")] = np.arange(rho.size)
        order = np.lexsort((rank, groups))
        return cls(confidence[order], rank[order], rho[order], groups[order]), order

    def bins(self, n_bins: int, matching: Matching) -> IntArray:
        """The bins that the samples have in their original order."""
        return confidence_bins(self.confidence if matching == "equal_width" else self.rank, n_bins, matching)


class BatchTest:
    """One preset on one run: fixed partition, p-values of a batch of outcomes."""

    def __init__(self, preset: Preset, layout: Layout, min_support: int) -> None:
        validation.choice("statistic", preset.statistic, STATISTICS)
        self.preset, self.statistic = preset, STATISTICS[preset.statistic]
        self.label = preset.label
        self._n_bins = preset.bins_for(layout.rho.size)
        bins = layout.bins(self._n_bins, preset.matching)
        cells = layout.groups * self._n_bins + bins
        self._cell_starts = np.concatenate(([0], np.flatnonzero(np.diff(cells)) + 1))
        self._cells = cells[self._cell_starts]
        sizes = np.bincount(cells, minlength=3 * self._n_bins).reshape(3, self._n_bins)
        self.partition = Partition(bins, layout.rho, sizes, np.minimum(sizes[0], sizes[2]) >= min_support)

    @property
    def width(self) -> int:
        """Values that `summarise` holds of one outcome: its samples, or its counts where bins are more than samples."""
        return max(self.partition.bins.size, self.partition.sizes.size)

    @property
    def summary_width(self) -> int:
        """Values that `summarise` returns of one outcome."""
        return self.statistic.summary_width(self.partition)

    def summarise(self, correct: BoolArray, accuracy: FloatArray | None = None) -> FloatArray:  # noqa: ARG002
        """(R, d) all that the statistic needs of (R, n) outcomes in layout order, whatever they were drawn from."""
        counts = np.zeros((len(correct), 3 * self._n_bins))
        counts[:, self._cells] = np.add.reduceat(correct, self._cell_starts, axis=1, dtype=np.int32)
        return self.statistic.summarise(self.partition, correct, counts.reshape(-1, 3, self._n_bins))

    def pvalues(self, summary: FloatArray) -> FloatArray:
        """(R,) p-values of summarised outcomes; missing (NaN) where an outcome cannot be tested.

        Nulls are computed once for each number of correct samples in a bin, so ask for all outcomes together.
        """
        return self.statistic.batch_pvalues(self.partition, summary)

    def p_value(self, samples: Samples, settings: TestSettings) -> float | None:
        """Of the run itself."""
        n_bins, matching = self.preset.bins_for(samples[2].size), self.preset.matching
        return self.statistic.p_value(samples, n_bins, matching, settings)


class VerdictTest:
    """The combined test, with the interface of `BatchTest`; its summaries are p-values already."""

    label = "the verdict (trend and shape)"
    summary_width = 1

    def __init__(self, layout: Layout) -> None:
        self._batch = CombinedBatch(layout.confidence, layout.rho, layout.rank)
        self.width = 4 * layout.rho.size  # it works in double precision

    def summarise(self, correct: BoolArray, accuracy: FloatArray) -> FloatArray:
        return self._batch.pvalues(correct, accuracy)[:, None]

    def pvalues(self, summary: FloatArray) -> FloatArray:
        return summary[:, 0]

    def p_value(self, samples: Samples, settings: TestSettings) -> float | None:  # noqa: ARG002
        return combined_test(*samples).p_value


def chunks(n_replicates: int, width: int, budget: int = 8_000_000) -> list[int]:
    """Sizes of batches of replicates, each of `width` values in memory (`BatchTest.width`), that fit a fixed budget."""
    size = max(1, min(n_replicates, budget // width))
    return [size] * (n_replicates // size) + ([n_replicates % size] if n_replicates % size else [])


Fit = Literal["logistic", "spline", "isotonic", "restored"]
FITS: tuple[Fit, ...] = get_args(Fit)
"""Of accuracy on confidence: the worlds of the negative control."""
_CLIP = 1e-6


def accuracy_given_confidence(confidence: FloatArray, correct: BoolArray, fit: Fit = "logistic") -> FloatArray:
    """(n,) probability of being correct as a function of confidence alone, fitted to this run.

    logistic : expit(a + b logit(c)). spline : a logistic model with cubic splines of the rank of c.
    isotonic : the non-decreasing least-squares fit.
    """
    validation.choice("fit", fit, FITS[:3])
    if fit == "isotonic":
        # Equal confidence must have equal probability, so the fit is over distinct values, weighted by their counts.
        _, group = np.unique(confidence, return_inverse=True)
        counts = np.bincount(group)
        fitted = isotonic_regression(np.bincount(group, weights=correct) / counts, weights=counts).x
        return fitted[group].clip(0, 1)
    target = correct.astype(np.float64)
    if fit == "spline":
        return logistic_fit(confidence_model(confidence, unit_rank(confidence)), target)
    log_odds = logit(confidence.astype(np.float64).clip(_CLIP, 1 - _CLIP))
    return logistic_fit(np.column_stack([np.ones(confidence.size), log_odds]), target)


def restore_digits(confidence: FloatArray, rho: FloatArray) -> FloatArray:
    """(n,) confidences whose ties are undone in the order of rho: the worst that lost digits can have hidden.

    Equal values are spread evenly over the interval between the midpoints to their neighbours, inside [0, 1].
    """
    distinct, group, counts = np.unique(confidence.astype(np.float64), return_inverse=True, return_counts=True)
    middle = (distinct[1:] + distinct[:-1]) / 2
    # The outermost values reach as far outwards as inwards.
    low = np.concatenate([distinct[:1] - (middle[:1] - distinct[:1]), middle]).clip(0, 1)
    high = np.concatenate([middle, distinct[-1:] + (distinct[-1:] - middle[-1:])]).clip(0, 1)
    order = np.lexsort((rho, group))
    place = np.empty(rho.size)
    place[order] = np.arange(rho.size) - (np.cumsum(counts) - counts)[group[order]] + 0.5
    return low[group] + (high - low)[group] * place / counts[group]


def world(confidence: FloatArray, correct: BoolArray, rho: FloatArray, fit: Fit) -> FloatArray:
    """(n,) accuracies of a world in which only confidence matters, as recorded or, for `restored`, before rounding."""
    if fit != "restored":
        return accuracy_given_confidence(confidence, correct, fit)
    whole = restore_digits(confidence, rho) if np.unique(confidence).size > 1 else confidence
    return accuracy_given_confidence(whole, correct, "logistic")


Shape = Literal["monotone", "U", "opposite signs"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
Scale = Literal["accuracy", "odds"]
SCALES: tuple[Scale, ...] = get_args(Scale)


def sides(shape: Shape, groups: IntArray, bins: IntArray) -> IntArray:
    """(n,) 1 where a planted effect of this shape raises accuracy, -1 where it lowers it, 0 where it leaves it.

    monotone : the low against the high third of rho. U : the middle third against the outer two. opposite signs :
    low against high in the upper half of confidence, high against low in the lower half.
    """
    validation.choice("shape", shape, SHAPES)
    outer: IntArray = np.array([1, 0, -1])[groups]
    if shape == "U":
        return np.array([-1, 1, -1])[groups]
    if shape == "opposite signs":
        return np.where(bins >= (int(bins.max()) + 1) / 2, outer, -outer)
    return outer


def plant_gap(
    probability: FloatArray, bins: IntArray, side: IntArray, delta: float, scale: Scale = "accuracy"
) -> FloatArray:
    """(n,) probabilities in which the one side is right more often than the other by delta at matched confidence.

    Within each bin of n_+ and n_- samples on the two sides, the one gains delta n_- / (n_+ + n_-) and the other loses
    delta n_+ / (n_+ + n_-), which keeps the bin's accuracy. Where that would leave [0, 1] both are moved together:
    the gap stays delta and the bin's accuracy gives way. On the odds scale the same is done to log-odds, with the
    distance delta / mean(p (1 - p)), so that the mean gap in accuracy is about delta.
    """
    validation.choice("scale", scale, SCALES)
    n_bins = int(bins.max()) + 1
    gaining, losing = (np.bincount(bins[side == sign], minlength=n_bins) for sign in (1, -1))
    share = (losing / np.maximum(gaining + losing, 1))[bins]
    if scale == "odds":
        distance = delta / max(float((probability * (1 - probability)).mean()), _CLIP)
        log_odds = logit(probability.clip(_CLIP, 1 - _CLIP))
        moved: FloatArray = expit(log_odds + distance * np.select([side == 1, side == -1], [share, share - 1], 0.0))
        return np.where(side == 0, probability, moved)
    up, down = probability + delta * share, probability + delta * share - delta
    back = np.maximum(up - 1, 0) - np.maximum(-down, 0)
    return np.select([side == 1, side == -1], [up - back, down - back], probability).clip(0, 1)


class Simulator:
    """A run laid out once, with the tests prepared on it: what is simulated is correctness alone.

    tests : names of `TESTS`, and `verdict`, the combined test that verdicts rest on.
    """

    def __init__(
        self,
        confidence: ArrayLike,
        correct: ArrayLike,
        rho: ArrayLike,
        tests: Sequence[str],
        settings: TestSettings,
    ) -> None:
        samples = validation.samples(confidence, correct, rho)
        if isinstance(tests, str) or not isinstance(tests, Sequence) or not tests:
            raise InvalidInput("tests", f"a list of one or more of: {', '.join(SIMULATED)}", repr(tests))
        for test in tests:
            validation.choice("tests", test, SIMULATED)
        self.layout, self.order = Layout.of(samples[0], samples[2], settings.quantiles)
        self._samples, self._settings = samples, settings
        self.bins = self.layout.bins(primary_bins(self.n_samples), "equal_mass")
        self.tests: dict[str, BatchTest | VerdictTest] = {
            test: VerdictTest(self.layout)
            if test == VERDICT
            else BatchTest(TESTS[test].over(settings.n_bins), self.layout, settings.min_support)
            for test in tests
        }

    @property
    def n_samples(self) -> int:
        return self.layout.rho.size

    def p_value(self, test: str) -> float | None:
        """Of the run itself."""
        return self.tests[test].p_value(self._samples, self._settings)

    def world(self, fit: Fit) -> FloatArray:
        """Accuracies in layout order where only confidence matters (`world`)."""
        return world(*self._samples, fit)[self.order]

    def planted(self, accuracy: FloatArray, delta: float, shape: Shape, scale: Scale) -> FloatArray:
        """The same with a gap in it, in the bins of the primary test."""
        return plant_gap(accuracy, self.bins, sides(shape, self.layout.groups, self.bins), delta, scale)

    def check(self, n_replicates: int, n_points: int) -> None:
        """Refuse more simulations than the summaries of all of them leave memory for."""
        kept = sum(test.summary_width for test in self.tests.values())
        validation.draws("n_replicates", n_replicates, width=n_points * kept)

    def summarise(
        self, accuracies: Sequence[FloatArray], n_replicates: int, seed: Sequence[int]
    ) -> dict[str, list[FloatArray]]:
        """Of each test, what it needs of the outcomes drawn from each of these accuracies, with the same numbers."""
        rng = np.random.default_rng(seed)
        found: dict[str, list[list[FloatArray]]] = {test: [[] for _ in accuracies] for test in self.tests}
        for size in chunks(n_replicates, max(test.width for test in self.tests.values())):
            uniform = rng.random((size, self.n_samples), dtype=np.float32)
            for place, accuracy in enumerate(accuracies):
                outcomes = uniform < accuracy.astype(np.float32)
                for name, test in self.tests.items():
                    found[name][place].append(test.summarise(outcomes, accuracy))
        return {name: [np.concatenate(parts) for parts in each] for name, each in found.items()}


def rejection_rate(p_values: FloatArray, alpha: float) -> dict[str, float]:
    """How many of the p-values reject, with the 95 % Wilson interval of the rate; a missing one does not reject."""
    with np.errstate(invalid="ignore"):
        rejections = int((p_values <= alpha).sum())
    low, high = wilson_interval(rejections, p_values.size)
    return {
        "rejections": rejections,
        "n_replicates": p_values.size,
        "rate": rejections / p_values.size,
        "rate_low": float(low),
        "rate_high": float(high),
        "untestable": int(np.isnan(p_values).sum()),
    }
