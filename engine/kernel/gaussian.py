"""Gaussian weights without the slow path of an underflowing exponential."""

from __future__ import annotations

import numpy as np

from engine.core.types import FloatArray

UNDERFLOW = 1e-300
"""A sum of weights below this counts as underflown: it has lost its digits, or is made of floors alone."""
REACH = 8.5
"""Bandwidths beyond which one weight, exp(-REACH^2 / 2) = 2e-16, may be left out."""
_LARGEST_SQUARE = 1416.0
"""exp(-1416 / 2) = 3e-308 is the smallest normal double; beyond it exponentials take four times as long."""


def gaussian(squared: FloatArray) -> FloatArray:
    """exp(-d^2 / 2) in place, from squared distances in bandwidths; never below 3e-308."""
    np.minimum(squared, _LARGEST_SQUARE, out=squared)
    squared *= -0.5
    return np.exp(squared, out=squared)
