"""The debiased ECE: closed forms of one bin, moments against scipy, and coverage where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import foldnorm, norm

from engine.core.pvalues import wilson_interval
from engine.metrics import ece
from engine.metrics.debiased import DebiasedEce, _critical, _folded_normal, debiased_difference, debiased_ece
from engine.metrics.reliability import expected_ece
from tests.bench.coverage import World, difference_covered


def test_one_bin_far_from_zero_is_wilsons_interval():
    """240 of 400 right at confidence 0.7: |240/400 - 0.7| = 0.1; the ends are 0.7 minus those of the accuracy."""
    found = debiased_ece(np.full(400, 0.7), np.arange(400) < 240)
    low, high = wilson_interval(240, 400)
    assert found.estimate == pytest.approx(0.1, abs=2e-4)
    assert (found.low, found.high) == pytest.approx((0.7 - high, 0.7 - low), abs=2e-4)


def test_one_bin_near_zero_has_the_median_of_a_folded_normal():
    """63 of 100 right at 0.7: T = 0.07. The gap is N(-theta, s^2) with s^2 = (0.21 + 0.4 theta - theta^2) / 100."""
    theta = debiased_ece(np.full(100, 0.7), np.arange(100) < 63).estimate
    deviation = np.sqrt((0.21 + 0.4 * theta - theta**2) / 100)
    assert foldnorm.cdf(0.07 / deviation, theta / deviation) == pytest.approx(0.5, abs=0.01)


def test_gaps_of_two_bins_add_up():
    """Far from zero in both bins: 100/200 |0.3 - 0.9| + 100/200 |0.8 - 0.2| = 0.3 + 0.3.

    Both gaps are 0.6, so shares of samples do not matter, and the variance is that of the accuracies.
    """
    confidence = np.repeat([0.9, 0.2], 100)
    correct = np.concatenate([np.arange(100) < 30, np.arange(100) < 80])
    found = debiased_ece(confidence, correct)
    assert found.estimate == pytest.approx(0.6, abs=1e-3)
    error = np.sqrt(0.3 * 0.7 * 100 + 0.8 * 0.2 * 100) / 200
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.05)


def test_noise_alone_gives_zero():
    """About as many right as expected in every bin: less than the noise that calibrated confidence would show."""
    confidence = np.repeat([0.5, 0.75, 0.9], 100)
    correct = np.concatenate([np.arange(100) < hits for hits in (50, 75, 91)])
    assert ece(confidence, correct) < expected_ece(confidence)
    found = debiased_ece(confidence, correct)
    assert found.estimate == found.low == 0 < found.high


@pytest.mark.parametrize(("confidence", "correct"), [([1.0] * 50, [1] * 50), ([1.0] * 50, [0] * 50), ([0.7], [1])])
def test_saturated_confidence_and_single_samples(confidence, correct):
    found = debiased_ece(confidence, correct)
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.low < found.high


@pytest.mark.parametrize("x", [0.0, 0.5, 2.0, 9.0])
def test_moments_of_a_folded_normal_are_scipys(x):
    mean, variance, skewness = foldnorm.stats(x, moments="mvs")
    found = [float(values[0]) for values in _folded_normal(np.array([x]))]
    assert found == pytest.approx([mean, variance, skewness * variance**1.5], abs=1e-8)


@pytest.mark.parametrize("mean", [0.0, 0.4, 1.3, 3.0])
def test_limits_of_feldman_and_cousins_accept_95_percent(mean):
    """Their definition, on a grid: x is accepted by its likelihood under the mean over that under the best of all."""
    x = np.linspace(mean - 9, mean + 9, 200_001)
    statistic = (x - mean) ** 2 - np.minimum(x, 0) ** 2
    accepted = statistic <= _critical(mean) ** 2
    assert norm.pdf(x[accepted], mean).sum() * (x[1] - x[0]) == pytest.approx(0.95, abs=1e-3)


@pytest.mark.parametrize(
    ("shape", "true", "matching"),
    [("temperature", 0.0, "equal_width"), ("temperature", 0.03, "equal_width"), ("both ways", 0.1, "equal_mass")],
)
def test_the_interval_covers(shape, true, matching):
    """300 samples of 1,000: 0.95 -+ four standard errors. Bootstrap percentiles cover a true 0 in none."""
    world = World.of("piled near 1", shape, true, size=100_000)
    assert 0.90 <= world.covered(1000, 300, matching) <= 0.995
    if true == 0:
        assert world.covered_by_percentiles(1000, 5) == 0


def test_a_difference_by_hand():
    first, second = DebiasedEce(0.05, 0.02, 0.09), DebiasedEce(0.02, 0.0, 0.05)
    found = debiased_difference(first, second, 0.0)  # 0.03 and 0.03 meet below, 0.04 and 0.02 above
    assert (found.estimate, found.low) == (pytest.approx(0.03), pytest.approx(0.03 - 0.03 * 2**0.5))
    assert found.high == pytest.approx(0.03 + 20**0.5 / 100)
    same = debiased_difference(first, first, 1.0)
    assert (same.estimate, same.low, same.high) == pytest.approx((0, -0.01, 0.01))  # 0.03 below, 0.04 above


@pytest.mark.parametrize(("one", "other"), [("nothing", "0.03 over"), ("0.01 over", "0.01 by turns")])
def test_the_interval_of_a_difference_covers(one: str, other: str):
    """150 samples of 1,500: 0.95 less three standard errors."""
    assert difference_covered(one, other, 1500, 150) >= 0.89
