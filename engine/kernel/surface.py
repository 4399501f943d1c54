"""The regression surface g(c, r) on a grid."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import FloatArray
from engine.kernel.bandwidth import UNDERFLOW, design, gaussian
from engine.kernel.regression import check_bandwidth

ROWS_PER_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Surface:
    """g on a grid.

    Attributes
    ----------
    first, second : (a,) and (b,) grid values of the two regressors.
    value : (a, b) regression; NaN where every kernel weight underflows, to be left blank.
    weight : (a, b) sum of kernel weights, the number of calibration points that the value rests on.
    """

    first: FloatArray
    second: FloatArray
    value: FloatArray
    weight: FloatArray


def nw_surface(x_cal: ArrayLike, t_cal: ArrayLike, bandwidth: ArrayLike, grid: tuple[ArrayLike, ArrayLike]) -> Surface:
    """The two-regressor `nw_regress` at every point of a grid.

    On a grid the product kernel is separable: the numerator is A' diag(t) B with A_ia = K((x_i1 - a) / h_1) and
    B_ib = K((x_i2 - b) / h_2), the denominator A' B.
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
    numerator, weight = _sums(cal, target, widths, axes)
    value = np.divide(numerator, weight, out=np.full(weight.shape, np.nan), where=weight > UNDERFLOW)
    return Surface(axes[0], axes[1], value, weight)


def _kernel(points: FloatArray, axis: FloatArray, width: float) -> FloatArray:
    """(points, grid) Gaussian weights of one regressor; all 1 for an ignored one."""
    if width == 0:
        return np.ones((points.size, axis.size))
    # Weights of distances that overflow are zero all the same.
    with np.errstate(over="ignore"):
        scaled = (points[:, np.newaxis] - axis) / width
        return gaussian(np.multiply(scaled, scaled, out=scaled))


def _sums(
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
