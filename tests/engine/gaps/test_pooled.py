"""Pooled effects against statsmodels, closed forms, a bootstrap over images and simulations with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import binom, norm
from statsmodels.stats.meta_analysis import combine_effects

from engine.core.binning import equal_mass_bins
from engine.core.errors import InvalidInput
from engine.gaps import primary_bins, trend_test
from engine.gaps.pooled import (
    agreement_by_chance,
    null_scores,
    pool_cells,
    pool_seeds,
    rejections_by_chance,
    sorted_band,
    trend_scores,
)
from engine.gaps.statistics.trend import TrendDesign


def shared_images(seed: int, n: int = 1000, n_runs: int = 3) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Runs that agree on which images are hard and on how they are routed; nothing is there beyond confidence."""
    rng = np.random.default_rng(seed)
    luck, kind = rng.random(n), rng.normal(size=n)
    runs = []
    for _ in range(n_runs):
        confidence = rng.uniform(0.5, 0.9, n)
        own = np.where(rng.random(n) < 0.95, luck, rng.random(n))
        runs.append((confidence, own < confidence, kind + 0.2 * rng.normal(size=n)))
    return runs


def exchangeable(m: int, r: float) -> np.ndarray:
    return np.full((m, m), r) + (1 - r) * np.eye(m)


@pytest.mark.parametrize("spread", [0.0, 0.02])
def test_independent_cells_are_pooled_as_statsmodels_does(spread: float):
    rng = np.random.default_rng(3)
    variances = rng.uniform(1e-5, 4e-4, 9)
    effects = rng.normal(0.01, spread, 9) + rng.normal(size=9) * np.sqrt(variances)
    reference = combine_effects(effects, variances, method_re="dl", use_t=False)
    kind = 1 if reference.tau2 > 0 else 0  # statsmodels goes on with a negative tau2, where ours is zero: fixed effects
    assert kind == (spread > 0)
    found = pool_cells(effects, np.diag(variances))
    fixed, random = (
        (getattr(reference, f"mean_effect_{name}"), getattr(reference, f"sd_eff_w_{name}")) for name in ("fe", "re")
    )
    assert (found.effect, found.standard_error) == pytest.approx(random if kind else fixed)
    assert found.tau2 == pytest.approx(max(reference.tau2, 0), abs=1e-12)
    assert (found.q, found.i2) == pytest.approx((reference.q, max(reference.i2, 0)))
    bound = found.bound
    assert (bound.low, bound.high) == pytest.approx(reference.conf_int(use_t=False)[kind])
    narrow = reference.conf_int(alpha=0.1, use_t=False)[kind]
    assert bound.excluded == pytest.approx(max(np.abs(narrow)))  # two one-sided tests at 5 %


def test_scores_give_the_cluster_robust_correlation_of_statsmodels():
    """One regression of all runs, a slope for each, errors clustered by image."""
    runs, n = shared_images(0, n=400), 400
    ranks, residuals = np.zeros((3 * n, 3)), np.zeros(3 * n)
    for column, (confidence, correct, rho) in enumerate(runs):
        bins = equal_mass_bins(confidence, primary_bins(n))
        block = slice(column * n, (column + 1) * n)
        ranks[block, column] = TrendDesign.of(bins, rho, primary_bins(n)).scores
        residuals[block] = correct - (np.bincount(bins, correct) / np.bincount(bins))[bins]
    fit = sm.OLS(residuals, ranks).fit(
        cov_type="cluster", cov_kwds={"groups": np.tile(np.arange(n), 3), "use_correction": False}
    )
    covariance = fit.cov_params()
    errors = np.sqrt(np.diag(covariance))
    scores = np.array([trend_scores(*run) for run in runs])
    assert scores @ scores.T == pytest.approx(covariance / np.outer(errors, errors))
    assert (scores @ scores.T)[0, 1] > 0.2
    assert not trend_scores(runs[0][0], np.ones(n), runs[0][2]).any()


def test_pooled_error_is_that_of_a_bootstrap_over_images():
    runs = shared_images(1)
    results = [trend_test(*run) for run in runs]
    errors = np.array([result.standard_error for result in results])
    scores = np.array([trend_scores(*run) for run in runs])
    pooled = pool_seeds([result.effect for result in results], np.outer(errors, errors) * (scores @ scores.T))
    rng, draws = np.random.default_rng(0), []
    for _ in range(200):
        images = rng.integers(0, 1000, 1000)
        draws.append(np.mean([trend_test(*(column[images] for column in run)).effect for run in runs]))
    assert pooled.standard_error == pytest.approx(np.std(draws), rel=0.15)  # 5 % is the bootstrap's own error
    assert np.sqrt((errors**2).sum()) / 3 < 0.8 * np.std(draws)  # as if every run had images of its own


