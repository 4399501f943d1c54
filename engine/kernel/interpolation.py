"""Gaussian sums by Chebyshev interpolation: exact to rounding, at a cost linear in the number of samples.

A sum of Gaussians is an entire function of the query. On an interval of half-width a (in bandwidths) its Chebyshev
coefficients fall like exp(-k^2 / (2 a^2)) and pass below 1e-14 of the largest near k = 7.5 a, so the sum is known to
rounding once it is known at that many nodes. The product kernel keeps the nodes of two axes separable: the sums on
the node grid are one matrix product over the calibration samples, and the queries one matrix product over the grid.
Where the queries span many bandwidths they are cut into strips, each of which sees only the samples within reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.core.types import FloatArray, IntArray
from engine.kernel.bandwidth import REACH, gaussian

ROWS_PER_BLOCK = 4096
STRIP_WIDTH = 16.0
EXPONENTIAL_SECONDS, FLOP_SECONDS = 7e-9, 4e-11
RELATIVE_ERROR = 2e-14
"""Largest error of an interpolated sum seen, relative to the largest sum on the node grid, with a margin of 5."""


@dataclass(frozen=True, eq=False)
class ChebyshevAxis:
    """Chebyshev points of the first kind on an interval, with their barycentric weights."""

    centre: float
    half_width: float
    points: FloatArray
    weights: FloatArray

    @classmethod
    def cover(cls, low: float, high: float) -> ChebyshevAxis:
        """Enough points for Gaussian sums of unit bandwidth on [low, high]."""
        half_width = max((high - low) / 2, 1e-9)
        angles = (2 * np.arange(n_points(high - low)) + 1) * (np.pi / (2 * n_points(high - low)))
        weights = np.where(np.arange(angles.size) % 2 == 0, 1.0, -1.0) * np.sin(angles)
        return cls((low + high) / 2, half_width, np.cos(angles), weights)

    def kernel(self, x: FloatArray) -> FloatArray:
        """(n, points) exp(-(node - x)^2 / 2)."""
        offset = (self.centre + self.half_width * self.points) - x[:, np.newaxis]
        return gaussian(np.multiply(offset, offset, out=offset))

    def interpolator(self, x: FloatArray) -> FloatArray:
        """(n, points) Lagrange polynomials at x in barycentric form (Berrut & Trefethen 2004)."""
        offset = ((x - self.centre) / self.half_width)[:, np.newaxis] - self.points
        hit = offset == 0
        offset[hit] = 1.0
        polynomials = np.divide(self.weights, offset, out=offset)
        polynomials /= polynomials.sum(axis=1, keepdims=True)
        on_node = hit.any(axis=1)
        polynomials[on_node] = hit[on_node]
        return polynomials


@dataclass(frozen=True, eq=False)
class Strip:
    """Queries that are interpolated together, and the calibration samples that reach them."""

    query: IntArray
    cal: IntArray
    points: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """Rough cost, only used to choose between ways of equal result."""
        rows = self.query.size + self.cal.size
        return rows * (EXPONENTIAL_SECONDS * sum(self.points) + 4 * FLOP_SECONDS * float(math.prod(self.points)))


def cut_into_strips(cal: FloatArray, query: FloatArray) -> list[Strip]:
    """Strips of about 16 bandwidths across the longest axis of the queries."""
    spans = np.ptp(query, axis=0)
    axis = int(np.argmax(spans))
    n_strips = max(1, round(float(spans[axis]) / STRIP_WIDTH))
    if n_strips > query.shape[0]:  # strips of a query or less: nothing to share
        return []
    along = query[:, axis]
    edges = np.linspace(along.min(), along.max(), n_strips + 1)
    member = np.clip(np.searchsorted(edges, along, side="right") - 1, 0, n_strips - 1)
    order = np.argsort(cal[:, axis], kind="stable")
    ordered = cal[order, axis]
    strips = []
    for number in range(n_strips):
        rows = np.flatnonzero(member == number)
        if rows.size:
            low, high = along[rows].min() - REACH, along[rows].max() + REACH
            near = order[np.searchsorted(ordered, low, side="left") : np.searchsorted(ordered, high, side="right")]
            points = tuple(n_points(float(width)) for width in np.ptp(query[rows], axis=0))
            strips.append(Strip(rows, near, points))
    return strips


def n_points(width: float) -> int:
    """Points needed on an interval of this many bandwidths."""
    return int(np.ceil(3.75 * width)) + 10


def smooth_sums(cal: FloatArray, target: FloatArray, query: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Numerators and denominators of the regression at each query, and a bound on their absolute error.

    `cal` (n, m) and `query` (q, m) are in bandwidths, m is 1 or 2.
    """
    axes = [ChebyshevAxis.cover(float(column.min()), float(column.max())) for column in query.T]
    shape = tuple(axis.points.size for axis in axes)
    grid = np.zeros((shape[0], 2 * shape[1] if len(axes) == 2 else 2))
    for start in range(0, cal.shape[0], ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        first = axes[0].kernel(cal[block, 0])
        second = axes[1].kernel(cal[block, 1]) if len(axes) == 2 else np.ones((first.shape[0], 1))
        grid += first.T @ np.hstack([second * target[block, np.newaxis], second])
    numerator = np.empty(query.shape[0])
    denominator = np.empty(query.shape[0])
    half = grid.shape[1] // 2
    for start in range(0, query.shape[0], ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        along_first = axes[0].interpolator(query[block, 0]) @ grid
        second = axes[1].interpolator(query[block, 1]) if len(axes) == 2 else np.ones((along_first.shape[0], 1))
        numerator[block] = np.einsum("ij,ij->i", along_first[:, :half], second)
        denominator[block] = np.einsum("ij,ij->i", along_first[:, half:], second)
    return numerator, denominator, RELATIVE_ERROR * float(np.abs(grid).max())
