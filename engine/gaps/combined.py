"""The test that verdicts rest on: the primary trend and the shape test, combined to one p-value."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from engine.core.binning import equal_mass_bins
from engine.core.pvalues import cauchy_combination
from engine.core.types import BoolArray, FloatArray
from engine.gaps.settings import primary_bins
from engine.gaps.shape import ShapeDesign, ShapeResult, count_correct, logistic_fit, shape_test
from engine.gaps.statistics.trend import TrendDesign, trend_test
from engine.gaps.stratified import StratifiedResult, two_sided


@dataclass(frozen=True, eq=False)
class CombinedResult:
    """p_value : of either test rejecting (Cauchy combination, Liu & Xie 2020); None where the trend cannot be tested,
    since then correctness or rho does not vary at matched confidence."""

    p_value: float | None
    primary: StratifiedResult
    shape: ShapeResult


def combine(*p_values: float | None) -> float | None:
    """The Cauchy combination of those that there are."""
    found = np.array([p for p in p_values if p is not None])
    return float(cauchy_combination(found)) if found.size else None


def echoes_confidence(confidence: FloatArray, rho: FloatArray) -> bool:
    """Whether rho has the order of confidence, or its reverse: no test can tell the two apart."""
    ranks, other = rankdata(confidence), rankdata(rho)
    return np.array_equal(ranks, other) or np.array_equal(ranks, ranks.size + 1 - other)


def combined_test(
    confidence: ArrayLike, correct: ArrayLike, rho: ArrayLike, *, clusters: ArrayLike | None = None
) -> CombinedResult:
    """Does correctness depend on rho at matched confidence, by a trend or in any other shape?"""
    primary = trend_test(confidence, correct, rho, clusters=clusters)
    shape = shape_test(confidence, correct, rho, clusters=clusters)
    p_value = None if primary.p_value is None else combine(primary.p_value, shape.p_value)
    return CombinedResult(p_value, primary, shape)


class CombinedBatch:
    """The same on many simulated outcomes of one run; matched_by : confidence, or its ranks (`ShapeDesign`)."""

    def __init__(self, confidence: FloatArray, rho: FloatArray, matched_by: FloatArray) -> None:
        self._n_bins = primary_bins(rho.size)
        self._trend = TrendDesign.of(equal_mass_bins(matched_by, self._n_bins), rho, self._n_bins)
        self._shape = ShapeDesign(confidence, rho, matched_by=matched_by)

    def pvalues(self, outcomes: BoolArray, accuracy: FloatArray) -> FloatArray:
        """(R,) of (R, n) outcomes drawn from accuracies (n,); NaN where there is nothing to test."""
        n_correct = count_correct(outcomes, self._trend.bins, self._n_bins)
        variance = self._trend.variance(n_correct).sum(axis=1)
        statistic = outcomes.astype(np.float32) @ self._trend.scores.astype(np.float32)
        z = np.divide(statistic, np.sqrt(variance), out=np.full(len(outcomes), np.nan), where=variance > 0)
        fitted = logistic_fit(self._shape.model, accuracy)
        parts = np.stack(list(self._shape.pvalues(outcomes, fitted).values()))
        combined = _combine_rows(np.stack([two_sided(z), _combine_rows(parts)]))
        return np.where(np.isnan(z), np.nan, combined)


def _combine_rows(p_values: FloatArray) -> FloatArray:
    """(R,) combinations of (k, R) p-values, leaving out what is missing."""
    missing = np.isnan(p_values)
    if not missing.any():
        return cauchy_combination(p_values)
    columns = zip(p_values.T, missing.T, strict=True)
    return np.array([np.nan if gone.all() else float(cauchy_combination(p[~gone])) for p, gone in columns])
