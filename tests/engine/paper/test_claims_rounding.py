"""Arithmetic on printed numbers: whatever the digits that were not printed, the interval holds the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from engine.paper.claims.compare import bands_overlap, reachable, within_band
from engine.paper.claims.rounding import (
    Rounded,
    decimals,
    exactly,
    farthest,
    mean,
    rounded,
    std,
    total,
)


def printed(value: float, digits: int) -> Rounded:
    text = f"{value:.{digits}f}"
    return rounded(float(text), text)


def holds(interval: Rounded, truth: float) -> bool:
    return interval.low - 1e-12 <= truth <= interval.high + 1e-12


def test_a_printed_number_is_half_a_unit_wide():
    number = rounded(0.193, "0.193")
    assert (number.low, number.high) == pytest.approx((0.1925, 0.1935))
    assert decimals("0.0160") == 4
    assert decimals("15") == 0
    assert rounded(15, "15").low == 14.5


def test_difference_of_two_printed_numbers_by_hand():
    # 0.513 - 0.381 = 0.132, each within 0.0005: [0.131, 0.133]; a printed +0.131 may be that.
    difference = printed(0.513, 3) - printed(0.381, 3)
    assert (difference.low, difference.high) == pytest.approx((0.131, 0.133))
    assert printed(0.131, 3).may_equal(difference)
    assert not printed(0.129, 3).may_equal(difference)


def test_std_of_three_seeds_by_hand():
    # 0.346, 0.133, 0.100: mean 0.193; squares 0.153^2 + 0.060^2 + 0.093^2 = 0.035658
    seeds = [printed(value, 3) for value in (0.346, 0.133, 0.100)]
    assert mean(seeds).value == pytest.approx(0.193)
    assert std(seeds, 0).value == pytest.approx(math.sqrt(0.035658 / 3))
    assert std(seeds, 1).value == pytest.approx(math.sqrt(0.035658 / 2))
    assert not any(printed(0.107, 3).may_equal(std(seeds, ddof)) for ddof in (0, 1))
    assert printed(0.109, 3).may_equal(std(seeds, 0))


@pytest.mark.parametrize("seed", range(5))
def test_no_operation_loses_the_truth(seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        digits = int(rng.integers(1, 5))
        truth = rng.normal(size=4)
        a, b, c, d = (printed(value, digits) for value in truth)
        x, y, z, w = truth
        assert holds(a + b, x + y)
        assert holds(a - b, x - y)
        assert holds(a * b, x * y)
        assert holds(a / b, x / y)
        assert holds(abs(a), abs(x))
        assert holds(-a * 3.0, -x * 3)
        assert holds(total([a, b, c, d]), truth.sum())
        assert holds(mean([a, b, c, d]), truth.mean())
        for ddof in (0, 1):
            assert holds(std([a, b, c, d], ddof), truth.std(ddof=ddof))
        assert not a.surely_below(b) or x < y
        assert a.may_be_at_most(b) or x > y
        assert a.fits_within(b) or x > y
        assert a.may_equal(x)
        assert holds(exactly(z), z)
        assert holds(printed(w, 0), w)


@pytest.mark.parametrize("seed", range(20))
def test_smallest_std_is_the_smallest_over_the_box(seed: int):
    rng = np.random.default_rng(seed)
    values = [printed(value, 1) for value in rng.normal(0, 0.15, 4)]
    bounds = [(value.low, value.high) for value in values]
    start = [value.value for value in values]
    found = minimize(lambda x: np.var(x), start, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15})
    assert std(values, 0).low == pytest.approx(math.sqrt(max(found.fun, 0.0)), abs=2e-4)
    inside = rng.uniform(*np.transpose(bounds), size=(2000, 4)).std(axis=1)
    assert std(values, 0).low <= inside.min() + 1e-12
    assert std(values, 0).high >= inside.max() - 1e-12


def test_order_of_neighbours():
    # 0.1 and 0.2 meet at 0.15, which rounds to only one of them; equal prints may be in either order.
    assert printed(0.1, 1).surely_below(printed(0.2, 1))
    assert not printed(0.2, 1).may_be_at_most(printed(0.1, 1))
    assert not printed(0.1, 1).surely_below(printed(0.1, 1))
    assert printed(0.1, 1).may_be_at_most(printed(0.1, 1))
    assert not printed(0.10, 2).surely_below(printed(0.1, 1))
    # A derived quantity may sit on its bound.
    assert printed(0.2, 1).fits_within(printed(0.1, 1))
    assert not printed(0.3, 1).fits_within(printed(0.1, 1))


def test_division_by_a_number_that_may_be_zero_says_nothing():
    ratio = printed(1.0, 1) / printed(0.0, 1)
    assert (ratio.low, ratio.high) == (-math.inf, math.inf)
    assert ratio.may_equal(123.0)


@pytest.mark.parametrize("seed", range(10))
def test_a_member_never_contradicts_its_own_mean_and_std(seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        seeds = rng.gamma(1.0, 0.02, 3)
        for ddof in (0, 1):
            centre, spread = printed(seeds.mean(), 4), printed(seeds.std(ddof=ddof), 4)
            assert all(reachable(printed(value, 4), centre, spread, 3) for value in seeds)
            assert spread.may_be_at_most(centre * math.sqrt(3))


def test_bounds_are_reached():
    # (3m, 0, 0) has std sqrt(3) m with n - 1, and its largest member lies sqrt(2) std (with n) from the mean.
    seeds = np.array([0.3, 0.0, 0.0])
    assert 0.1 * math.sqrt(3) == pytest.approx(seeds.std(ddof=1))
    assert farthest(exactly(seeds.std()), 3).value == pytest.approx(0.2)


def test_a_value_that_cannot_be_a_member_is_found():
    # Three numbers with mean 0.0075 and std 0.0004 lie within 0.0004 sqrt(2) = 0.00057 of it: not 0.0061.
    assert not reachable(printed(0.0061, 4), printed(0.0075, 4), printed(0.0004, 4), 3)
    assert reachable(printed(0.0070, 4), printed(0.0075, 4), printed(0.0004, 4), 3)


def test_bands():
    first, second = (printed(0.0109, 4), printed(0.0016, 4)), (printed(0.0100, 4), printed(0.0010, 4))
    assert within_band(first[0], *second)
    assert not within_band(printed(0.0120, 4), *second)
    assert bands_overlap(first, second)
    assert not bands_overlap((printed(0.02, 4), printed(0.001, 4)), second)
