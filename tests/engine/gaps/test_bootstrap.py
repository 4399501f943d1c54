"""Bootstrap by counts against bootstrap by rows, and the multinomial behind it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from engine.core.binning import equal_width_bins, tertiles
from engine.gaps import bootstrap_gap, matched_gap
from engine.gaps.bootstrap import draw_multinomial


def dataset(seed: int, n: int = 3000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1.2, n)
    return confidence, rng.random(n) < confidence, rng.normal(size=n)


def bootstrap_rows(
    confidence: np.ndarray, correct: np.ndarray, rho: np.ndarray, n_resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Max and weighted gap of resampled rows, with the cuts of the original sample."""
    rng = np.random.default_rng(seed)
    n = confidence.size
    cells = (equal_width_bins(confidence) * 3 + tertiles(rho).index) * 2 + correct
    largest, weighted = [], []
    for _ in range(n_resamples):
        counts = np.bincount(cells[rng.integers(0, n, n)], minlength=90).reshape(15, 3, 2)
        sizes = counts.sum(axis=2)
        weights = np.minimum(sizes[:, 0], sizes[:, 2])
        kept = weights >= 5
        gaps = np.abs(counts[kept, 0, 1] / sizes[kept, 0] - counts[kept, 2, 1] / sizes[kept, 2])
        largest.append(gaps.max())
        weighted.append(weights[kept] @ gaps / weights[kept].sum())
    return np.array(largest), np.array(weighted)


@pytest.mark.parametrize("seed", [0, 1])
def test_counts_and_rows_give_the_same_distribution(seed: int):
    data = dataset(seed)
    result = bootstrap_gap(*data, n_resamples=8000)
    largest, weighted = bootstrap_rows(*data, n_resamples=8000, seed=seed)
    for ours, theirs in ((result.max_gaps, largest), (result.weighted_gaps, weighted)):
        scale = theirs.std()
        assert ours.mean() == pytest.approx(theirs.mean(), abs=6 * scale / np.sqrt(8000))
        for percent in (2.5, 25, 50, 75, 97.5):
            assert np.percentile(ours, percent) == pytest.approx(np.percentile(theirs, percent), abs=0.15 * scale)
    assert result.max_gap_ci == pytest.approx(tuple(np.percentile(result.max_gaps, [2.5, 97.5])))
    assert result.weighted_gap_ci == pytest.approx(tuple(np.percentile(result.weighted_gaps, [2.5, 97.5])))


@pytest.mark.parametrize("rest", [1, 40, 300, 5000])
def test_multinomial_draws_have_the_exact_marginals(rest: int):
    counts = np.array([1, 3, 20, 150, 700])
    n, size = int(counts.sum()) + rest, 20_000
    drawn = draw_multinomial(counts, rest, size, np.random.default_rng(3))
    for cell, count in enumerate(counts):
        low, high = binom.ppf([0.01, 0.99], n, count / n).astype(int)
        inside = np.arange(low, high + 1)
        observed = np.array([(drawn[cell] < low).sum(), *((drawn[cell] == x).sum() for x in inside), 0])
        observed[-1] = size - observed.sum()
        expected = size * np.array([binom.cdf(low - 1, n, count / n), *binom.pmf(inside, n, count / n), 0])
        expected[-1] = size - expected.sum()
        kept = expected > 5
        observed = np.append(observed[kept], observed[~kept].sum())
        expected = np.append(expected[kept], expected[~kept].sum())
        occupied = expected > 0
        assert chisquare(observed[occupied], expected[occupied]).pvalue > 1e-4
    covariance = np.cov(drawn)
    p = counts / n
    expected_covariance = n * (np.diag(p) - np.outer(p, p))
    scale = np.sqrt(np.outer(np.diag(expected_covariance), np.diag(expected_covariance)))
    assert (np.abs(covariance - expected_covariance) < 0.04 * scale).all()


def test_same_seed_same_bytes():
    data = dataset(2)
    first, second, other = (bootstrap_gap(*data, n_resamples=200, seed=seed).max_gaps for seed in (1, 1, 2))
    assert first.tobytes() == second.tobytes()
    assert first.tobytes() != other.tobytes()


def test_interval_covers_a_real_gap():
    rng = np.random.default_rng(0)
    n = 6000
    confidence, rho = np.full(n, 0.7), rng.normal(size=n)
    low, high = np.quantile(rho, [1 / 3, 2 / 3])
    correct = rng.random(n) < np.where(rho <= low, 0.8, np.where(rho > high, 0.6, 0.7))
    interval = bootstrap_gap(confidence, correct, rho).weighted_gap_ci
    assert interval[0] < 0.2 < interval[1]
    observed = matched_gap(confidence, correct, rho).weighted_gap
    assert interval[0] < observed < interval[1]


def test_no_shared_bin_gives_no_interval():
    result = bootstrap_gap([0.5] * 20, [0, 1] * 10, np.ones(20))
    assert result.max_gap_ci is None
    assert result.weighted_gap_ci is None
    assert result.max_gaps.size == 0


def test_resamples_without_a_shared_bin_are_counted():
    # Five low and five high samples only just share the bin; most resamples do not.
    rho = np.repeat([0.0, 1.0, 2.0], 5)
    result = bootstrap_gap(np.full(15, 0.5), np.arange(15) % 2, rho, n_resamples=2000)
    assert 0 < result.n_without_gap < 2000
    assert result.max_gaps.size == 2000 - result.n_without_gap


def test_no_resample_with_a_shared_bin_gives_no_interval():
    rho = np.repeat([0.0, 1.0, 2.0], 5)
    results = [bootstrap_gap(np.full(15, 0.5), np.arange(15) % 2, rho, n_resamples=1, seed=s) for s in range(8)]
    bare = [result for result in results if result.n_without_gap == 1]
    assert bare
    assert all(result.max_gap_ci is None and result.weighted_gap_ci is None for result in bare)
