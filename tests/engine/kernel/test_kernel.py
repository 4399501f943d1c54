"""The kernel regression against dense sums and statsmodels, and the temperature solver against its own equation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from engine.core.errors import InvalidInput
from engine.kernel import (
    cv_nll_bandwidth,
    nw_regress,
    nw_surface,
    scott_bandwidth,
    shrinkage,
    solve_temperature,
    tertile_distance,
)
from engine.kernel import regression as regression_module


def dense(x_cal, t_cal, x_query, bandwidth):
    """The definition, in one n x n array."""
    offsets = (x_query[:, None, :] - x_cal[None, :, :]) / bandwidth
    weights = np.exp(-0.5 * (offsets**2).sum(axis=2))
    return weights @ t_cal / weights.sum(axis=1)


def regressors(seed: int, n: int, n_axes: int = 2):
    """Confidence crowded near 1 beside skewed features, as real runs have them."""
    rng = np.random.default_rng(seed)
    columns = [1 - rng.beta(0.6, 4, n), *(rng.gamma(2.0, 0.02, n) for _ in range(n_axes - 1))]
    x = np.column_stack(columns)
    return x, (rng.random(n) < x[:, 0]).astype(float)


# ---- bandwidth


def test_scott_by_hand():
    x = np.array([0.0, 2.0, 4.0, 6.0])
    # population variance 5, n = 4, m = 1: h = sqrt(5) * 4^(-1/5)
    assert scott_bandwidth(x) == pytest.approx([math.sqrt(5) * 4 ** (-1 / 5)])
    assert scott_bandwidth(x, dimension=2) == pytest.approx([math.sqrt(5) * 4 ** (-1 / 6)])


def test_scott_factor_is_scipys():
    x, _ = regressors(0, 300)
    assert scott_bandwidth(x) == pytest.approx(x.std(axis=0) * gaussian_kde(x.T).scotts_factor())


def test_scott_of_a_constant_axis_is_exactly_zero():
    x = np.column_stack([np.linspace(0, 1, 7), np.full(7, 0.1)])
    assert scott_bandwidth(x)[1] == 0.0
    assert scott_bandwidth(x)[0] > 0


def test_shrinkage_by_hand_and_in_its_limits():
    assert shrinkage(2.0, 1.0) == pytest.approx(math.tanh(1.0))
    assert shrinkage(1.0, 1e6) == pytest.approx(2.5e-13)
    assert shrinkage(1.0, 1e-6) == 1.0
    assert shrinkage(1.0, 0.0) == 0.0


def test_shrinkage_is_what_the_regression_does_to_two_groups():
    distance, bandwidth = 0.7, 0.4
    cal = np.repeat([-distance / 2, distance / 2], 50)
    fitted = nw_regress(cal, (cal > 0).astype(float), np.array([-distance / 2, distance / 2]), bandwidth)
    assert fitted[1] - fitted[0] == pytest.approx(shrinkage(distance, bandwidth), abs=1e-12)


def test_tertile_distance_by_hand():
    # tertiles of 1..9: {1,2,3}, {4,5,6}, {7,8,9} -> 8 - 2
    assert tertile_distance(np.arange(1.0, 10.0)) == pytest.approx(6.0)
    assert tertile_distance(np.ones(9)) == 0.0


# ---- regression


@pytest.mark.parametrize("n_axes", [1, 2, 3, 4])
@pytest.mark.parametrize("multiplier", [0.1, 0.3, 1.0, 4.0])
def test_equals_the_dense_sum(n_axes, multiplier):
    x, t = regressors(1, 1500, n_axes)
    query, _ = regressors(2, 700, n_axes)
    bandwidth = multiplier * scott_bandwidth(x)
    with np.errstate(invalid="ignore"):
        expected = dense(x, t, query, bandwidth)
    defined = np.isfinite(expected)
    assert defined.mean() > 0.95
    assert np.abs(nw_regress(x, t, query, bandwidth) - expected)[defined].max() < 1e-9


@pytest.mark.parametrize(
    ("way", "multiplier", "n_calls"), [("smooth_sums", 2.0, 1), ("smooth_sums", 0.5, 2), ("_sums_within_reach", 0.1, 1)]
)
def test_each_way_is_taken_and_right(way, multiplier, n_calls, monkeypatch):
    x, t = regressors(3, 3000)
    query, _ = regressors(4, 3000)
    bandwidth = scott_bandwidth(x) * multiplier
    calls = []
    original = getattr(regression_module, way)
    monkeypatch.setattr(regression_module, way, lambda *args: calls.append(way) or original(*args))
    fitted = nw_regress(x, t, query, bandwidth)
    assert calls == [way] * n_calls  # queries over many bandwidths are interpolated in strips
    rows = np.random.default_rng(0).choice(3000, 200, replace=False)
    with np.errstate(invalid="ignore"):
        expected = dense(x, t, query[rows], bandwidth)
    defined = np.isfinite(expected)
    assert defined.sum() >= 190
    assert fitted[rows][defined] == pytest.approx(expected[defined], abs=1e-9)


def test_equals_statsmodels_local_constant():
    kernel_regression = pytest.importorskip("statsmodels.nonparametric.kernel_regression")
    x, t = regressors(5, 400)
    query, _ = regressors(6, 150)
    bandwidth = scott_bandwidth(x)
    peer = kernel_regression.KernelReg(t, x, var_type="cc", reg_type="lc", bw=bandwidth)
    assert nw_regress(x, t, query, bandwidth) == pytest.approx(peer.fit(query)[0], abs=1e-8)


def test_small_weights_are_as_exact_as_large_ones():
    """Two clusters and queries on the way between them: sums of 1e-30 must give the same ratio as the dense sum."""
    rng = np.random.default_rng(7)
    x = np.concatenate([rng.normal(0, 1, (2000, 2)), rng.normal(25, 1, (2000, 2))])
    t = np.concatenate([np.zeros(2000), np.ones(2000)])
    query = np.concatenate([x + 0.1, np.linspace(0, 25, 200)[:, None].repeat(2, axis=1)])
    fitted = nw_regress(x, t, query, 1.0)
    assert fitted[-200:] == pytest.approx(dense(x, t, query[-200:], 1.0), abs=1e-9)


def test_real_targets_and_offsets():
    rng = np.random.default_rng(8)
    x, t = rng.normal(1e6, 1.0, (800, 2)), rng.normal(-3.0, 5.0, 800)
    query = rng.normal(1e6, 1.0, (100, 2))
    assert nw_regress(x, t, query, 0.4) == pytest.approx(dense(x, t, query, 0.4), abs=1e-8)


def test_underflowing_query_takes_the_nearest_points():
    x = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    t = np.array([0.0, 1.0, 0.0, 1.0])
    far = np.array([[1e6, 0.0], [0.0, 1e6], [1e6, 1e6]])
    # nearest: the two points at (2, 0) -> 1/2; the point (0, 2) -> 1; all three of them -> 2/3
    assert nw_regress(x, t, far, 1.0) == pytest.approx([0.5, 1.0, 2 / 3])


def test_axis_without_bandwidth_is_ignored():
    x, t = regressors(9, 500)
    query, _ = regressors(10, 60)
    alone = nw_regress(x[:, 0], t, query[:, 0], 0.05)
    assert nw_regress(x, t, query, [0.05, 0.0]) == pytest.approx(alone, abs=1e-12)
    assert nw_regress(x, t, query, 0.0) == pytest.approx(np.full(60, t.mean()))


def test_result_stays_between_the_targets():
    x, t = regressors(11, 2000)
    fitted = nw_regress(x, t, x, scott_bandwidth(x))
    assert fitted.min() >= 0
    assert fitted.max() <= 1
    assert (nw_regress(x, np.ones(2000), x, scott_bandwidth(x)) == 1).all()


def test_memory_stays_within_the_budget():
    """No array of n x n pairs: 3000 x 3000 doubles would be 72 MB."""
    import tracemalloc

    rng = np.random.default_rng(12)
    x, query = rng.normal(size=(3000, 3)), rng.normal(size=(3000, 3))
    tracemalloc.start()
    nw_regress(x, np.ones(3000), query, 0.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8e6


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (([[0.0, 1.0]], [1.0], [[0.0]], 1.0), "x_query"),
        (([[0.0], [1.0]], [1.0], [[0.0]], 1.0), "t_cal"),
        (([[0.0], [np.nan]], [1.0, 0.0], [[0.0]], 1.0), "x_cal"),
        (([[0.0], [1.0]], [1.0, 0.0], [[0.0]], -1.0), "bandwidth"),
        (([[0.0], [1.0]], [1.0, 0.0], [[0.0]], [1.0, 2.0]), "bandwidth"),
        (([[0.0], [1.0]], [1.0, 0.0], [[0.0]], np.nan), "bandwidth"),
    ],
)
def test_bad_regression_input_is_named(arguments, culprit):
    with pytest.raises(InvalidInput) as caught:
        nw_regress(*arguments)
    assert caught.value.argument == culprit


# ---- surface


def test_surface_is_the_regression_on_a_grid():
    x, t = regressors(13, 900)
    grid = (np.linspace(0.6, 1, 17), np.linspace(0, 0.1, 11))
    bandwidth = scott_bandwidth(x)
    surface = nw_surface(x, t, bandwidth, grid)
    points = np.array([(a, b) for a in grid[0] for b in grid[1]])
    assert surface.value.ravel() == pytest.approx(nw_regress(x, t, points, bandwidth), abs=1e-9)
    offsets = (points[40] - x) / bandwidth
    assert surface.weight.ravel()[40] == pytest.approx(np.exp(-0.5 * (offsets**2).sum(axis=1)).sum())


def test_surface_with_a_constant_axis():
    x, t = regressors(15, 200)
    x[:, 1] = 0.3
    grid = (np.linspace(0.5, 1, 9), np.array([0.3]))
    surface = nw_surface(x, t, scott_bandwidth(x), grid)
    assert surface.value[:, 0] == pytest.approx(nw_regress(x[:, 0], t, grid[0], scott_bandwidth(x)[0]))


def test_surface_is_blank_where_nothing_reaches():
    surface = nw_surface([[0.0, 0.0], [1.0, 1.0]], [0.0, 1.0], 0.01, ([0.0, 100.0], [0.0, 100.0]))
    assert np.isnan(surface.value[1, 1])
    assert surface.value[0, 0] == 0.0


# ---- temperature


def top_probability(logits, temperature):
    scaled = (logits - logits.max(axis=1, keepdims=True)) / temperature[:, None]
    return 1 / np.exp(scaled).sum(axis=1)


def test_two_classes_in_closed_form():
    # softmax((3, 1) / tau)_0 = 1 / (1 + exp(-2 / tau)) = 0.9  ->  tau = 2 / log 9
    solution = solve_temperature([[3.0, 1.0]], [0.9])
    assert solution.temperature == pytest.approx([2 / math.log(9)], rel=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_target_is_reproduced(n_classes, scale):
    rng = np.random.default_rng(n_classes)
    logits = scale * rng.normal(size=(400, n_classes))
    target = rng.uniform(1 / n_classes + 1e-6, 1 - 1e-6, 400)
    target[:4] = 1 / n_classes + 1e-6, 1 - 1e-6, 1 / n_classes + 1e-3, 0.5 if n_classes > 2 else 0.7
    solution = solve_temperature(logits, target)
    assert (solution.temperature > 0).all()
    assert np.abs(top_probability(logits, solution.temperature) - target).max() < 1e-8
    assert solution.n_tied == solution.n_clipped_low == solution.n_clipped_high == 0
    assert solution.converged
    assert solution.n_iterations < 12


def test_crowded_runners_up():
    """One class far below and many almost level with the top: the flattest slopes the solver meets."""
    rng = np.random.default_rng(3)
    logits = np.concatenate([np.zeros((300, 1)), -(10.0 ** rng.uniform(-9, 3, (300, 20)))], axis=1)
    target = rng.uniform(1 / 21 + 1e-6, 1 - 1e-6, 300)
    solution = solve_temperature(logits, target)
    assert solution.converged
    assert np.abs(top_probability(logits, solution.temperature) - target).max() < 1e-8


def test_ties_are_reported_and_left_alone():
    logits = np.array([[2.0, 2.0, 0.0, -1.0], [2.0, 2.0, 0.0, -1.0], [1.0, 1.0, 1.0, 1.0], [3.0, 1.0, 0.0, 0.0]])
    solution = solve_temperature(logits, [0.8, 0.4, 0.5, 0.8])
    # two classes share the top: 0.8 is out of reach (at most 1/2), 0.4 is not; four level classes cannot move at all
    assert solution.tied.tolist() == [True, False, True, False]
    assert solution.n_tied == 2
    assert solution.temperature[[0, 2]].tolist() == [1.0, 1.0]
    reached = top_probability(logits, solution.temperature)
    assert reached[[1, 3]] == pytest.approx([0.4, 0.8], abs=1e-9)


def test_unreachable_targets_are_clipped_and_counted():
    logits = np.tile([2.0, 1.0, 0.0, 0.0], (5, 1))
    solution = solve_temperature(logits, [0.0, 0.25, 0.3, 1.0, 1 - 1e-7])
    assert (solution.n_clipped_low, solution.n_clipped_high) == (2, 2)
    assert (solution.clip_rate_low, solution.clip_rate_high) == (0.4, 0.4)
    expected = [0.25 + 1e-6, 0.25 + 1e-6, 0.3, 1 - 1e-6, 1 - 1e-6]
    assert solution.target == pytest.approx(expected, abs=1e-15)
    assert top_probability(logits, solution.temperature) == pytest.approx(expected, abs=1e-9)


def test_temperature_falls_as_the_target_rises():
    target = np.linspace(0.11, 0.999, 50)
    logits = np.tile(np.linspace(3, 0, 10), (50, 1))
    assert (np.diff(solve_temperature(logits, target).temperature) < 0).all()


@pytest.mark.parametrize(
    ("logits", "target", "culprit"),
    [
        ([[1.0], [2.0]], [0.5, 0.5], "logits"),
        ([[1.0, np.inf]], [0.5], "logits"),
        ([[1.0, 0.0]], [0.5, 0.6], "target"),
        ([[1.0, 0.0]], [1.5], "target"),
        ([[1.0, 0.0]], [np.nan], "target"),
    ],
)
def test_bad_temperature_input_is_named(logits, target, culprit):
    with pytest.raises(InvalidInput) as caught:
        solve_temperature(logits, target)
    assert caught.value.argument == culprit


# ---- choice by cross-validation


def calibration_set(seed: int, n: int):
    rng = np.random.default_rng(seed)
    logits = 2.5 * rng.normal(size=(n, 5))
    uniform = rng.random((n, 1))
    probabilities = np.exp(logits / 2 - (logits / 2).max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1) < uniform).sum(axis=1).clip(max=4)
    softmax = np.exp(logits - logits.max(axis=1, keepdims=True))
    confidence = (softmax / softmax.sum(axis=1, keepdims=True)).max(axis=1)
    return np.column_stack([confidence, rng.normal(size=n)]), logits, labels


def test_cross_validated_nll_by_definition():
    x, logits, labels = calibration_set(0, 240)
    choice = cv_nll_bandwidth(x, logits, labels, multipliers=(0.5, 2.0), seed=3)
    folds = np.array_split(np.random.default_rng(3).permutation(240), 5)
    correct = (logits.argmax(axis=1) == labels).astype(float)
    rest = np.setdiff1d(np.arange(240), folds[1])
    target = dense(x[rest], correct[rest], x[folds[1]], 2.0 * scott_bandwidth(x[rest], dimension=2))
    tau = solve_temperature(logits[folds[1]], target).temperature
    scaled = logits[folds[1]] / tau[:, None]
    losses = np.log(np.exp(scaled).sum(axis=1)) - scaled[np.arange(48), labels[folds[1]]]
    assert choice.fold_nll[1, 1] == pytest.approx(losses.mean(), abs=1e-9)
    assert choice.multiplier == choice.multipliers[choice.nll.argmin()]
    assert choice.bandwidth == pytest.approx(choice.multiplier * scott_bandwidth(x, dimension=2))


def test_cross_validation_shuns_a_bandwidth_that_memorises():
    x, logits, labels = calibration_set(1, 600)
    choice = cv_nll_bandwidth(x, logits, labels, multipliers=(0.02, 1.0))
    assert choice.multiplier == 1.0
    assert cv_nll_bandwidth(x, logits, labels, multipliers=(0.02, 1.0)).fold_nll.tolist() == choice.fold_nll.tolist()


def test_cross_validation_needs_enough_samples():
    x, logits, labels = calibration_set(2, 9)
    with pytest.raises(InvalidInput, match="at least 10 samples"):
        cv_nll_bandwidth(x, logits, labels)


def test_solver_agrees_with_bisection():
    from tests.bench.kernel import bisect_temperature

    rng = np.random.default_rng(9)
    logits, target = 3 * rng.normal(size=(200, 12)), rng.uniform(0.1, 0.99, 200)
    assert solve_temperature(logits, target).temperature == pytest.approx(bisect_temperature(logits, target), rel=1e-9)
