"""The effect by decile: a case by hand, its band by enumeration, its slope against the tests that it stands for."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.special import softmax

from engine.core.errors import InvalidInput
from engine.gaps import deciles, effect_by_decile, ladder_test, trend_test


def world(n: int, seed: int = 0, planted: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logits of a calibrated network, and a feature that follows its confidence."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, 5))
    probabilities = softmax(logits, axis=1)
    confidence, rho = probabilities.max(axis=1), rng.normal(size=n)
    correct = rng.random(n) < (confidence + planted * np.sign(rho)).clip(0, 1)
    return confidence, correct, rho + 2 * confidence, logits


def test_four_samples_by_hand():
    """One bin with accuracy 3/4: halves (1 + 0) / 2 and (1 + 1) / 2; centred ranks -1.5, -0.5, 0.5, 1.5."""
    found = effect_by_decile([0.5] * 4, [1, 0, 1, 1], [1, 2, 3, 4], n_groups=2)
    assert found.values == pytest.approx([1 / 2 - 3 / 4, 1 - 3 / 4])
    slope = (-1.5 + 0.5 + 1.5) / (1.5**2 + 0.5**2 + 0.5**2 + 1.5**2)
    assert found.fitted == pytest.approx([-slope, slope])
    spread = np.sqrt(2 * (1 - 2 / 4) * (4 * 3 / 4 * 1 / 4) / 3) / 2
    assert found.high == pytest.approx([1.96 * spread] * 2, rel=0.02)  # the two halves are one number
    assert found.low == pytest.approx(-found.high)
    assert found.counts.tolist() == [2, 2]
    assert found.n_outside == 0


@pytest.mark.parametrize("rho", [[1, 2, 3, 4, 5, 6, 7], [1, 1, 2, 3, 3, 3, 4]])
def test_mean_and_covariance_equal_those_of_all_permutations(rho):
    residuals, bins = np.array([0.3, -0.7, 0.3, 0.1, -0.7, 0.5, 0.3]), np.zeros(7, dtype=np.int64)
    groups = deciles._groups(np.array(rho, dtype=float), bins, 3)
    sums = np.array([
        np.bincount(np.array(groups)[list(order)], weights=residuals, minlength=3) for order in permutations(range(7))
    ])  # fmt: skip
    mean, covariance = deciles._null(residuals, bins, groups, 3)
    assert mean == pytest.approx(sums.mean(axis=0))
    assert covariance == pytest.approx(np.cov(sums.T, bias=True))


def test_the_band_holds_all_deciles_in_95_percent_of_permutations():
    """40 bins of 30: a permuted feature puts three random samples of each bin into each decile."""
    confidence, correct, rho, _ = world(1200)
    found = effect_by_decile(confidence, correct, rho)
    by_bin = correct[np.argsort(confidence, kind="stable")].reshape(found.n_bins, -1).astype(float)
    drawn = np.random.default_rng(2).permuted(np.broadcast_to(by_bin, (2000, *by_bin.shape)), axis=2)
    values = (drawn - by_bin.mean(axis=1, keepdims=True)).reshape(2000, found.n_bins, 10, -1).mean(axis=(1, 3))
    inside = ((values >= found.low - 1e-9) & (values <= found.high + 1e-9)).all(axis=1)
    assert inside.mean() == pytest.approx(0.95, abs=0.015)


def test_the_fitted_trend_is_that_of_the_primary_test():
    confidence, correct, rho, _ = world(9900, planted=0.05)  # 99 bins of 100; thirds of 99 would be exact
    thirds = effect_by_decile(confidence, correct, rho, n_groups=3)
    test = trend_test(confidence, correct, rho)
    assert thirds.fitted[2] - thirds.fitted[0] == pytest.approx(test.effect, rel=0.01)
    assert (thirds.test.effect, thirds.test.p_value) == (test.effect, test.p_value)
    found = effect_by_decile(confidence, correct, rho)
    assert found.n_outside >= 3
    assert found.counts.tolist() == [990] * 10
    assert found.values.sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("rung", [1, 2, 3])
def test_the_fitted_trend_is_that_of_the_rung(rung: int):
    confidence, correct, rho, logits = world(3000, planted=0.05)
    thirds = effect_by_decile(confidence, correct, rho, outputs=logits, rung=rung, n_groups=3)
    test = ladder_test(confidence, correct, rho, logits)[rung - 1]
    assert thirds.fitted[2] - thirds.fitted[0] == pytest.approx(test.effect)
    assert (thirds.test.effect, thirds.test.p_value) == (test.effect, test.p_value)
    assert thirds.n_outside >= 2


def test_ties_leave_groups_empty_and_a_constant_has_no_effect():
    confidence, correct, _, logits = world(500)
    for rung in (0, 1):
        constant = effect_by_decile(confidence, correct, np.ones(500), outputs=logits, rung=rung)
        assert constant.counts.tolist() == [0] * 5 + [500] + [0] * 4
        assert np.isnan(constant.values).sum() == 9
        assert (constant.test.effect, constant.n_outside) == (None, 0)


def test_higher_rungs_need_the_output():
    confidence, correct, rho, _ = world(50)
    with pytest.raises(InvalidInput, match="outputs"):
        effect_by_decile(confidence, correct, rho, rung=1)


@pytest.mark.parametrize("rung", [0, 1])
def test_copies_of_one_cluster_are_no_more_evidence_than_one(rung: int):
    confidence, correct, rho, logits = world(1000, planted=0.05)
    single = effect_by_decile(confidence, correct, rho, outputs=logits, rung=rung, clusters=np.arange(1000))
    alone = effect_by_decile(confidence, correct, rho, outputs=logits, rung=rung)
    assert np.nanmax(np.abs(single.high / alone.high - 1)) < 0.25
    # Bins of 25 samples, and of 25 times 4 copies: the same samples in the same bins, four times each.
    copied = [np.repeat(each, 4, axis=0) for each in (confidence, correct, rho, logits)]
    found = effect_by_decile(*copied[:3], outputs=copied[3], rung=rung, clusters=np.repeat(np.arange(1000), 4))
    assert found.test.standard_error == pytest.approx(single.test.standard_error, rel=0.05)
    if rung == 0:  # above it the ridge sees four times the samples
        assert found.values == pytest.approx(single.values, abs=0.02)
        assert (found.high - found.low) == pytest.approx(single.high - single.low, rel=0.1)


def test_the_band_holds_all_deciles_where_samples_of_a_cluster_agree():
    """100 worlds of 400 clusters of 5 that share their luck and their rho; without them it seldom holds."""
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(400), 5)
    inside = np.zeros((100, 2), dtype=bool)
    for row in inside:
        confidence = np.repeat(rng.uniform(0.5, 0.9, 400), 5) + 1e-3 * rng.random(2000)
        correct = np.repeat(rng.random(400), 5) < confidence
        rho = np.repeat(rng.normal(size=400), 5) + 0.1 * rng.normal(size=2000)
        row[:] = [effect_by_decile(confidence, correct, rho, clusters=each).n_outside == 0 for each in (clusters, None)]
    assert inside.mean(axis=0)[0] >= 0.85  # means of bins of ten clusters take a little of the spread
    assert inside.mean(axis=0)[1] < 0.7
