"""The regression surface g(c, r) on a grid, exact or quick enough to follow a slider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import FloatArray
from engine.kernel.bandwidth import design
from engine.kernel.gaussian import UNDERFLOW, gaussian
from engine.kernel.regression import check_bandwidth

ROWS_PER_BLOCK = 4096
QUICK_CELLS = 192
"""Cells per axis that calibration points are shared between in the quick surface."""


@dataclass(frozen=True, eq=False)
class Surface:
    """g on a grid.

    Attributes
    ----------
    first, second : (a,) and (b,) grid values of the two regressors.
    value : (a, b) regression; NaN where every kernel weight underflows, to be left blank.
    weight : (a, b) sum of kernel weights, the number of calibration points that the value rests on.
    exact : whether every calibration point stands at its own place.
    """

    first: FloatArray
    second: FloatArray
    value: FloatArray
    weight: FloatArray
    exact: bool


def nw_surface(
    x_cal: ArrayLike, t_cal: ArrayLike, bandwidth: ArrayLike, grid: tuple[ArrayLike, ArrayLike], *, exact: bool = True
) -> Surface:
    """The two-regressor `nw_regress` at every point of a grid.

    On a grid the product kernel is separable: the numerator is A' diag(t) B with A_ia = K((x_i1 - a) / h_1) and
    B_ib = K((x_i2 - b) / h_2), the denominator A' B. With `exact=False` each calibration point is first shared
    linearly between the four nearest cells of a 192 x 192 mesh, whose cells then take the place of the points (an
    error of the order of (cell / bandwidth)^2 / 8).
    """
    keep_blas_to_one_thread()
    cal = design("x_cal", x_cal)
    if cal.shape[1] != 2:
        raise InvalidInput("x_cal", "two columns", f"{cal.shape[1]}")
    target = validation.vector("t_cal", t_cal, cal.shape[0]).astype(np.float64, copy=False)
    widths = check_bandwidth(bandwidth, 2)
    if not isinstance(grid, (tuple, list)) or len(grid) != 2:
        raise InvalidInput("grid", "the values of both axes", validation.shown(grid))
    axes = [validation.vector("grid", axis).astype(np.float64, copy=False) for axis in grid]
    summed = _exact_sums(cal, target, widths, axes) if exact else _quick_sums(cal, target, widths, axes)
    numerator, weight = summed
    value = np.divide(numerator, weight, out=np.full(weight.shape, np.nan), where=weight > UNDERFLOW)
    return Surface(axes[0], axes[1], value, weight, exact)


def _kernel(points: FloatArray, axis: FloatArray, width: float) -> FloatArray:
    """(points, grid) Gaussian weights of one regressor; all 1 for an ignored one."""
    if width == 0:
        return np.ones((points.size, axis.size))
    # Weights of distances that overflow are zero all the same.
    with np.errstate(over="ignore"):
        scaled = (points[:, np.newaxis] - axis) / width
        return gaussian(np.multiply(scaled, scaled, out=scaled))


def _exact_sums(
    cal: FloatArray, target: FloatArray, widths: FloatArray, axes: Sequence[FloatArray]
) -> tuple[FloatArray, FloatArray]:
    numerator = np.zeros((axes[0].size, axes[1].size))
    weight = np.zeros_like(numerator)
    for start in range(0, cal.shape[0], ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        first = _kernel(cal[block, 0], axes[0], widths[0]).T
        second = _kernel(cal[block, 1], axes[1], widths[1])
        weight += first @ second
        numerator += (first * target[block]) @ second
    return numerator, weight


def _quick_sums(
    cal: FloatArray, target: FloatArray, widths: FloatArray, axes: Sequence[FloatArray]
) -> tuple[FloatArray, FloatArray]:
    low, spread = cal.min(axis=0), np.ptp(cal, axis=0)
    position = (cal - low) * ((QUICK_CELLS - 1) / np.where(spread > 0, spread, 1.0))
    cell = np.minimum(position.astype(np.int64), QUICK_CELLS - 2)
    share = position - cell
    counts = np.zeros(QUICK_CELLS * QUICK_CELLS)
    totals = np.zeros_like(counts)
    for right in (0, 1):
        for up in (0, 1):
            part = (share[:, 0] if right else 1 - share[:, 0]) * (share[:, 1] if up else 1 - share[:, 1])
            index = (cell[:, 0] + right) * QUICK_CELLS + cell[:, 1] + up
            counts += np.bincount(index, part, counts.size)
            totals += np.bincount(index, part * target, counts.size)
    mesh = low + spread * (np.arange(QUICK_CELLS)[:, np.newaxis] / (QUICK_CELLS - 1))
    first = _kernel(mesh[:, 0], axes[0], widths[0]).T
    second = _kernel(mesh[:, 1], axes[1], widths[1])
    shape = (QUICK_CELLS, QUICK_CELLS)
    return first @ totals.reshape(shape) @ second, first @ counts.reshape(shape) @ second