def test_scores_of_clusters_are_the_sums_of_their_samples():
    (first, second), groups = shared_images(2, n_runs=2), np.repeat(np.arange(250), 4)
    plain = [trend_scores(*run) for run in (first, second)]
    sums = [np.bincount(groups, weights=each) for each in plain]
    found = [trend_scores(*run, clusters=groups) for run in (first, second)]
    expected = sums[0] @ sums[1] / np.linalg.norm(sums[0]) / np.linalg.norm(sums[1])
    assert found[0] @ found[1] == pytest.approx(expected)
    assert trend_scores(*first, clusters=np.arange(1000)) == pytest.approx(plain[0])


def test_correlated_cells_keep_the_level_and_their_spread_is_found():
    rng = np.random.default_rng(5)
    covariance = exchangeable(6, 0.6) * 1e-4
    root = np.linalg.cholesky(covariance)
    pooled = [pool_cells(root @ rng.normal(size=6), covariance) for _ in range(1000)]
    assert np.mean([each.p_value <= 0.05 for each in pooled]) == pytest.approx(0.05, abs=0.02)
    spread = [pool_cells(root @ rng.normal(size=6) + 0.02 * rng.normal(size=6), covariance).tau2 for _ in range(1000)]
    assert np.mean(spread) == pytest.approx(0.02**2, rel=0.1)


def test_one_cell_is_its_own_mean_and_equal_cells_have_no_spread():
    one = pool_cells([0.02], [[1e-4]])
    assert (one.effect, one.standard_error, one.q) == pytest.approx((0.02, 0.01, None))
    same = pool_cells([0.02, 0.02], np.eye(2) * 1e-4)
    assert (same.q, same.tau2, same.i2) == (0, 0, 0)
    twice = pool_seeds([0.02, 0.02], np.ones((2, 2)) * 1e-4)
    assert twice.standard_error == pytest.approx(0.01)  # the same run counted twice knows no more


def test_rejections_by_chance_of_independent_equal_and_correlated_tests():
    assert rejections_by_chance(null_scores(np.eye(20))) == tuple(binom.ppf([0.025, 0.975], 20, 0.05))
    assert rejections_by_chance(null_scores(np.ones((20, 20)))) == (0, 20)
    # P(count = k) is a mixture over the common part g of binomials with P(|sqrt(r) g + sqrt(1 - r) e| > 1.96).
    r, g = 0.3, norm.ppf((np.arange(4000) + 0.5) / 4000)
    reach = norm.ppf(0.975)
    p = norm.sf((reach - np.sqrt(r) * g) / np.sqrt(1 - r)) + norm.cdf((-reach - np.sqrt(r) * g) / np.sqrt(1 - r))
    below = np.array([binom.cdf(k, 30, p).mean() for k in range(31)])
    expected = tuple(int(np.argmax(below >= level)) for level in (0.025, 0.975))
    assert rejections_by_chance(null_scores(exchangeable(30, r))) == expected
    assert expected[1] > binom.ppf(0.975, 30, 0.05)


@pytest.mark.parametrize("r", [0.0, 0.5])
def test_signs_agree_by_chance_as_sheppards_formula_has_it(r: float):
    pair, triple = (agreement_by_chance(null_scores(exchangeable(m, r))) for m in (2, 3))
    assert pair == pytest.approx(0.5 + np.arcsin(r) / np.pi, abs=0.015)
    assert triple == pytest.approx(0.25 + 1.5 * np.arcsin(r) / np.pi, abs=0.015)


@pytest.mark.parametrize("r", [0.0, 0.5])
def test_the_band_holds_all_sorted_p_values_at_once(r: float):
    low, high = sorted_band(null_scores(exchangeable(12, r)))
    fresh = np.sort(2 * norm.sf(np.abs(null_scores(exchangeable(12, r), seed=7))), axis=1)
    assert ((fresh >= low) & (fresh <= high)).all(axis=1).mean() == pytest.approx(0.95, abs=0.01)
    ends = sorted_band(null_scores([[1.0]]))
    assert np.ravel(ends) == pytest.approx([0.025, 0.975], abs=0.005)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: pool_cells([0.1, 0.2], [[1.0]]), "covariance"),
        (lambda: pool_cells([0.1, 0.2], [[1.0, 0.0], [0.0, 0.0]]), "covariance"),
        (lambda: pool_seeds([0.1, 0.2], [[1.0, 0.5], [0.1, 1.0]]), "covariance"),
        (lambda: null_scores([[2.0]]), "correlation"),
        (lambda: null_scores([[1.0, 0.0]]), "correlation"),
        (lambda: rejections_by_chance(np.zeros((3, 1)), alpha=2), "alpha"),
    ],
)
def test_refusals_name_the_argument(call, name: str):
    with pytest.raises(InvalidInput, match=name):
        call()
