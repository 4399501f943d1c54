"""The temperature at which a sample's top probability takes a given value."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.types import BoolArray, FloatArray

TARGET_MARGIN = 1e-6
"""Targets are clipped to [1/K + margin, 1 - margin], the range that a finite temperature can reach."""
MAX_ITERATIONS = 100
_SMALLEST_GAP = 1e-200
_CLOSE = 1e-4
"""The step has third order: taken from a residual of 1e-4 it lands within 1e-11, so no further look is needed."""
_VALUES_PER_BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class TemperatureSolution:
    """Per-sample temperatures and what stood in the way of the targets.

    Attributes
    ----------
    temperature : (n,) tau with softmax(z / tau)_top = target; 1 for a sample that cannot be moved.
    target : (n,) the targets after clipping to the range that a temperature can reach.
    tied : (n,) samples whose top logit is shared by m classes and whose target is 1/m or more: no temperature lifts
        them above 1/m, so they are left alone.
    n_clipped_low, n_clipped_high : targets that had to be raised to 1/K + 1e-6, or lowered to 1 - 1e-6.
    n_iterations : evaluations of the hardest sample.
    converged : whether every sample that can be moved has reached its target.
    """

    temperature: FloatArray
    target: FloatArray
    tied: BoolArray
    n_clipped_low: int
    n_clipped_high: int
    n_iterations: int

    @property
    def n_tied(self) -> int:
        return int(self.tied.sum())

    @property
    def converged(self) -> bool:
        return self.n_iterations < MAX_ITERATIONS

    @property
    def clip_rate_low(self) -> float:
        return self.n_clipped_low / self.target.size

    @property
    def clip_rate_high(self) -> float:
        return self.n_clipped_high / self.target.size


def solve_temperature(logits: ArrayLike, target: ArrayLike) -> TemperatureSolution:
    """Solve softmax(z / tau)_top = target for tau > 0, sample by sample (the paper's Sec. 2.4).

    Parameters
    ----------
    logits : (n, K), K >= 2.
    target : (n,) wanted top probabilities in [0, 1].
    """
    checked = validation.matrix("logits", logits)
    if checked.shape[1] < 2:
        raise InvalidInput("logits", "at least two classes", "one class")
    wanted = validation.confidence(target, checked.shape[0], name="target").astype(np.float64, copy=False)
    return solve_gaps(checked.max(axis=1, keepdims=True) - checked, wanted)


def solve_gaps(gaps: FloatArray, target: FloatArray) -> TemperatureSolution:
    """The same from checked gaps d_k = z_top - z_k >= 0, (n, K).

    With beta = 1/tau and S(beta) = sum over the other classes of exp(-beta d_k), the equation is
    phi(beta) = log S(beta) - log((1 - target) / target) = 0, where phi is convex and decreasing. Jensen's inequality
    bounds its root from below by (log(K-1) - s) / mean(d) and by -s / min(d), and from above by
    (log(K-1) - s) / min(d), with s = log((1 - target) / target). Halley's step from the larger lower bound takes two
    or three evaluations; a step that leaves the bracket is replaced by a bisection.
    """
    n, n_classes = gaps.shape
    low, high = 1 / n_classes + TARGET_MARGIN, 1 - TARGET_MARGIN
    clipped = np.clip(target, low, high)
    temperature = np.ones(n)
    tied = np.zeros(n, dtype=np.bool_)
    n_iterations = 0
    rows = max(1, _VALUES_PER_BLOCK // n_classes)
    for start in range(0, n, rows):
        block = slice(start, start + rows)
        beta, tied[block], iterations = _solve_block(gaps[block], clipped[block])
        temperature[block] = 1 / beta
        n_iterations = max(n_iterations, iterations)
    return TemperatureSolution(
        temperature, clipped, tied, int((target < low).sum()), int((target > high).sum()), n_iterations
    )


def _solve_block(gaps: FloatArray, target: FloatArray) -> tuple[FloatArray, BoolArray, int]:
    """Inverse temperatures, the samples that ties hold back, and the number of evaluations."""
    n, n_classes = gaps.shape
    log_odds = np.log1p(-target) - np.log(target)
    smallest = np.partition(gaps, 1, axis=1)[:, 1] if n_classes > 2 else gaps.max(axis=1)
    level = smallest < _SMALLEST_GAP
    multiplicity = np.ones(n)
    multiplicity[level] = (gaps[level] < _SMALLEST_GAP).sum(axis=1)
    tied = level & (target * multiplicity >= 1)
    result = np.ones(n)

    active = np.flatnonzero(~tied)
    distance, odds, smallest = gaps[active], log_odds[active], smallest[active]
    reach = np.log(n_classes - 1) - odds
    lower = reach * (n_classes - 1) / distance.sum(axis=1)
    upper = np.full(active.size, np.inf)
    apart = ~level[active]
    lower[apart] = np.maximum(lower[apart], -odds[apart] / smallest[apart])
    upper[apart] = reach[apart] / smallest[apart]
    beta = lower.copy()
    for iteration in range(1, MAX_ITERATIONS + 1):
        step, residual = _halley_step(distance, beta, odds)
        lower = np.where(residual > 0, beta, lower)
        upper = np.where(residual < 0, beta, upper)
        proposal = beta + step
        outside = (proposal < lower) | (proposal > upper)
        proposal[outside] = (0.5 * (lower + np.minimum(upper, 2 * beta)))[outside]
        done = np.abs(residual) < _CLOSE
        result[active[done]] = proposal[done]
        if done.all():
            return result, tied, iteration
        if done.any():
            keep = ~done
            active, distance, odds = active[keep], distance[keep], odds[keep]
            lower, upper, proposal = lower[keep], upper[keep], proposal[keep]
        beta = proposal
    result[active] = beta
    return result, tied, MAX_ITERATIONS


def _halley_step(gaps: FloatArray, beta: FloatArray, odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Halley's step on phi and phi itself; phi' = -E[d], phi'' = Var[d] under weights exp(-beta d)."""
    weights = gaps * -beta[:, np.newaxis]
    np.exp(weights, out=weights)
    total = weights.sum(axis=1) - 1  # the top class is no part of S
    np.maximum(total, np.finfo(np.float64).tiny, out=total)
    weights *= gaps
    mean = weights.sum(axis=1) / total
    variance = np.einsum("ij,ij->i", weights, gaps) / total - mean * mean
    residual = np.log(total) - odds
    newton = np.divide(residual, mean, out=np.zeros_like(mean), where=mean > 0)
    curvature = np.divide(residual * variance, 2 * mean * mean, out=np.zeros_like(mean), where=mean > 0)
    # Far from the root the correction may blow up; a fifth of the slope is as flat as it is allowed to look.
    return newton / np.maximum(1 - curvature, 0.2), residual
