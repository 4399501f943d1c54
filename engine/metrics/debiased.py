"""The ECE without sampling noise: a debiased estimate and a 95 % interval whose coverage is measured (`make bench`).

Noise enlarges the absolute gap of a bin, so the ECE of a sample exceeds that of its population, and percentiles of a
bootstrap, which adds the noise once more, miss it. Here hypotheses about the population are tested instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import erf, ndtr

from engine.core import validation
from engine.core.binning import LEVEL, N_BINS, Matching, confidence_bins
from engine.core.types import BoolArray, FloatArray, IntArray

_FAR = 10.0  # standard errors from zero, beyond which an absolute value is as good as normal


@dataclass(frozen=True)
class DebiasedEce:
    """The ECE of the population behind a sample, or a difference of two: `estimate`, and the ends of its interval."""

    estimate: float
    low: float
    high: float


def debiased_ece(
    confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = N_BINS, matching: Matching = "equal_width"
) -> DebiasedEce:
    """Estimate and 95 % interval of theta = sum_b |mu_b|, mu_b = E[(t - c) 1(c in bin b)], by inverting a test.

    The plug-in ECE is T = sum_b |m_b|, m_b = (1 / n) sum_{i in b} (t_i - c_i), and m_b is about N(mu_b, s_b^2) with

        s_b^2 = (1 / n^2) sum_{i in b} c_i (1 - c_i) + mu_b (1 - 2 cbar_b) / n - mu_b^2 / n.

    Each theta is tested at gaps that add up to it: below T at |mu_b| = |m_b| max(1 - (tau s_b / |m_b|)^2, 0), which
    leaves clear ones nearly whole (the garrote, Breiman 1995), above T at |m_b| + |tau| s_b. There T has the moments of
    a sum of folded normals, and its standardised value z is corrected for skewness (Cornish-Fisher).
    `estimate` is the theta at which z = 0: like Broecker (2012) and Kumar et al. (2019) it takes the noise off, at gaps
    that are themselves without it, and is 0 if T is below what noise alone gives. The interval holds every theta whose
    z is accepted in the order of Feldman & Cousins (1998): two-sided far from 0, one-sided at 0, never empty. For one
    bin far from 0 it is Wilson's interval of the accuracy. Equal-mass bins are those of the sample.
    """
    checked = validation.confidence(confidence)
    bins = confidence_bins(checked, n_bins, matching)
    gaps = _Gaps.of(checked.astype(np.float64), validation.correct(correct, checked.size), bins)
    zero, most = gaps.span
    nothing = gaps.at(zero)

    def surplus(tau: float) -> float:
        return gaps.at(tau).z

    def accepted(tau: float) -> float:
        """Positive where theta(tau) is in the interval; if T is below all noise, theta = 0 is the best there is."""
        point = gaps.at(tau)
        distance = (point.mean - nothing.mean) / point.deviation
        return _critical(distance) ** 2 - point.z**2 + min(nothing.z, 0.0) ** 2

    best = zero if nothing.z <= 0 else most if surplus(most) >= 0 else float(brentq(surplus, most, zero))
    low = zero if accepted(zero) >= 0 else float(brentq(accepted, best, zero))
    high = most if accepted(most) >= 0 else float(brentq(accepted, most, best))
    estimate, lower, upper = (gaps.at(tau).total for tau in (best, low, high))
    return DebiasedEce(estimate, lower, upper)


def debiased_difference(first: DebiasedEce, second: DebiasedEce, correlation: float) -> DebiasedEce:
    """first minus second, two methods on the same samples whose plug-in ECEs have this correlation (MOVER).

    Each interval gives the error of its estimate towards either side, and D -+ sqrt(e_1^2 + e_2^2 - 2 r e_1 e_2) has
    the errors of the sides that meet (Zou & Donner 2008). Resampled plug-in ECEs cannot do that: noise enlarges the
    smaller of the two more, by an amount that is their bias and not their spread.
    """
    value = first.estimate - second.estimate

    def reach(one: float, other: float) -> float:
        return float(np.sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0)))

    down = reach(first.estimate - first.low, second.high - second.estimate)
    return DebiasedEce(value, value - down, value + reach(first.high - first.estimate, second.estimate - second.low))


@dataclass(frozen=True)
class _Point:
    """A hypothesis: theta, mean and standard deviation of T under it, and where the observed T lies in these terms."""

    total: float
    mean: float
    deviation: float
    z: float


@dataclass(frozen=True, eq=False)
class _Gaps:
    """By filled bin: |m_b|, sign of m_b, s_b^2 at mu_b = 0, its slope in mu_b, the largest |mu_b| there can be."""

    n: int
    size: FloatArray
    sign: FloatArray
    variance_at_zero: FloatArray
    slope: FloatArray
    limit: FloatArray

    @classmethod
    def of(cls, confidence: FloatArray, correct: BoolArray, bins: IntArray) -> _Gaps:
        _, index, counts = np.unique(bins, return_inverse=True, return_counts=True)
        n, total = confidence.size, np.bincount(index, weights=confidence)
        gap = (np.bincount(index, weights=correct) - total) / n
        return cls(
            n=n,
            size=np.abs(gap),
            sign=np.where(gap > 0, 1.0, -1.0),
            variance_at_zero=np.bincount(index, weights=confidence * (1 - confidence)) / n**2,
            slope=(1 - 2 * total / counts) / n,
            limit=np.where(gap > 0, counts - total, total) / n,
        )

    def variance(self, size: FloatArray) -> FloatArray:
        found = self.variance_at_zero + self.sign * size * self.slope - size**2 / self.n
        result: FloatArray = np.maximum(found, 1e-6 / self.n**2)
        return result

    @cached_property
    def error(self) -> FloatArray:
        """Half-way between no gap and the observed one: a few samples without a miss would have no variance at all."""
        result: FloatArray = np.sqrt((self.variance_at_zero + self.variance(self.size)) / 2)
        return result

    @property
    def span(self) -> tuple[float, float]:
        """The tau at which no gap is left, and the one at which all are as large as can be."""
        none_left = float((self.size / self.error).max()) * (1 + 1e-12)  # not even what rounding would leave
        return none_left, float(-((self.limit - self.size) / self.error).max())

    def _gaps(self, tau: float) -> FloatArray:
        if tau <= 0:
            return np.clip(self.size - tau * self.error, 0, self.limit)
        reach = np.minimum(tau * self.error, self.size)  # beyond a gap's own size nothing is left of it
        noise = np.divide(reach, self.size, out=np.zeros_like(self.size), where=self.size > 0)
        return self.size * (1 - noise**2)

    def at(self, tau: float) -> _Point:
        size = self._gaps(tau)
        variance = self.variance(size)
        deviation = np.sqrt(variance)
        far = np.minimum(size / deviation, _FAR)
        mean, spread, third = _folded_normal(far)
        mean = np.maximum(size - _FAR * deviation, 0) + deviation * mean
        # A sample in one bin is in no other: gaps of sure sign have covariance -|mu_a| |mu_b| / n.
        sure = size * erf(far / np.sqrt(2))
        shared = (sure.sum() ** 2 - sure @ sure) / self.n
        overall = float(np.sqrt(max(variance @ spread - shared, 1e-6 / self.n**2)))
        z = float(self.size.sum() - mean.sum()) / overall
        z -= (min(abs(z), 3.0) ** 2 - 1) * float(deviation**3 @ third) / overall**3 / 6
        return _Point(float(size.sum()), float(mean.sum()), overall, z)


def _folded_normal(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, variance and third central moment of |N(x, 1)|."""
    density, inside = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), 1 - 2 * ndtr(-x)
    first, second = 2 * density + x * inside, 1 + x**2
    third = (x**3 + 3 * x) * inside + 2 * density * (x**2 + 2)
    return first, second - first**2, third - 3 * first * second + 2 * first**3


def _critical(distance: float) -> float:
    """Feldman & Cousins' limit for a normal mean that lies so many standard errors from its bound."""
    return float(np.interp(distance, *_criticals()))


@lru_cache(maxsize=1)
def _criticals() -> tuple[FloatArray, FloatArray]:
    """The limit c by distance d: P(lower <= x <= d + c) = 0.95 where x ~ N(d, 1) is accepted by likelihood ratio."""

    def excess(limit: float, distance: float) -> float:
        lower = distance - limit if distance >= limit else (distance**2 - limit**2) / (2 * distance)
        return float(ndtr(limit) - ndtr(lower - distance)) - LEVEL

    distances = np.linspace(0, 4, 201)
    return distances, np.array([brentq(excess, 1.2, 2.5, args=(max(d, 1e-6),)) for d in distances])
