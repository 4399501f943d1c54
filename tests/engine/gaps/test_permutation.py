"""The permutation null: enumeration, Monte Carlo against closed form, and its size."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_hypergeom

from engine.core.contingency import Contingency
from engine.core.errors import InvalidInput, UnknownName
from engine.gaps import permutation_test, permutation_test_of_counts
from engine.gaps.exact import bin_null
from engine.gaps.statistics.base import draw_hypergeometric, draw_shuffles


def dataset(rng: np.random.Generator, n: int, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    confidence = rng.beta(3, 1.5, n)
    rho = rng.normal(size=n)
    correct = rng.random(n) < np.clip(confidence + slope * np.tanh(rho), 0, 1)
    return confidence, correct, rho


@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 12), st.data())
def test_bin_null_is_multivariate_hypergeometric(n_low: int, n_mid: int, n_high: int, data):
    k = data.draw(st.integers(0, n_low + n_mid + n_high))
    null = bin_null((n_low, n_mid, n_high), k)
    assert null.probability.sum() == pytest.approx(1, abs=1e-12)
    for i, a in enumerate(null.low):
        for j, h in enumerate(null.high):
            middle = k - a - h
            expected = 0.0
            if 0 <= middle <= n_mid:
                expected = multivariate_hypergeom.pmf([a, middle, h], [n_low, n_mid, n_high], k)
            assert null.probability[i, j] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("sizes", [(300, 250, 320), (2000, 3000, 1500), (5, 0, 5), (1000, 1, 7)])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.97])
def test_window_keeps_all_but_a_negligible_part(sizes: tuple[int, int, int], share: float):
    null = bin_null(sizes, round(share * sum(sizes)))
    assert null.probability.sum() == pytest.approx(1, abs=1e-11)
    gaps, cumulative = null.gap_distribution()
    middle = len(gaps) // 2
    threshold = int(np.sort(null.difference, axis=None)[middle])
    assert null.tail(threshold) == pytest.approx(null.probability[null.difference >= threshold].sum(), abs=1e-13)
    assert cumulative[-1] == pytest.approx(1, abs=1e-11)


def enumerate_pvalue(sizes: list[list[int]], outcomes: list[list[int]], statistic: str) -> float:
    """P over all ways to deal each bin's outcomes to its groups; sizes and outcomes per bin, groups low, mid, high."""

    def gaps_of(bin_sizes: list[int], bin_outcomes: list[int]) -> list[float]:
        n_low, _, n_high = bin_sizes
        everyone = range(len(bin_outcomes))
        values = []
        for low in combinations(everyone, n_low):
            rest = [i for i in everyone if i not in low]
            for high in combinations(rest, n_high):
                values.append(sum(bin_outcomes[i] for i in low) / n_low - sum(bin_outcomes[i] for i in high) / n_high)
        return values

    per_bin = [np.abs(gaps_of(s, o)) for s, o in zip(sizes, outcomes, strict=True)]
    weights = [min(s[0], s[2]) for s in sizes]
    observed = [abs(np.mean(o[: s[0]]) - np.mean(o[len(o) - s[2] :])) for s, o in zip(sizes, outcomes, strict=True)]
    grids = np.meshgrid(*per_bin, indexing="ij")
    if statistic == "max_gap":
        simulated, seen = np.maximum.reduce(grids), max(observed)
    else:
        simulated = sum(w * g for w, g in zip(weights, grids, strict=True)) / sum(weights)
        seen = np.dot(weights, observed) / sum(weights)
    return float(np.mean(simulated >= seen - 1e-12))


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(["max_gap", "weighted_gap"]))
def test_exact_equals_full_enumeration(data, statistic: str):
    n_bins = data.draw(st.integers(1, 2))
    sizes, outcomes, rows = [], [], []
    for b in range(n_bins):
        bin_sizes = [data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2)), data.draw(st.integers(1, 3))]
        bin_outcomes = [data.draw(st.integers(0, 1)) for _ in range(sum(bin_sizes))]
        sizes.append(bin_sizes)
        outcomes.append(bin_outcomes)
        groups = np.repeat([0, 1, 2], bin_sizes)
        rows += [(0.2 + 0.5 * b, o, g) for o, g in zip(bin_outcomes, groups, strict=True)]
    counts = np.zeros((2, 3, 2), dtype=np.int64)
    for confidence, outcome, group in rows:
        counts[int(confidence > 0.5), group, outcome] += 1
    contingency = Contingency(counts, (0.5, 1.5), "equal_width", (1 / 3, 2 / 3))
    result = permutation_test_of_counts(contingency, statistic=statistic, min_support=1)
    assert result.p_value == pytest.approx(enumerate_pvalue(sizes, outcomes, statistic), abs=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(40, 1500), st.sampled_from(["max_gap", "weighted_gap"]))
