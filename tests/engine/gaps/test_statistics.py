"""Every registered statistic: its nulls agree, its batch form is its own, and a new one needs no more than a value."""

from __future__ import annotations

import numpy as np
import pytest

from engine.controls.simulation import BatchTest, Layout
from engine.core.errors import InvalidInput, UnknownName
from engine.gaps import STATISTICS, TESTS, Preset, permutation_test, permutation_test_of_counts, tabulate, trend_test
from engine.gaps.statistics.base import REGISTERED, CountStatistic

METHODS = [(name, method) for name, statistic in STATISTICS.items() for method in statistic.methods]


def samples(n: int = 1500, slope: float = 0.1, seed: int = 0):
    rng = np.random.default_rng(seed)
    confidence, rho = rng.uniform(0.3, 1.0, n), rng.normal(size=n)
    return confidence, rng.random(n) < np.clip(confidence - slope * rho, 0, 1), rho


@pytest.fixture
def high_minus_low():
    """A statistic of a stranger's: registered for one test."""

    class HighMinusLow(CountStatistic):
        name = "high_minus_low"
        label = "high minus low"
        quantity = "difference"

        def value(self, sizes, low, high):
            return np.abs(high.sum(axis=1) / sizes[:, 2].sum() - low.sum(axis=1) / sizes[:, 0].sum())

    STATISTICS[HighMinusLow.name] = HighMinusLow()
    yield HighMinusLow.name
    REGISTERED.remove(HighMinusLow)
    del STATISTICS[HighMinusLow.name]


def test_every_statistic_is_tried_as_a_named_test():
    assert {preset.statistic for preset in TESTS.values()} == set(STATISTICS)
    assert list(TESTS)[:2] == ["paper", "primary"]


@pytest.mark.parametrize(("statistic", "method"), METHODS)
def test_a_difference_is_found_and_none_is_not(statistic: str, method: str):
    found = permutation_test(*samples(slope=0.15), statistic=statistic, method=method, n_permutations=400)
    none = permutation_test(*samples(slope=0.0), statistic=statistic, method=method, n_permutations=400)
    assert found.p_value < 0.01 < 0.05 < none.p_value
    assert found.observed > found.null.percentiles[2]
    assert none.null.percentiles[0] <= none.observed <= none.null.percentiles[2]


@pytest.mark.parametrize("statistic", [name for name, methods in STATISTICS.items() if "exact" in methods.methods])
def test_the_exact_p_is_the_tail_of_the_exact_null(statistic: str):
    test = permutation_test(*samples(300, slope=0.05), statistic=statistic)
    simulated = permutation_test(
        *samples(300, slope=0.05), statistic=statistic, method="hypergeometric", n_permutations=20_000
    )
    below = np.searchsorted(test.null.values, test.observed - 1e-9) - 1
    assert 1 - test.null.cumulative[below] == pytest.approx(test.p_value, abs=0.01)
    assert simulated.p_value == pytest.approx(test.p_value, abs=0.02)


def test_the_trend_is_that_of_its_test():
    given = samples(400)
    test = permutation_test(*given, statistic="trend", method="shuffle", n_permutations=300, seed=3)
    reference = trend_test(*given, n_bins=15, matching="equal_width", method="permutation", n_permutations=300, seed=3)
    assert test.p_value == reference.p_value
    assert test.observed == pytest.approx(abs(reference.effect))


def test_what_cannot_vary_says_why():
    confidence, _, rho = samples(600)
    for statistic in ("cmh", "trend"):
        test = permutation_test(confidence, np.ones(600), rho, statistic=statistic, method="shuffle", n_permutations=5)
        assert test.p_value is None
        assert "nothing to test" in test.reason


def test_a_statistic_or_a_null_that_is_not_there_is_named():
    with pytest.raises(UnknownName, match="max_gap, weighted_gap, cmh, trend"):
        permutation_test(*samples(60), statistic="median_gap")
    with pytest.raises(UnknownName, match="one of: shuffle"):
        permutation_test(*samples(60), statistic="trend", method="exact")
    with pytest.raises(InvalidInput, match="needs the samples"):
        permutation_test_of_counts(tabulate(*samples(60)), statistic="trend", method="shuffle")


def test_a_value_is_all_that_a_new_statistic_needs(high_minus_low: str):
    found = permutation_test(*samples(slope=0.15), statistic=high_minus_low, method="hypergeometric")
    assert found.p_value < 0.01
    confidence, _, rho = samples(600)
    layout, _ = Layout.of(confidence, rho, (1 / 3, 2 / 3))
    batch = BatchTest(Preset("new", "new", high_minus_low, "equal_width", 10), layout, 5)
    outcomes = np.random.default_rng(1).random((400, 600)) < layout.confidence
    p_values = batch.pvalues(batch.summarise(outcomes))
    assert np.mean(p_values <= 0.05) == pytest.approx(0.05, abs=0.035)  # nothing is there to be found
