"""Quantile groups: means and intervals by hand, ties, groups of one."""

import numpy as np
import pytest
from scipy import stats

from engine.core.binning import quantile_groups


def test_two_groups_by_hand():
    groups = quantile_groups(np.array([3.0, 0.0, 2.0, 1.0]), 2)
    assert groups.index.tolist() == [1, 0, 1, 0]
    column = np.array([0.1, 0.2, 0.3, 0.6])
    assert groups.mean(column).tolist() == pytest.approx([(0.2 + 0.6) / 2, (0.1 + 0.3) / 2])
    low, high = groups.interval(column)
    half = stats.t.ppf(0.975, 1) * np.array([0.2, 0.1])  # sd / sqrt(2) of two values is half their distance
    np.testing.assert_allclose((high - low) / 2, half)


def test_intervals_are_those_of_scipy():
    rng = np.random.default_rng(0)
    values, column = rng.random(300), rng.random(300)
    groups = quantile_groups(values, 7)
    low, high = groups.interval(column)
    for group in range(7):
        own = column[groups.index == group]
        expected = stats.ttest_1samp(own, 0).confidence_interval(0.95)
        assert (low[group], high[group]) == pytest.approx((expected.low, expected.high))


def test_ties_stay_together_and_a_group_of_one_has_no_interval():
    groups = quantile_groups(np.array([0.0, 0.0, 0.0, 0.0, 1.0]), 5)
    assert groups.counts.tolist() == [4, 1]
    low, high = groups.interval(np.arange(5.0))
    assert np.isnan([low[1], high[1]]).all()
    assert np.isfinite([low[0], high[0]]).all()
    assert quantile_groups(np.zeros(9), 4).counts.tolist() == [9]