def test_the_three_methods_agree_within_monte_carlo_error(seed: int, n: int, statistic: str):
    confidence, correct, rho = dataset(np.random.default_rng(seed), n, slope=0.1)
    exact = permutation_test(confidence, correct, rho, statistic=statistic)
    if exact.p_value is None:
        return
    for method, draws in (("hypergeometric", 4000), ("shuffle", 1000)):
        simulated = permutation_test(
            confidence, correct, rho, statistic=statistic, method=method, n_permutations=draws, seed=seed % 1000
        )
        assert simulated.observed == exact.observed
        spread = np.sqrt(exact.p_value * (1 - exact.p_value) / draws) + 1 / draws
        assert abs(simulated.p_value - exact.p_value) < 5 * spread + exact.p_error


@pytest.mark.parametrize("matching", ["equal_width", "equal_mass"])
@pytest.mark.parametrize("statistic", ["max_gap", "weighted_gap"])
def test_null_distributions_agree(matching: str, statistic: str):
    confidence, correct, rho = dataset(np.random.default_rng(4), 3000)
    exact = permutation_test(confidence, correct, rho, statistic=statistic, matching=matching)
    simulated = permutation_test(
        confidence, correct, rho, statistic=statistic, matching=matching, method="hypergeometric", n_permutations=20_000
    )
    assert exact.null.percentiles == pytest.approx(simulated.null.percentiles, rel=0.03)
    assert (np.diff(exact.null.values) > 0).all()
    assert (np.diff(exact.null.cumulative) >= 0).all()
    assert exact.null.cumulative[-1] == pytest.approx(1, abs=1e-5)


def test_shuffling_reports_how_far_it_is_and_can_be_stopped():
    confidence, correct, rho = dataset(np.random.default_rng(5), 3000)
    shares: list[float] = []
    settings = {"method": "shuffle", "n_permutations": 3000}
    told = permutation_test(confidence, correct, rho, progress=lambda share, _: shares.append(share), **settings)
    assert told.p_value == permutation_test(confidence, correct, rho, **settings).p_value
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert len(shares) > 3

    def stop(_share: float, _text: str) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        permutation_test(confidence, correct, rho, progress=stop, **settings)


def test_band_covers_each_bin_of_the_null():
    confidence, correct, rho = dataset(np.random.default_rng(5), 3000)
    result = permutation_test(confidence, correct, rho)
    sizes = result.gap.contingency.sizes[result.gap.shared]
    totals = result.gap.contingency.n_correct[result.gap.shared].sum(axis=1)
    low, high = draw_shuffles(sizes, totals, 4000, seed=0)
    gaps = np.abs(low / sizes[:, 0] - high / sizes[:, 2])
    expected = np.percentile(gaps, [2.5, 50, 97.5], axis=0).T
    step = (1 / sizes[:, 0] + 1 / sizes[:, 2])[:, None]  # the gap moves in steps about this large
    assert (np.abs(result.band.gap - expected) <= step).all()
    by_low = np.percentile(low / sizes[:, 0], [2.5, 50, 97.5], axis=0).T
    assert (np.abs(result.band.accuracy_low - by_low) <= 1.5 * step).all()
    assert result.band.bins.tolist() == (np.flatnonzero(result.gap.shared) + 1).tolist()


def test_hypergeometric_draws_have_the_exact_moments():
    sizes, totals = np.array([[30, 40, 50], [7, 0, 9]]), np.array([80, 5])
    low, high = draw_hypergeometric(sizes, totals, 40_000, seed=1)
    n = sizes.sum(axis=1)
    assert low.mean(axis=0) == pytest.approx(sizes[:, 0] * totals / n, rel=0.01)
    assert high.mean(axis=0) == pytest.approx(sizes[:, 2] * totals / n, rel=0.01)
    p = totals / n
    variance = sizes[:, 0] * p * (1 - p) * (n - sizes[:, 0]) / (n - 1)
    assert low.var(axis=0) == pytest.approx(variance, rel=0.03)
    covariance = -sizes[:, 0] * sizes[:, 2] * p * (1 - p) / (n - 1)
    measured = [np.cov(low[:, b], high[:, b])[0, 1] for b in range(2)]
    assert measured == pytest.approx(covariance, rel=0.08)


