"""The kernel regression, the temperature solver and a whole AR-CondCal update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from engine.benchmark import MatchedLab, run_benchmark
from engine.benchmark.setup import ROUTING
from engine.core.types import FloatArray, RunData
from engine.kernel import cv_nll_bandwidth, nw_regress, nw_surface, scott_bandwidth, solve_temperature
from tests.bench.data import predictions
from tests.bench.runner import Case, Work, installed

HALF = 5000


@lru_cache
def synthetic_run(n_classes: int = 10, n: int = 2 * HALF) -> RunData:
    """A run of realistic shape: over-confident logits and a profile of twelve layers."""
    rng = np.random.default_rng(1)
    logits, probabilities, labels = predictions(n, n_classes)
    entropies = rng.beta(5.0, 2.0, (n, 12)) * (0.6 + 0.4 * rng.random((n, 1)))
    predicted = logits.argmax(axis=1)
    return RunData("synthetic", probabilities.max(axis=1), predicted == labels, entropies, logits, labels, predicted)


def _regression_data() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Calibration regressors and targets, query regressors, Scott's bandwidth."""
    lab = MatchedLab.prepare(synthetic_run())
    evaluation, fitted = lab.halves.evaluation, lab.members[ROUTING]
    query = np.column_stack([evaluation.confidence, evaluation.feature])
    return fitted.regressors, fitted.correct, query, fitted.bandwidth


def _regression() -> Work:
    cal, target, query, bandwidth = _regression_data()
    return lambda: nw_regress(cal, target, query, bandwidth)


def _beside_statsmodels() -> tuple[Work, Mapping[str, Work]]:
    peers: dict[str, Work] = {}
    if installed("statsmodels"):
        from statsmodels.nonparametric.kernel_regression import KernelReg

        cal, target, query, bandwidth = _regression_data()
        model = KernelReg(target, cal, var_type="cc", reg_type="lc", bw=bandwidth)
        peers["statsmodels KernelReg"] = lambda: model.fit(query)
    return _regression(), peers


def _beside_dense() -> tuple[Work, Mapping[str, Work]]:
    cal, target, query, bandwidth = _regression_data()

    def dense() -> FloatArray:
        """One n x n array, the squared distance by its binomial expansion."""
        u, v = cal / bandwidth, query / bandwidth
        squared = (v**2).sum(axis=1)[:, np.newaxis] + (u**2).sum(axis=1) - 2 * v @ u.T
        weights = np.exp(-0.5 * squared)
        result: FloatArray = weights @ target / weights.sum(axis=1)
        return result

    return _regression(), {"dense float64 numpy": dense}


def _surface() -> tuple[Work, Mapping[str, Work]]:
    cal, target, _, bandwidth = _regression_data()
    grid = tuple(np.linspace(column.min(), column.max(), 128) for column in cal.T)
    points = np.column_stack([axis.ravel() for axis in np.meshgrid(*grid, indexing="ij")])
    pointwise: Work = lambda: nw_regress(cal, target, points, bandwidth)  # noqa: E731
    return lambda: nw_surface(cal, target, bandwidth, (grid[0], grid[1])), {"point by point": pointwise}


def _update(multiplier: float) -> Callable[[], tuple[Work, Mapping[str, Work]]]:
    def prepare() -> tuple[Work, Mapping[str, Work]]:
        lab = MatchedLab.prepare(synthetic_run())
        return lambda: lab.score(ROUTING, (multiplier, multiplier)), {}

    return prepare


def bisect_temperature(logits: FloatArray, target: FloatArray, n_steps: int = 60) -> FloatArray:
    """The same temperatures by bisection in log tau, vectorised over samples."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    low, high = np.full(target.size, -12.0), np.full(target.size, 12.0)
    for _ in range(n_steps):
        middle = 0.5 * (low + high)
        too_sharp = 1 / np.exp(shifted / np.exp(middle)[:, np.newaxis]).sum(axis=1) > target
        low, high = np.where(too_sharp, middle, low), np.where(too_sharp, high, middle)
    temperature: FloatArray = np.exp(0.5 * (low + high))
    return temperature


def _solver(n_classes: int) -> Callable[[], tuple[Work, Mapping[str, Work]]]:
    def prepare() -> tuple[Work, Mapping[str, Work]]:
        logits, probabilities, _ = predictions(HALF, n_classes)
        shrink = np.random.default_rng(2).uniform(0.8, 1.0, HALF)
        target = np.clip(probabilities.max(axis=1) * shrink, 1 / n_classes + 1e-6, 1 - 1e-6)
        peers = {"60-step bisection": lambda: bisect_temperature(logits, target)}
        return lambda: solve_temperature(logits, target), peers

    return prepare


def _cross_validation() -> tuple[Work, Mapping[str, Work]]:
    lab = MatchedLab.prepare(synthetic_run())
    calibration = lab.halves.calibration
    regressors, logits, labels = lab.members[ROUTING].regressors, calibration.logits, calibration.known_labels
    return lambda: cv_nll_bandwidth(regressors, logits, labels), {}


def _one_axis() -> tuple[Work, Mapping[str, Work]]:
    cal, target, query, _ = _regression_data()
    first, at = np.ascontiguousarray(cal[:, 0]), np.ascontiguousarray(query[:, 0])
    bandwidth = scott_bandwidth(first)
    peers: dict[str, Work] = {}
    if installed("statsmodels"):
        from statsmodels.nonparametric.kernel_regression import KernelReg

        model = KernelReg(target, first, var_type="c", reg_type="lc", bw=bandwidth)
        peers["statsmodels KernelReg"] = lambda: model.fit(at)
    return lambda: nw_regress(first, target, at, bandwidth), peers


def _whole_benchmark() -> tuple[Work, Mapping[str, Work]]:
    run = synthetic_run()
    return lambda: run_benchmark(run, n_bootstrap=0), {}


def _bootstrapped_benchmark() -> tuple[Work, Mapping[str, Work]]:
    run = synthetic_run()
    return lambda: run_benchmark(run, n_bootstrap=500), {}


CASES: tuple[Case, ...] = (
    Case("kernel regression, 2-D, 5000 x 5000", _beside_statsmodels, target=25.0),
    Case("kernel regression, 2-D, beside dense numpy", _beside_dense, target=1.0),
    Case("kernel regression, 1-D, 5000 x 5000", _one_axis, target=25.0),
    Case("surface, 128 x 128", _surface, target=1.0),
    Case("AR-CondCal update, 1x Scott, K = 10", _update(1.0), limit_seconds=0.150),
    Case("AR-CondCal update, 0.3x Scott, K = 10", _update(0.3), limit_seconds=0.150),
    Case("temperatures, K = 10", _solver(10), target=5.0),
    Case("temperatures, K = 1000", _solver(1000), target=5.0, repeats=3),
    Case("bandwidth by 5-fold NLL", _cross_validation, repeats=3),
    Case("fifteen calibrators, one run, K = 10", _whole_benchmark, limit_seconds=3.0, repeats=3),
    Case("the same with 500 bootstrap resamples", _bootstrapped_benchmark, repeats=1),
)
