"""The ladder: residuals against scikit-learn, coefficient and error against statsmodels, and what each rung is for."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import softmax
from sklearn.linear_model import Ridge

from engine.core.errors import InvalidInput
from engine.gaps import ladder
from engine.gaps.ladder import CrossFit, class_probabilities, conditioning_columns, ladder_test

N, K = 3000, 5


def outputs(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(N, K))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, softmax(logits, axis=1), labels


def test_residuals_equal_ridge_regression_on_the_other_folds(monkeypatch):
    monkeypatch.setattr(ladder, "RIDGES", np.array([10.0]))
    rng = np.random.default_rng(1)
    columns, targets, folds = rng.normal(size=(200, 4)), rng.normal(size=(200, 2)), rng.permutation(200) % 5
    found = CrossFit(columns, targets, folds).residuals()
    for fold in range(5):
        held = folds == fold
        fitted = Ridge(alpha=10.0).fit(columns[~held], targets[~held])
        assert found[held] == pytest.approx(targets[held] - fitted.predict(columns[held]))


def test_each_target_has_the_ridge_of_least_error():
    rng = np.random.default_rng(2)
    columns, folds = rng.normal(size=(300, 3)), rng.permutation(300) % 5
    targets = np.column_stack([columns @ [1.0, 2.0, 3.0], rng.normal(size=300)])
    found = CrossFit(columns, targets, folds).residuals()
    assert np.abs(found[:, 0]).max() < 1e-2  # no noise: hardly any ridge
    assert found[:, 1].std() == pytest.approx(targets[:, 1].std(), rel=0.02)  # only noise: all ridge


def test_coefficient_and_error_equal_least_squares_with_robust_errors():
    logits, probabilities, labels = outputs()
    rho = np.random.default_rng(3).normal(size=N)
    correct = probabilities.argmax(axis=1) == labels
    rung = ladder_test(probabilities.max(axis=1), correct, rho, logits)[0]
    columns, _ = conditioning_columns(logits, probabilities, 1)
    targets = np.column_stack([ladder.ndtri((ladder.rankdata(rho) - 0.5) / N), correct.astype(float)])
    e, f = CrossFit(columns, targets, np.random.default_rng(42).permutation(N) % 5).residuals().T
    fitted = sm.OLS(f, e).fit(cov_type="HC0")
    reach = np.sort(e)[-N // 3 :].mean() - np.sort(e)[: N // 3].mean()
    assert rung.effect == pytest.approx(float(fitted.params[0]) * reach)
    assert rung.standard_error == pytest.approx(float(fitted.bse[0]) * reach)
    products = e * f
    assert rung.z == pytest.approx(np.sqrt(N) * products.mean() / products.std())


def test_what_each_rung_explains_away():
    logits, probabilities, labels = outputs(4)
    # Correctness depends on the class beyond the softmax: predictions of class 0 are wrong more often.
    predicted = probabilities.argmax(axis=1)
    correct = (predicted == labels) & ~((predicted == 0) & (np.random.default_rng(5).random(N) < 0.5))
    rho = (predicted == 0) + 0.3 * np.random.default_rng(6).normal(size=N)
    shape, with_class, whole = ladder_test(probabilities.max(axis=1), correct, rho, logits)
    assert shape.z < -5
    assert abs(with_class.z) < 3
    assert abs(whole.z) < 3
    assert [rung.number for rung in (shape, with_class, whole)] == [1, 2, 3]


def test_logits_and_probabilities_are_told_apart_by_the_confidence():
    logits, probabilities, labels = outputs()
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    for given in (logits, probabilities):
        assert class_probabilities(given, confidence)[1] == pytest.approx(probabilities)
    rho = logits[:, 0]
    by_logits, by_probabilities = (
        ladder_test(confidence, correct, rho, given)[:2] for given in (logits, probabilities)
    )
    assert [rung.z for rung in by_logits] == pytest.approx([rung.z for rung in by_probabilities])
    with pytest.raises(InvalidInput, match="outputs"):
        class_probabilities(3 * logits, confidence)


def test_copies_in_one_cluster_are_no_more_evidence():
    logits, probabilities, labels = outputs(7)
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    rho = np.random.default_rng(8).normal(size=N)
    once = ladder_test(confidence, correct, rho, logits)[0]
    ids = np.repeat(np.arange(N), 2)
    twice = ladder_test(confidence[ids], correct[ids], rho[ids], logits[ids], clusters=ids)[0]
    assert twice.standard_error == pytest.approx(once.standard_error, rel=0.05)


def test_a_feature_that_the_output_determines_leaves_nothing_to_test():
    logits, probabilities, labels = outputs()
    rung = ladder_test(probabilities.max(axis=1), probabilities.argmax(axis=1) == labels, np.ones(N), logits)[0]
    assert rung.p_value is None
    assert rung.effect is None