def test_pvalues_are_super_uniform_under_the_null():
    rng = np.random.default_rng(0)
    n = 600
    bins = rng.integers(0, 15, n)
    confidence, probability = (bins + 0.5) / 15, (bins + 0.5) / 15  # accuracy constant inside a bin: the null is exact
    rho = rng.normal(size=n)
    for statistic in ("max_gap", "weighted_gap"):
        p = np.array([
            permutation_test(confidence, rng.random(n) < probability, rho, statistic=statistic).p_value
            for _ in range(400)
        ])  # fmt: skip
        for level in (0.05, 0.2, 0.5):
            assert (p <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / 400)
        assert (p <= 0.5).mean() > 0.35  # and not merely because it never rejects


def test_a_strong_gap_has_a_tiny_and_positive_p():
    rng = np.random.default_rng(0)
    confidence, rho = np.full(3000, 0.7), rng.normal(size=3000)
    correct = rho > 0
    for statistic in ("max_gap", "weighted_gap"):
        p = permutation_test(confidence, correct, rho, statistic=statistic).p_value
        assert 0 < p < 1e-12
    assert permutation_test(confidence, correct, rho).p_value < 1e-40


def test_same_seed_same_draws():
    confidence, correct, rho = dataset(np.random.default_rng(1), 500)
    for method in ("hypergeometric", "shuffle"):
        first, second, other = (
            permutation_test(confidence, correct, rho, method=method, n_permutations=50, seed=seed).draws
            for seed in (7, 7, 8)
        )
        assert first.tobytes() == second.tobytes()
        assert first.tobytes() != other.tobytes()


def test_no_shared_bin_gives_no_pvalue_and_says_why():
    result = permutation_test([0.5] * 20, [0, 1] * 10, np.ones(20))
    assert result.p_value is None
    assert result.null is None
    assert result.band.gap.shape == (0, 3)
    assert any("no confidence bin" in note for note in result.gap.notes)


@pytest.mark.parametrize("value", [False, True])
def test_all_correct_or_all_wrong_has_p_one(value: bool):
    rng = np.random.default_rng(0)
    for statistic in ("max_gap", "weighted_gap"):
        result = permutation_test(rng.random(300), np.full(300, value), rng.normal(size=300), statistic=statistic)
        assert result.p_value == 1.0
        assert result.null.percentiles == (0.0, 0.0, 0.0)


def test_bad_settings_are_named():
    data = dataset(np.random.default_rng(1), 100)
    with pytest.raises(UnknownName, match="exact, hypergeometric, shuffle"):
        permutation_test(*data, method="bootstrap")
    with pytest.raises(UnknownName, match="max_gap, weighted_gap"):
        permutation_test(*data, statistic="mean_gap")
    with pytest.raises(InvalidInput, match="n_permutations"):
        permutation_test(*data, n_permutations=0)
    with pytest.raises(InvalidInput, match="seed"):
        permutation_test(*data, seed=-1)


@pytest.mark.parametrize("seed", range(6, 10))
def test_null_keeps_the_heavy_values_of_small_bins(seed: int):
    # Nearly all confidence at the top: the small bins below decide the maximum, with few and likely values.
    rng = np.random.default_rng(seed)
    confidence = np.where(rng.random(10_000) < 0.02, rng.random(10_000), rng.uniform(0.95, 1, 10_000))
    correct, rho = rng.random(10_000) < confidence, rng.normal(size=10_000)
    exact = permutation_test(confidence, correct, rho)
    simulated = permutation_test(confidence, correct, rho, method="hypergeometric", n_permutations=20_000)
    assert exact.null.cumulative[-1] == pytest.approx(1, abs=1e-5)
    assert exact.null.percentiles == pytest.approx(simulated.null.percentiles, abs=0.02)


def test_weighted_gap_p_is_sharp_with_many_bins():
    rng = np.random.default_rng(0)
    confidence, rho = rng.beta(4, 1.2, 50_000), rng.normal(size=50_000)
    settings = {"statistic": "weighted_gap", "n_bins": 500, "matching": "equal_mass"}
    correct = rng.random(50_000) < confidence
    exact = permutation_test(confidence, correct, rho, **settings)
    simulated = permutation_test(confidence, correct, rho, method="hypergeometric", n_permutations=4000, **settings)
    assert exact.p_value == pytest.approx(simulated.p_value, abs=0.03)
    assert exact.p_error < 0.02
