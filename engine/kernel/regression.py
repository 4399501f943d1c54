"""Nadaraya-Watson regression with a Gaussian product kernel: at points of any dimension, and on a grid of two axes.

Three ways to the same sums, chosen by their cost: Chebyshev interpolation where the bandwidth is wide (m <= 2), pairs
within reach where it is narrow, and all pairs for the few queries whose weights are so small that the error of the
first two, though tiny, would show in the ratio.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import FloatArray, IntArray
from engine.kernel.bandwidth import REACH, UNDERFLOW, design, gaussian
from engine.kernel.interpolation import cut_into_strips, smooth_sums

PAIRS_PER_BLOCK = 1 << 16
"""Pairs held in memory at once (0.5 MB per array, about one core's second-level cache)."""
TOLERANCE = 1e-9
"""Largest error allowed in a ratio; queries that might exceed it are summed over all pairs."""
_FARTHEST = 1e100
BULK_QUANTILES = (0.005, 0.995)

PAIR_SECONDS = 1.2e-8
"""Rough cost of a pair, only used to choose between ways of equal result."""


def check_bandwidth(bandwidth: ArrayLike, n_axes: int) -> FloatArray:
    """(m,) bandwidths, none negative; 0 marks an axis that is ignored."""
    given = validation.real("bandwidth", bandwidth)
    checked = validation.vector("bandwidth", np.atleast_1d(given)).astype(np.float64)
    if given.ndim == 0:
        checked = np.repeat(checked, n_axes)
    if checked.size != n_axes:
        raise InvalidInput("bandwidth", f"one number or {n_axes}, one per regressor", f"{checked.size}")
    if (checked < 0).any():
        raise InvalidInput("bandwidth", "numbers that are not negative", repr(checked.tolist()))
    return checked


def nw_regress(x_cal: ArrayLike, t_cal: ArrayLike, x_query: ArrayLike, bandwidth: ArrayLike) -> FloatArray:
    """(q,) g(x) = sum_i K_h(x - x_i) t_i / sum_i K_h(x - x_i), K_h the product of Gaussians of bandwidth h_j.

    Parameters
    ----------
    x_cal, x_query : (n, m) and (q, m) regressors, or vectors if m = 1.
    t_cal : (n,) targets.
    bandwidth : one number or one per axis; an axis with bandwidth 0 is ignored (`scott_bandwidth` gives 0 to an axis
        without variance).

    The result is within 1e-9 of the dense double-precision evaluation. A query whose weights all underflow takes the
    mean over the calibration points nearest to it in bandwidths. References: Nadaraya (1964), Watson (1964).
    """
    keep_blas_to_one_thread()
    cal = design("x_cal", x_cal)
    target = validation.vector("t_cal", t_cal, cal.shape[0]).astype(np.float64, copy=False)
    query = design("x_query", x_query)
    if query.shape[1] != cal.shape[1]:
        raise InvalidInput("x_query", f"{cal.shape[1]} columns, as in x_cal", f"{query.shape[1]}")
    widths = check_bandwidth(bandwidth, cal.shape[1])
    used = widths > 0
    if not used.any():
        return np.full(query.shape[0], target.mean())
    # Centring keeps digits where a regressor is large compared with its spread.
    centre = cal[:, used].mean(axis=0)
    return regress_scaled(
        _in_bandwidths(cal[:, used] - centre, widths[used]),
        target,
        _in_bandwidths(query[:, used] - centre, widths[used]),
    )


def _in_bandwidths(offset: FloatArray, widths: FloatArray) -> FloatArray:
    """Offsets in units of the bandwidths; more than 1e100 count as 1e100, so that squares stay finite."""
    with np.errstate(over="ignore"):
        scaled: FloatArray = offset / widths
    return np.clip(scaled, -_FARTHEST, _FARTHEST, out=scaled)


def regress_scaled(cal: FloatArray, target: FloatArray, query: FloatArray) -> FloatArray:
    """The regression for checked regressors in units of their bandwidths."""
    n_query = query.shape[0]
    numerator: FloatArray = np.zeros(n_query)
    denominator: FloatArray = np.zeros(n_query)
    error = np.full(n_query, np.inf)
    out_of_reach = cal.shape[0] * np.exp(-0.5 * REACH**2) * max(1.0, float(np.abs(target).max()))
    bulk = _bulk(query)
    strips = cut_into_strips(cal, query[bulk]) if cal.shape[1] <= 2 and bulk.size else []
    axis, reach_pairs = _cheapest_axis(cal, query)
    if strips and sum(strip.seconds for strip in strips) < reach_pairs * PAIR_SECONDS:
        for strip in strips:
            rows = bulk[strip.query]
            sums = smooth_sums(cal[strip.cal], target[strip.cal], query[rows])
            numerator[rows], denominator[rows] = sums[:2]
            error[rows] = sums[2] + out_of_reach
    elif reach_pairs < cal.shape[0] * n_query:
        numerator, denominator = _sums_within_reach(cal, target, query, axis)
        error[:] = out_of_reach
    exact = np.flatnonzero(~(error <= TOLERANCE * denominator))
    numerator[exact], denominator[exact] = _sums_over_all(cal, target, query[exact])
    far = np.flatnonzero(denominator < UNDERFLOW)
    result = np.divide(numerator, denominator, out=np.zeros(n_query), where=denominator >= UNDERFLOW)
    result[far] = _nearest_means(cal, target, query[far])
    # An average lies between the extremes; rounding may leave them by one unit in the last place.
    return np.clip(result, target.min(), target.max(), out=result)


def _bulk(query: FloatArray) -> IntArray:
    """Queries inside the central quantiles of every axis: the interval to interpolate on must not follow outliers."""
    low, high = np.quantile(query, BULK_QUANTILES, axis=0)
    return np.flatnonzero(((query >= low) & (query <= high)).all(axis=1))


def _cheapest_axis(cal: FloatArray, query: FloatArray) -> tuple[int, int]:
    """The axis along which the fewest pairs are within reach, and their number."""
    counts = []
    for axis in range(cal.shape[1]):
        ordered = np.sort(cal[:, axis])
        above = np.searchsorted(ordered, query[:, axis] + REACH, side="right")
        below = np.searchsorted(ordered, query[:, axis] - REACH, side="left")
        counts.append(int((above - below).sum()))
    best = int(np.argmin(counts))
    return best, counts[best]


class _PairBlock:
    """Scratch memory for one block of pairs, kept from block to block: fresh pages would cost more than the sums."""

    def __init__(self, n_pairs: int) -> None:
        self._squared = np.empty(n_pairs)
        self._offset = np.empty(n_pairs)

    def sums(self, cal: FloatArray, target: FloatArray, query: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weighted target and weight of every query, over all calibration points given."""
        shape = (query.shape[0], cal.shape[0])
        squared = self._squared[: shape[0] * shape[1]].reshape(shape)
        offset = self._offset[: shape[0] * shape[1]].reshape(shape)
        for axis in range(cal.shape[1]):
            np.subtract(query[:, np.newaxis, axis], cal[:, axis], out=offset)
            if axis == 0:
                np.multiply(offset, offset, out=squared)
            else:
                squared += np.multiply(offset, offset, out=offset)
        weights = gaussian(squared)
        return weights @ target, weights.sum(axis=1)


def _sums_over_all(cal: FloatArray, target: FloatArray, query: FloatArray) -> tuple[FloatArray, FloatArray]:
    numerator, denominator = np.empty(query.shape[0]), np.empty(query.shape[0])
    rows = max(1, PAIRS_PER_BLOCK // cal.shape[0])
    by_axis = np.asfortranarray(cal)
    pairs = _PairBlock(rows * cal.shape[0])
    for start in range(0, query.shape[0], rows):
        block = slice(start, start + rows)
        numerator[block], denominator[block] = pairs.sums(by_axis, target, query[block])
    return numerator, denominator


def _sums_within_reach(
    cal: FloatArray, target: FloatArray, query: FloatArray, axis: int
) -> tuple[FloatArray, FloatArray]:
    """Sums over the calibration points within reach along one axis: neighbouring queries share one slice of them."""
    order = np.argsort(cal[:, axis], kind="stable")
    by_axis, target = np.asfortranarray(cal[order]), target[order]
    visit = np.argsort(query[:, axis], kind="stable")
    position = query[visit, axis]
    first = np.searchsorted(by_axis[:, axis], position - REACH, side="left")
    last = np.searchsorted(by_axis[:, axis], position + REACH, side="right")
    numerator, denominator = np.zeros(query.shape[0]), np.zeros(query.shape[0])
    pairs = _PairBlock(max(PAIRS_PER_BLOCK, cal.shape[0]))
    start = 0
    while start < visit.size:
        # Queries within one bandwidth share their slice, as many as fit into the block.
        stop = int(np.searchsorted(position, position[start] + 1.0, side="right"))
        width = max(1, int(last[stop - 1] - first[start]))
        stop = min(stop, start + max(1, PAIRS_PER_BLOCK // width))
        window = slice(int(first[start]), int(last[stop - 1]))
        block = visit[start:stop]
        numerator[block], denominator[block] = pairs.sums(by_axis[window], target[window], query[block])
        start = stop
    return numerator, denominator


def _nearest_means(cal: FloatArray, target: FloatArray, query: FloatArray) -> FloatArray:
    """Mean target over the calibration points at the least distance of each query (ties to one part in 1e12)."""
    means = np.empty(query.shape[0])
    for row, point in enumerate(query):
        squared = ((cal - point) ** 2).sum(axis=1)
        means[row] = target[squared <= squared.min() * (1 + 1e-12)].mean()
    return means


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
    numerator = np.zeros((axes[0].size, axes[1].size))
    weight = np.zeros_like(numerator)
    for start in range(0, cal.shape[0], ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        first = _kernel(cal[block, 0], axes[0], widths[0]).T
        second = _kernel(cal[block, 1], axes[1], widths[1])
        weight += first @ second
        numerator += (first * target[block]) @ second
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
