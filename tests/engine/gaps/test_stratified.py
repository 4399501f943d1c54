"""Cochran-Mantel-Haenszel, Mantel trend, weighted gap and the match diagnostic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from engine.core.errors import InvalidInput, UnknownName
from engine.gaps import (
    cmh_test,
    match_diagnostic,
    permutation_test,
    primary_bins,
    tabulate,
    trend_test,
    weighted_gap_test,
)
from engine.gaps.settings import matches_confidence
from engine.gaps.statistics.trend import TrendDesign

TESTS = (cmh_test, trend_test, weighted_gap_test)


def dataset(seed: int, n: int = 3000, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence, rho = rng.beta(4, 1.5, n), rng.normal(size=n)
    return confidence, rng.random(n) < np.clip(confidence + slope * np.tanh(rho), 0, 1), rho


@pytest.mark.parametrize("matching", ["equal_width", "equal_mass"])
@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_cmh_equals_statsmodels(matching: str, slope: float):
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    data = dataset(3, slope=slope)
    counts = tabulate(*data, matching=matching).counts
    # statsmodels divides by zero on empty strata, so it gets the others.
    strata = [counts[b][[0, 2]].T[::-1].astype(float) for b in range(15) if counts[b][[0, 2]].sum() > 1]
    reference = tables.StratifiedTable(strata).test_null_odds(correction=False)
    ours = cmh_test(*data, n_bins=15, matching=matching)
    assert ours.z**2 == pytest.approx(reference.statistic)
    assert ours.p_value == pytest.approx(reference.pvalue)


def test_cmh_by_hand():
    # One stratum: low 3 of 4 right, high 1 of 4 right. E = 2, V = 4*4*4*4 / (64 * 7) = 4/7.
    confidence = np.full(8, 0.5)
    correct = [1, 1, 1, 0, 1, 0, 0, 0]
    rho = [0] * 4 + [1] * 4
    result = cmh_test(confidence, correct, rho, n_bins=1, quantiles=(0.3, 0.4), method="permutation")
    assert result.z == pytest.approx(-(3 - 2) / np.sqrt(4 / 7))
    assert result.effect == pytest.approx(1 / 4 - 3 / 4)
    # P(|a - 2| >= 1) = 1 - C(4,2) C(4,2) / C(8,4) = 1 - 36/70
    assert result.p_permutation == pytest.approx(1 - 36 / 70)


def test_trend_by_hand():
    # One stratum, ranks 1..4, correct at ranks 3 and 4: T = 0.5 + 1.5 = 2, S = 5, V = 5 * 2 * 2 / (4 * 3) = 5/3.
    result = trend_test(np.full(4, 0.5), [0, 0, 1, 1], [10, 20, 30, 40], n_bins=1, method="permutation")
    assert result.z == pytest.approx(2 / np.sqrt(5 / 3))
    # Slope 2/5; a third is 4/3 samples, so the outer thirds have mean scores of -+(1.5 + 0.5 / 3) / (4/3) = -+1.25.
    assert result.effect == pytest.approx(2 / 5 * 2.5)
    # Of the six pairs of ranks, {1, 2} and {3, 4} are as extreme.
    assert result.p_permutation == pytest.approx(2 / 6, abs=0.03)


def test_trend_equals_a_direct_stratified_covariance():
    confidence, correct, rho = dataset(4, n=1000, slope=0.1)
    result = trend_test(confidence, correct, rho, n_bins=10)
    order = np.argsort(confidence, kind="stable")
    ranks = np.empty(1000)
    ranks[np.argsort(rho)] = np.arange(1, 1001)
    statistic = variance = 0.0
    for block in np.array_split(order, 10):
        r, t = ranks[block], correct[block].astype(float)
        statistic += ((r - r.mean()) * (t - t.mean())).sum()
        variance += ((r - r.mean()) ** 2).sum() * ((t - t.mean()) ** 2).sum() / (len(block) - 1)
    assert result.z == pytest.approx(statistic / np.sqrt(variance))


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("seed", range(3))
def test_asymptotic_and_permutation_pvalues_agree(test, seed: int):
    data = dataset(seed, n=2000, slope=0.02)
    result = test(*data, method="permutation")
    assert result.p_value == result.p_permutation
    assert result.p_permutation == pytest.approx(result.p_asymptotic, abs=0.03)


def test_weighted_gap_test_agrees_with_the_permutation_test():
    data = dataset(1, slope=0.03)
    result = weighted_gap_test(*data, n_bins=15, matching="equal_width", method="permutation")
    reference = permutation_test(*data, statistic="weighted_gap")
    assert result.p_permutation == reference.p_value
    assert result.effect == pytest.approx(-reference.gap.signed_gap)


def test_trend_effect_reads_as_a_tertile_gap():
    rng = np.random.default_rng(0)
    rho = rng.random(40_000)
    correct = rng.random(40_000) < 0.9 - 0.3 * rho  # tertile means 1/6 and 5/6: accuracy falls by 0.2 between them
    assert trend_test(rng.random(40_000), correct, rho).effect == pytest.approx(-0.2, abs=0.02)


@pytest.mark.parametrize("n", [300, 4000])
def test_trend_effect_of_a_planted_gap_is_about_its_size(n: int):
    """At any number of bins, where rho is independent of confidence; in bins of 10 it is at most 9 % too small."""
    rng = np.random.default_rng(1)
    effects = []
    for _ in range(200):
        confidence, rho = rng.random(n), rng.random(n)
        effects.append(trend_test(confidence, rng.random(n) < 0.9 - 0.3 * rho, rho).effect)
    assert np.mean(effects) == pytest.approx(-0.2, rel=0.12)


def test_trend_effect_is_a_change_of_accuracy_however_closely_rho_follows_confidence():
    """A copy of confidence has hardly any distance left at similar confidence; the slope is not stretched beyond it."""
    rng = np.random.default_rng(0)
    confidence = rng.random(10_000)
    rho = -(confidence + rng.normal(0, 0.002, 10_000))
    effects = [trend_test(confidence, rng.random(10_000) < confidence, rho).effect for _ in range(20)]
    assert np.abs(effects).max() < 0.1  # up to 1.7 from one tertile of the whole run to the other


def test_reach_by_hand():
    # Ranks 1..6. Bin 0: ranks 1, 3, 5, a sample per third: 4. Bin 1: ranks 2, 6: two thirds of a sample each: 4.
    # Bin 2: one sample: 0. Mean over samples (3 * 4 + 2 * 4 + 0) / 6; bin 3 is empty.
    design = TrendDesign.of(np.array([0, 0, 0, 1, 1, 2]), np.array([1.0, 3, 5, 2, 6, 4]), 4)
    assert design.reach() == pytest.approx(20 / 6)


def test_a_decided_bin_has_an_effect_of_one():
    for n in (2, 4, 6, 10, 30):
        correct = np.arange(n) >= n / 2
        assert trend_test(np.full(n, 0.5), correct, np.arange(n), n_bins=1).effect == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("test", [cmh_test, trend_test])
def test_sign_follows_the_direction_of_the_effect(test):
    confidence, correct, rho = dataset(0, slope=0.15)
    upward, downward = test(confidence, correct, rho), test(confidence, correct, -rho)
    assert upward.effect > 0
    assert upward.z > 0
    assert downward.z == pytest.approx(-upward.z, rel=0.02)
    assert upward.p_value < 1e-4


@pytest.mark.parametrize("test", TESTS)
def test_invariances(test):
    confidence, correct, rho = dataset(7, slope=0.05)
    base = test(confidence, correct, rho)
    order = np.random.default_rng(1).permutation(rho.size)
    assert test(confidence[order], correct[order], rho[order]).p_value == pytest.approx(base.p_value)
    assert test(confidence, correct, np.exp(rho / 3)).p_value == pytest.approx(base.p_value, rel=1e-3)
    assert test(confidence, correct, 5 * rho - 2).p_value == pytest.approx(base.p_value)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize(
    ("correct", "rho"),
    [(np.ones(300), np.arange(300.0)), (np.zeros(300), np.arange(300.0)), (np.arange(300) % 2, np.ones(300))],
    ids=["all correct", "all wrong", "constant rho"],
)
def test_nothing_to_test_says_so(test, correct, rho):
    result = test(np.linspace(0.1, 0.9, 300), correct, rho)
    assert result.p_value is None
    assert result.z is None
    assert result.notes


@pytest.mark.parametrize(
    ("n", "bins"),
    [(0, 1), (19, 1), (99, 9), (100, 10), (250, 25), (400, 40), (4000, 40), (4099, 40), (4100, 41), (10_000, 100)],
)
def test_bins_hold_a_hundred_samples_and_fewer_in_small_runs(n: int, bins: int):
    assert primary_bins(n) == bins
    assert matches_confidence(bins) is (n >= 100)
    if n:
        assert trend_test(*dataset(0, n=n)).n_strata == bins


@pytest.mark.parametrize("n", [300, 900])
@pytest.mark.parametrize("noise", [0.005, 0.03, 0.15])
def test_small_confidence_only_worlds_are_seldom_rejected(n: int, noise: float):
    """rho is a noisy copy of confidence. Bins of 100 samples reject up to 93 % (n = 300) and 64 % (n = 900)."""
    rng = np.random.default_rng(0)
    rejections = 0
    for _ in range(200):
        confidence = 1 - 0.9 * rng.beta(0.5, 2, n)
        rho = confidence + rng.normal(0, noise, n)
        rejections += trend_test(confidence, rng.random(n) < confidence, rho).p_value <= 0.05
    assert rejections <= 0.12 * 200


@pytest.mark.parametrize("test", [cmh_test, trend_test])
def test_stratified_tests_keep_their_size_under_the_null(test):
    rng = np.random.default_rng(2)
    confidence = np.repeat((np.arange(20) + 0.5) / 20, 50)  # accuracy constant inside each bin of 50
    rho = rng.normal(size=1000)
    p = np.array([
        test(confidence, rng.random(1000) < confidence, rho, n_bins=20).p_value for _ in range(1000)
    ])  # fmt: skip
    assert 0.03 < (p <= 0.05).mean() < 0.07


def test_match_diagnostic_by_hand_and_by_scipy():
    rng = np.random.default_rng(0)
    confidence = rng.random(500)
    rho = confidence + 0.3 * rng.normal(size=500)
    # With one bin it is Spearman's correlation.
    assert match_diagnostic(confidence, rho, n_bins=1) == pytest.approx(spearmanr(confidence, rho).statistic)
    assert match_diagnostic(confidence, np.ones(500)) is None
    coarse = match_diagnostic(confidence, rho, n_bins=5)
    fine = match_diagnostic(confidence, rho, n_bins=50)
    assert abs(fine) < abs(coarse) < match_diagnostic(confidence, rho, n_bins=1)


def test_bad_settings_are_named():
    data = dataset(0, n=200)
    for test in TESTS:
        with pytest.raises(UnknownName, match="asymptotic, permutation"):
            test(*data, method="exact")
        with pytest.raises(InvalidInput, match="n_bins"):
            test(*data, n_bins=0)
        with pytest.raises(InvalidInput, match="correct"):
            test(data[0], data[1][:-1], data[2])


def test_cmh_effect_counts_bins_in_which_all_are_right():
    # Bin A: low 2 of 4, high 4 of 4. Bin B: everybody right. Risk differences 0.5 and 0, equal weights.
    confidence = np.repeat([0.2, 0.8], 8)
    correct = [1, 1, 0, 0, 1, 1, 1, 1] + [1] * 8
    rho = ([0] * 4 + [1] * 4) * 2
    result = cmh_test(confidence, correct, rho, n_bins=2, matching="equal_width", quantiles=(0.4, 0.45))
    assert result.effect == pytest.approx((2 * 0.5 + 2 * 0.0) / 4)


@pytest.mark.parametrize("test", TESTS)
def test_a_p_is_never_zero(test):
    rng = np.random.default_rng(0)
    rho = rng.normal(size=20_000)
    assert 0 < test(rng.random(20_000), rho > 0, rho).p_value < 1e-100


def test_a_gap_that_cannot_vary_is_not_tested():
    # Five low, five high and one of them wrong: whoever it is, the absolute gap is 0.2.
    result = weighted_gap_test(np.full(10, 0.5), [0] + [1] * 9, [0] * 5 + [1] * 5, n_bins=1, quantiles=(0.3, 0.4))
    assert result.p_value is None


def test_bins_that_do_not_match_confidence_are_noted():
    data = dataset(0, n=90)
    for test in (cmh_test, trend_test):
        assert test(*data).notes == ("confidence is not matched by 9 bins",)
        assert not test(*data).matched
        assert test(*dataset(0, n=100)).matched
    assert "confidence is not matched by 1 bin" in weighted_gap_test(*data, n_bins=1).notes
    with pytest.raises(InvalidInput, match="seed"):
        trend_test(*data, method="permutation", seed=-1)
    for test in (cmh_test, weighted_gap_test):
        with pytest.raises(InvalidInput, match="confidence"):
            test([[0.5], [0.5, 0.6]], [1, 0], [1, 2])
