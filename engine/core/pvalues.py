"""The Monte-Carlo p-value, the sign test, corrections for asking many times, and the interval of a proportion."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom, norm

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.types import FloatArray

ADJUSTMENTS = ("bonferroni", "holm", "benjamini_hochberg")


def monte_carlo_pvalue(observed: float, draws: FloatArray) -> float:
    """(1 + #{draws >= observed}) / (1 + #draws): never zero, and valid because the observed value counts as a draw.

    A statistic that equals the observed one up to rounding counts as a hit.
    """
    tolerance = 1e-12 * max(1.0, abs(observed))
    return float((1 + np.count_nonzero(draws >= observed - tolerance)) / (1 + draws.size))


@dataclass(frozen=True)
class SignTest:
    """How many runs gain. p : P(at least as many | fair signs), 1 if all are ties."""

    n_better: int
    n_runs: int
    mean: float
    p: float


def sign_test(gains: FloatArray) -> SignTest:
    """One-sided exact sign test of gains (positive: better) over runs; ties are left out."""
    values = np.asarray(gains, dtype=np.float64)
    better, tied = int((values > 0).sum()), int((values == 0).sum())
    p = float(binom.sf(better - 1, values.size - tied, 0.5)) if values.size > tied else 1.0
    return SignTest(better, int(values.size), float(values.mean()) if values.size else np.nan, p)


def adjust_tested(p: ArrayLike, method: str) -> FloatArray:
    """(m,) `adjust_pvalues` over the tests that could be run; missing (NaN) where one could not."""
    validation.choice("method", method, ADJUSTMENTS)
    try:
        values = np.asarray(p, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput("p", "p-values, NaN where there is none", validation.shown(p)) from error
    if values.ndim != 1:
        raise InvalidInput("p", "one dimension", f"shape {values.shape}")
    adjusted = np.full(values.shape, np.nan)
    tested = ~np.isnan(values)
    if tested.any():
        adjusted[tested] = adjust_pvalues(values[tested], method)
    return adjusted


def adjust_pvalues(p: ArrayLike, method: str) -> FloatArray:
    """(m,) p-values corrected for m tests.

    bonferroni: m p. holm: running maximum of (m - rank) p over ascending p (Holm 1979).
    benjamini_hochberg: running minimum from the largest p of m p / rank (Benjamini & Hochberg 1995).
    """
    validation.choice("method", method, ADJUSTMENTS)
    values = validation.vector("p", p).astype(np.float64)
    if values.min() < 0 or values.max() > 1:
        raise InvalidInput("p", "values in [0, 1]", f"values from {values.min():g} to {values.max():g}")
    m = values.size
    if method == "bonferroni":
        return np.minimum(values * m, 1.0)
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    if method == "holm":
        corrected = np.maximum.accumulate(ascending * (m - np.arange(m)))
    else:
        corrected = np.minimum.accumulate((ascending * m / np.arange(1, m + 1))[::-1])[::-1]
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(corrected, 1.0)
    return adjusted


def cauchy_combination(p: FloatArray) -> FloatArray:
    """One p-value from k dependent ones along the first axis: P(Cauchy >= mean_j tan((1/2 - p_j) pi)) (Liu & Xie 2020).

    Its tail is right whatever the dependence, which is what counts at small p. Written as 1 / (pi p) where the tangent
    would lose its digits.
    """
    clipped = np.clip(p, np.finfo(np.float64).tiny, 1 - 1e-15)
    small = clipped < 1e-15
    terms = np.where(small, 1 / (np.pi * clipped), np.tan((0.5 - np.where(small, 0.5, clipped)) * np.pi))
    mean = terms.mean(axis=0)
    with np.errstate(divide="ignore"):
        return np.where(mean > 1e15, 1 / (np.pi * mean), 0.5 - np.arctan(mean) / np.pi)


def wilson_interval(successes: ArrayLike, trials: ArrayLike, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval of a binomial proportion; missing where there were no trials.

    (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), z the normal quantile of (1 + level) / 2.
    """
    hits, counts = validation.broadcast("successes", successes, "trials", trials)
    if not ((hits >= 0) & (hits <= counts)).all():
        raise InvalidInput(
            "successes", "between zero and the number of trials", "more successes than trials, or fewer than 0"
        )
    z = float(norm.ppf((1 + validation.fraction("level", level)) / 2))
    n = np.where(counts > 0, counts, 1.0)
    p = hits / n
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    # At p = 0 and p = 1 the bound is the proportion itself; rounding must not push it past.
    low, high = np.minimum(centre - half, p).clip(0, 1), np.maximum(centre + half, p).clip(0, 1)
    return np.where(counts > 0, low, np.nan), np.where(counts > 0, high, np.nan)
