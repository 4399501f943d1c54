"""Scott's rule and what a bandwidth does to the gap between two groups."""

import math

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.binning import tertiles
from engine.core.errors import InvalidInput
from engine.core.types import FloatArray

UNDERFLOW = 1e-300
"""A sum of weights below this counts as underflown: it has lost its digits, or is made of floors alone."""
REACH = 8.5
"""Bandwidths beyond which one weight, exp(-REACH^2 / 2) = 2e-16, may be left out."""
_LARGEST_SQUARE = 1416.0
"""exp(-1416 / 2) = 3e-308 is the smallest normal double; beyond it exponentials take four times as long."""


def design(name: str, value: ArrayLike, n_rows: int | None = None) -> FloatArray:
    """A finite (n, m) float64 array of regressors; one regressor may come as a vector."""
    array = validation.real(name, value)
    if array.ndim == 1:
        column = validation.vector(name, array, n_rows).astype(np.float64, copy=False)
        return column[:, np.newaxis]
    checked = validation.matrix(name, array, n_rows)
    if checked.shape[1] == 0:
        raise InvalidInput(name, "at least one column", f"shape {checked.shape}")
    return checked


def scott_bandwidth(x: ArrayLike, *, dimension: int | None = None) -> FloatArray:
    """(m,) Scott's rule per axis, h_j = sigma_j n^(-1 / (m + 4)); 0 on an axis without variance.

    `dimension` is the m of the exponent where it shall differ from the number of columns: the protocol compares
    kernels on one and on two features at the same bandwidth, with m = 2. sigma is the population standard deviation.
    Reference: Scott (2015), Multivariate Density Estimation.
    """
    values = design("x", x)
    exponent = -1.0 / ((values.shape[1] if dimension is None else validation.whole("dimension", dimension, 1)) + 4)
    # The computed variance of a constant column may be a rounding error instead of 0, so its range decides.
    spread = np.where(np.ptp(values, axis=0) > 0, values.std(axis=0), 0.0)
    bandwidth: FloatArray = spread * values.shape[0] ** exponent
    return bandwidth


def shrinkage(distance: float, bandwidth: float) -> float:
    """Share of a gap between two groups that a Gaussian kernel leaves, tanh(d^2 / (4 h^2)) (the paper's Prop. 4).

    `distance` is the spacing d of the groups on the routing axis and `bandwidth` the h of that axis. A zero bandwidth
    means that the axis is ignored, which leaves nothing of the gap.
    """
    spacing, width = validation.number("distance", distance), validation.number("bandwidth", bandwidth)
    if width == 0 or spacing == 0:
        return 0.0
    # Beyond a hundred bandwidths the share is 1 to the last digit, and the square might overflow.
    ratio = spacing / width if width > spacing / 100 else 100.0
    return math.tanh(ratio**2 / 4)


def tertile_distance(rho: ArrayLike) -> float:
    """Distance between the means of the outer tertiles of rho; 0 if ties leave one of them empty."""
    values = validation.vector("rho", rho)
    groups = tertiles(values)
    if groups.sizes[0] == 0 or groups.sizes[2] == 0:
        return 0.0
    return float(values[groups.index == 2].mean() - values[groups.index == 0].mean())


def gaussian(squared: FloatArray) -> FloatArray:
    """exp(-d^2 / 2) in place, from squared distances in bandwidths; never below 3e-308."""
    np.minimum(squared, _LARGEST_SQUARE, out=squared)
    squared *= -0.5
    return np.exp(squared, out=squared)
