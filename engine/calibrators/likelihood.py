"""The inverse temperature of least negative log-likelihood, for one group of samples or many at once."""

from dataclasses import dataclass

import numpy as np

from engine.core.types import BoolArray, FloatArray, IntArray

MAX_ITERATIONS = 60
_LARGEST_STEP = 2.0
_CLOSE = 1e-4
"""A Newton step this small in log beta leaves an error of the order of its square, so it is the last one."""
_VALUES_PER_BLOCK = 1 << 15
_WARM_START_STRIDE = 10


@dataclass(frozen=True, eq=False)
class InverseTemperatures:
    """(groups,) inverse temperatures; whether each group has an interior minimum, and whether it was reached."""

    beta: FloatArray
    exists: BoolArray
    found: BoolArray
    n_iterations: int


def minimise_common_nll(gaps: FloatArray, label_gap: FloatArray) -> InverseTemperatures:
    """`minimise_nll` with all samples in one group, started from the minimum of every tenth sample."""
    start = 1.0
    if gaps.shape[0] >= 100 * _WARM_START_STRIDE:
        some = slice(None, None, _WARM_START_STRIDE)
        start = float(minimise_common_nll(gaps[some], label_gap[some]).beta[0])
    return minimise_nll(gaps, label_gap, np.zeros(gaps.shape[0], dtype=np.int64), 1, start)


def minimise_nll(
    gaps: FloatArray, label_gap: FloatArray, groups: IntArray, n_groups: int, start: float = 1.0
) -> InverseTemperatures:
    """Minimise mean_i [log sum_k exp(-beta d_ik) + beta d_iy] over beta > 0 in each group.

    The loss is convex in beta. Its slope is mean(d_y) - mean(E_p[d]): negative at 0 if the labels beat the uniform
    guess, and mean(d_y) at infinity. So a minimum exists iff 0 < mean(d_y) < mean(d): not in a group where every
    prediction is right, nor where they are worse than guessing; there `exists` is false and beta is 1. Newton's
    method runs on log beta, inside a bracket that each slope narrows; where it ran out of iterations `found` is false
    and beta is as far as it got.

    Parameters: (n, K) gaps d, (n,) gap of the true class, (n,) group of each sample, first guess of beta.
    """
    counts = np.bincount(groups, minlength=n_groups)
    occupied = counts > 0
    at_label = np.zeros(n_groups)
    at_label[occupied] = np.bincount(groups, label_gap, n_groups)[occupied] / counts[occupied]
    at_uniform = np.zeros(n_groups)
    at_uniform[occupied] = np.bincount(groups, gaps.mean(axis=1), n_groups)[occupied] / counts[occupied]
    exists = (at_label > 0) & (at_label < at_uniform)

    beta, found = np.ones(n_groups), np.zeros(n_groups, dtype=np.bool_)
    position, lower, upper = np.full(n_groups, np.log(start)), np.full(n_groups, -np.inf), np.full(n_groups, np.inf)
    searching = exists.copy()
    members = np.arange(gaps.shape[0])
    n_iterations = 0
    while searching.any() and n_iterations < MAX_ITERATIONS:
        n_iterations += 1
        if not searching[groups[members]].all():
            members = members[searching[groups[members]]]
        everyone = members.size == gaps.shape[0]
        own = groups if everyone else groups[members]
        distance = gaps if everyone else gaps[members]
        mean, variance = _moments(distance, np.exp(position)[own] if n_groups > 1 else np.exp(position))
        # The slope and curvature of the loss in beta, group by group; groups already done divide by one.
        safe = np.where(searching, counts, 1)
        slope = at_label - np.bincount(own, mean, n_groups) / safe
        curvature = np.bincount(own, variance, n_groups) / safe
        lower = np.where(searching & (slope < 0), position, lower)
        upper = np.where(searching & (slope > 0), position, upper)
        flat = curvature * np.exp(position) <= np.abs(slope) / _LARGEST_STEP
        step = np.where(
            flat, -np.sign(slope) * _LARGEST_STEP, -slope / np.where(flat, 1.0, curvature * np.exp(position))
        )
        proposal = position + step
        outside = (proposal <= lower) | (proposal >= upper)
        bisected = 0.5 * (np.where(np.isinf(lower), position, lower) + np.where(np.isinf(upper), position, upper))
        last = searching & (np.abs(step) < _CLOSE)
        position = np.where(searching, np.where(outside & ~last, bisected, proposal), position)
        found |= last
        searching &= ~last
    beta[exists] = np.exp(position[exists])
    return InverseTemperatures(beta, exists, found, n_iterations)


def nll_and_slopes(
    gaps: FloatArray, label_gap: FloatArray, beta: FloatArray, scratch: FloatArray
) -> tuple[float, FloatArray]:
    """Mean of log sum_k exp(-beta_i d_ik) + beta_i d_iy; its (n,) terms' slopes in log T, beta (E_p[d] - d_y).

    beta is (n,); scratch (n, K) is written over.
    """
    np.multiply(gaps, -beta[:, np.newaxis], out=scratch)
    np.exp(scratch, out=scratch)
    total = scratch.sum(axis=1)
    mean_gap = np.einsum("ij,ij->i", scratch, gaps) / total
    return float((np.log(total) + beta * label_gap).mean()), beta * (mean_gap - label_gap)


def _moments(gaps: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Per-sample mean and variance of d under softmax(-beta d), a block of rows at a time to stay in cache.

    beta is (n,), or (1,) for all samples alike. Row sums are products with ones: for short rows they take a third of
    the time of a reduction.
    """
    n, n_classes = gaps.shape
    total, mean, square = np.empty(n), np.empty(n), np.empty(n)
    rows = max(1, _VALUES_PER_BLOCK // n_classes)
    scratch = np.empty((min(rows, n), n_classes))
    ones = np.ones(n_classes)
    for begin in range(0, n, rows):
        block = slice(begin, min(begin + rows, n))
        distance = gaps[block]
        factor = -beta[block, np.newaxis] if beta.size > 1 else -beta
        weights = np.multiply(distance, factor, out=scratch[: distance.shape[0]])
        np.exp(weights, out=weights)
        for sums in (total, mean, square):
            np.dot(weights, ones, out=sums[block])
            if sums is not square:
                weights *= distance
    mean /= total
    square /= total
    return mean, square - mean * mean
