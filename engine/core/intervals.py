"""Intervals for proportions."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.types import FloatArray


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
