"""How small an effect is, and what it is good for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from engine.core.errors import InvalidInput
from engine.gaps import effect_bound, routing_gain, trend_test
from engine.gaps.gain import N_FOLDS, _area
from engine.gaps.shape import confidence_model, smooth_terms, unit_rank


def test_the_bound_is_two_one_sided_tests():
    bound = effect_bound(-0.016, 0.005)
    assert (bound.low, bound.high) == pytest.approx((-0.016 - 1.959964 * 0.005, -0.016 + 1.959964 * 0.005))
    for effect, limit in ((-0.016, bound.excluded), (0.016, bound.excluded)):
        one_sided = [norm.sf((effect + limit) / 0.005), norm.cdf((effect - limit) / 0.005)]
        assert max(one_sided) == pytest.approx(0.05)  # both reject |effect| >= limit, one of them only just
    with pytest.raises(InvalidInput, match="standard_error"):
        effect_bound(0.1, -1.0)


def test_the_trends_error_with_clusters_is_that_of_sums_over_clusters():
    rng = np.random.default_rng(0)
    confidence, rho = rng.random(600), rng.normal(size=600)
    correct, clusters = rng.random(600) < confidence, rng.integers(0, 80, 600)
    plain, clustered = trend_test(confidence, correct, rho), trend_test(confidence, correct, rho, clusters=clusters)
    assert clustered.effect == plain.effect
    assert abs(plain.effect / plain.standard_error) == pytest.approx(abs(plain.z))
    assert abs(clustered.effect / clustered.standard_error) == pytest.approx(abs(clustered.z))
    # Each sample its own cluster: the robust error, close to the one under permutation.
    alone = trend_test(confidence, correct, rho, clusters=np.arange(600))
    assert alone.standard_error == pytest.approx(plain.standard_error, rel=0.1)
    with pytest.raises(InvalidInput, match="method"):
        trend_test(confidence, correct, rho, clusters=clusters, method="permutation")


def test_explained_variance_is_proposition_1():
    """E(T - E[T|c])^2 - E(T - E[T|c, rho])^2 = E(E[T|c, rho] - E[T|c])^2, in a world where both are known."""
    rng = np.random.default_rng(1)
    confidence, rho = rng.uniform(0.4, 0.8, 40_000), rng.uniform(-1, 1, 40_000)
    gain = routing_gain(confidence, rng.random(40_000) < confidence + 0.2 * rho, rho)
    assert gain.explained_variance.low < 0.2**2 / 3 < gain.explained_variance.high
    assert gain.share == pytest.approx(0.2**2 / 3 / np.mean(confidence * (1 - confidence)), rel=0.15)
    assert gain.nll.low > 0
    assert gain.aurc.low > 0


def test_gains_are_out_of_sample_and_near_zero_without_effect():
    rng = np.random.default_rng(2)
    confidence = rng.uniform(0.4, 0.95, 4000)
    correct, rho = rng.random(4000) < confidence, rng.normal(size=4000)
    gain = routing_gain(confidence, correct, rho)
    assert gain.nll.low < 0 < gain.nll.high + 0.002
    # The same five folds with scikit-learn.
    folds = np.random.default_rng(42).permutation(4000) % N_FOLDS
    rank = unit_rank(confidence)
    base = confidence_model(confidence, rank)
    losses = []
    for design in (base, np.column_stack([base, smooth_terms(rank, unit_rank(rho))])):
        fitted = np.empty(4000)
        for fold in range(N_FOLDS):
            model = LogisticRegression(C=1e4, fit_intercept=False, max_iter=5000, tol=1e-10)
            held = folds == fold
            fitted[held] = model.fit(design[~held], correct[~held]).predict_proba(design[held])[:, 1]
        losses.append(log_loss(correct, fitted))
    assert gain.nll.value == pytest.approx(losses[0] - losses[1], abs=1e-5)


def test_the_area_under_risk_and_coverage_by_hand():
    wrong = np.array([0.0, 1.0, 0.0])
    # Trusted in the order 0, 1, 2: risks 0, 1/2, 1/3; in the order 0, 2, 1: risks 0, 0, 1/3.
    found = _area(np.array([3.0, 2, 1]), np.array([3.0, 1, 2]), wrong, np.arange(3), np.random.default_rng(0))
    assert found.value == pytest.approx((0 + 1 / 2 + 1 / 3) / 3 - (0 + 0 + 1 / 3) / 3)
