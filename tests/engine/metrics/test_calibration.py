"""Calibration metrics against hand arithmetic and against the field's libraries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from engine import metrics
from engine.core.errors import InvalidInput
from engine.core.pvalues import wilson_interval

CONFIDENCE = np.array([0.95, 0.97, 0.93, 0.50, 0.48, 0.49, 0.10, 0.12, 0.61])
CORRECT = np.array([1, 1, 0, 1, 0, 0, 0, 1, 1])
# 15 equal-width bins: [0.9333, 1] holds 0.95 and 0.97; [0.8667, 0.9333) holds 0.93; [0.4667, 0.5333) holds 0.50, 0.48
# and 0.49; [0.0667, 0.1333) holds 0.10 and 0.12; [0.6, 0.6667) holds 0.61.
HAND_ECE = (
    2 / 9 * abs(2 / 2 - (0.95 + 0.97) / 2)
    + 1 / 9 * abs(0 - 0.93)
    + 3 / 9 * abs(1 / 3 - (0.50 + 0.48 + 0.49) / 3)
    + 2 / 9 * abs(1 / 2 - (0.10 + 0.12) / 2)
    + 1 / 9 * abs(1 - 0.61)
)


def synthetic(n: int, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * 2.5
    probabilities = softmax(logits / 1.7, axis=1)
    labels = np.array([rng.choice(n_classes, p=row) for row in softmax(logits, axis=1)])
    return probabilities, labels


def top_label(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return probabilities.max(axis=1), probabilities.argmax(axis=1) == labels


def test_ece_by_hand():
    assert metrics.ece(CONFIDENCE, CORRECT) == pytest.approx(HAND_ECE, abs=1e-15)


def test_mce_ignores_small_bins():
    confidence = np.array([0.95] * 5 + [0.5])
    correct = np.array([1, 1, 1, 1, 0, 0])
    assert metrics.mce(confidence, correct) == pytest.approx(abs(4 / 5 - 0.95))
    assert metrics.mce(confidence, correct, min_count=1) == pytest.approx(0.5)
    with pytest.raises(InvalidInput, match="at least 7 samples"):
        metrics.mce(confidence, correct, min_count=7)


def test_adaptive_ece_by_hand():
    # Three bins of sorted confidence: (0.1, 0.2, 0.3), (0.4, 0.5), (0.6, 0.7): sizes 3, 2, 2.
    confidence = np.array([0.7, 0.1, 0.5, 0.3, 0.2, 0.6, 0.4])
    correct = np.array([1, 0, 1, 1, 0, 0, 1])
    expected = 3 / 7 * abs(1 / 3 - 0.2) + 2 / 7 * abs(2 / 2 - 0.45) + 2 / 7 * abs(1 / 2 - 0.65)
    assert metrics.adaptive_ece(confidence, correct, n_bins=3) == pytest.approx(expected)


def test_classwise_ece_by_hand():
    probabilities = np.array([[0.8, 0.2], [0.3, 0.7], [0.9, 0.1]])
    labels = np.array([0, 0, 1])
    # Two bins. Class 0: {0.3} and {0.8, 0.9}; class 1: {0.2, 0.1} and {0.7}.
    class_0 = 1 / 3 * abs(1 - 0.3) + 2 / 3 * abs(1 / 2 - 0.85)
    class_1 = 2 / 3 * abs(1 / 2 - 0.15) + 1 / 3 * abs(0 - 0.7)
    expected = (class_0 + class_1) / 2
    assert metrics.classwise_ece(probabilities, labels, n_bins=2) == pytest.approx(expected)


def test_nll_and_brier_by_hand():
    probabilities = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
    assert metrics.nll(probabilities, [0, 0]) == pytest.approx((-np.log(0.5) - np.log(1e-12)) / 2)
    assert metrics.brier(probabilities, [0, 0]) == pytest.approx((0.25 + 0.09 + 0.04 + 1 + 1) / 2)


def test_worst_tertile_ece_is_the_worst_of_three():
    rng = np.random.default_rng(3)
    confidence, rho = rng.random(300), rng.normal(size=300)
    correct = rng.random(300) < confidence
    low, high = np.quantile(rho, [1 / 3, 2 / 3])
    parts = [rho <= low, (rho > low) & (rho <= high), rho > high]
    expected = max(metrics.ece(confidence[part], correct[part]) for part in parts)
    assert metrics.worst_tertile_ece(confidence, correct, rho) == pytest.approx(expected)


def test_worst_tertile_ece_survives_constant_rho():
    assert metrics.worst_tertile_ece(CONFIDENCE, CORRECT, np.ones(9)) == pytest.approx(HAND_ECE)


@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_ece_family_agrees_with_peers(n_classes: int):
    calibration = pytest.importorskip("calibration")
    netcal_metrics = pytest.importorskip("netcal.metrics")
    probabilities, labels = synthetic(3000, n_classes, seed=n_classes)
    confidence, correct = top_label(probabilities, labels)
    bins = [float(edge) for edge in np.arange(1, 16) / 15]
    own = calibration.lower_bound_scaling_ce(
        confidence, correct.astype(int), p=1, debias=False, num_bins=15, binning_scheme=lambda *_args, **_kw: bins
    )
    assert metrics.ece(confidence, correct) == pytest.approx(own, abs=1e-12)
    assert metrics.ece(confidence, correct) == pytest.approx(netcal_metrics.ECE(15).measure(confidence, correct))
    assert metrics.mce(confidence, correct, min_count=1) == pytest.approx(
        netcal_metrics.MCE(15).measure(confidence, correct)
    )


def test_adaptive_ece_equals_uncertainty_calibration_on_equal_bins():
    calibration = pytest.importorskip("calibration")
    rng = np.random.default_rng(0)
    confidence = rng.random(1500)  # 15 bins of exactly 100
    correct = rng.random(1500) < confidence**1.3
    reference = calibration.lower_bound_scaling_ce(
        confidence, correct.astype(int), p=1, debias=False, num_bins=15, binning_scheme=calibration.get_equal_bins
    )
    assert metrics.adaptive_ece(confidence, correct) == pytest.approx(reference, abs=1e-12)


def test_classwise_ece_equals_the_mean_of_one_class_eces():
    probabilities, labels = synthetic(2000, 7, seed=5)
    expected = np.mean([metrics.ece(probabilities[:, k], labels == k) for k in range(7)])
    assert metrics.classwise_ece(probabilities, labels) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_smooth_ece_agrees_with_relplot(seed: int, power: float):
    relplot = pytest.importorskip("relplot")
    rng = np.random.default_rng(seed)
    confidence = rng.beta(5, 1.2, 4000)
    correct = rng.random(4000) < confidence**power
    # relplot bisects sigma ten times, so its sigma is off by up to 1/1024.
    assert metrics.smooth_ece(confidence, correct) == pytest.approx(
        relplot.smECE(confidence, correct.astype(float)), abs=5e-4
    )


def test_smooth_ece_by_direct_quadrature():
    rng = np.random.default_rng(1)
    confidence = np.concatenate([rng.random(60), [0.0, 1.0]])
    correct = rng.random(62) < 0.4
    value = metrics.smooth_ece(confidence, correct)
    points = (np.arange(20_000) + 0.5) / 20_000

    def smoothed(sigma: float) -> float:
        kernel = np.zeros((points.size, confidence.size))
        for shift in range(-3, 4):  # images of the reflection at 0 and 1
            for image in (confidence + 2 * shift, -confidence + 2 * shift):
                kernel += np.exp(-((points[:, None] - image) ** 2) / (2 * sigma**2))
        kernel /= sigma * np.sqrt(2 * np.pi)
        return float(np.abs(kernel @ (correct - confidence)).mean() / confidence.size)

    # The value returned is the fixed point smECE_sigma = sigma.
    assert smoothed(value) == pytest.approx(value, abs=1e-4)


def test_smooth_ece_of_certain_and_right_predictions_is_zero():
    assert metrics.smooth_ece(np.ones(50), np.ones(50, dtype=bool)) == 0.0


def test_proper_scores_agree_with_scikit_learn():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    probabilities, labels = synthetic(1000, 5, seed=9)
    assert metrics.nll(probabilities, labels) == pytest.approx(
        sklearn_metrics.log_loss(labels, probabilities, labels=range(5))
    )
    one_hot = np.eye(5)[labels]
    by_class = [sklearn_metrics.brier_score_loss(one_hot[:, k], probabilities[:, k]) for k in range(5)]
    assert metrics.brier(probabilities, labels) == pytest.approx(sum(by_class))


def test_reliability_table_adds_up_to_the_ece():
    rng = np.random.default_rng(2)
    confidence = rng.beta(4, 1, 500)
    correct = rng.random(500) < confidence
    for matching, expected in (
        ("equal_width", metrics.ece(confidence, correct)),
        ("equal_mass", metrics.adaptive_ece(confidence, correct)),
    ):
        table = metrics.reliability_table(confidence, correct, matching=matching)
        assert table["count"].sum() == 500
        assert (table["count"] * table["gap"].abs()).sum() / 500 == pytest.approx(expected)
        filled = table[table["count"] > 0]
        assert (filled["lower"] <= filled["mean_confidence"]).all()
        assert (filled["mean_confidence"] <= filled["upper"]).all()
        assert (filled["accuracy_low"] <= filled["accuracy"]).all()
        assert (filled["accuracy"] <= filled["accuracy_high"]).all()


def test_reliability_table_keeps_empty_bins():
    table = metrics.reliability_table([0.05, 0.95], [0, 1])
    assert len(table) == 15
    assert table.loc[table["count"] == 0, "accuracy"].isna().all()


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_order_of_samples_does_not_matter(n: int, seed: int):
    rng = np.random.default_rng(seed)
    confidence, correct = rng.random(n), rng.random(n) < 0.5
    order = rng.permutation(n)
    for metric in (metrics.ece, metrics.smooth_ece):
        assert metric(confidence, correct) == pytest.approx(metric(confidence[order], correct[order]), abs=1e-9)


@pytest.mark.parametrize(
    ("confidence", "correct", "culprit"),
    [
        ([0.5, 0.6], [1], "correct"),
        ([0.5, np.nan], [1, 0], "confidence"),
        ([0.5, np.inf], [1, 0], "confidence"),
        ([0.5, 1.2], [1, 0], "confidence"),
        ([-0.1, 0.2], [1, 0], "confidence"),
        ([0.5, 0.6], [1, 2], "correct"),
        ([0.5, 0.6], [1, np.nan], "correct"),
        ([], [], "confidence"),
        ([[0.5], [0.6]], [1, 0], "confidence"),
        (["a", "b"], [1, 0], "confidence"),
        ([[0.5], [0.6, 0.7]], [1, 0], "confidence"),
    ],
)
@pytest.mark.parametrize("metric", [metrics.ece, metrics.adaptive_ece, metrics.mce, metrics.smooth_ece])
def test_bad_input_is_named(metric, confidence, correct, culprit):
    with pytest.raises(InvalidInput) as caught:
        metric(confidence, correct)
    assert caught.value.argument == culprit


@pytest.mark.parametrize(
    ("probabilities", "labels", "culprit"),
    [
        ([[0.5, 0.5]], [2], "labels"),
        ([[0.5, 0.5]], [0.5], "labels"),
        ([[0.9, 0.5]], [0], "probabilities"),
        ([[1.0]], [0], "probabilities"),
        ([[np.nan, 1.0]], [0], "probabilities"),
        ([[0.5, 0.5], [0.5, 0.5]], [0], "labels"),
    ],
)
@pytest.mark.parametrize("metric", [metrics.nll, metrics.brier, metrics.classwise_ece])
def test_bad_probabilities_are_named(metric, probabilities, labels, culprit):
    with pytest.raises(InvalidInput) as caught:
        metric(probabilities, labels)
    assert caught.value.argument == culprit


def test_more_equal_mass_bins_than_samples_is_refused():
    with pytest.raises(InvalidInput, match="n_bins"):
        metrics.adaptive_ece([0.1, 0.9], [0, 1])


def test_probabilities_that_all_lie_in_the_first_bin():
    # Uniform over 100 classes: class k has p = 0.01 and is right with frequency 1/5 for k < 5, else 0.
    value = metrics.classwise_ece(np.full((5, 100), 0.01), np.arange(5))
    assert value == pytest.approx((5 * abs(1 / 5 - 0.01) + 95 * 0.01) / 100)
    assert metrics.classwise_ece([[0.5, 0.5]], [0], n_bins=1) == pytest.approx(0.5)


@pytest.mark.parametrize("n", range(1, 60))
def test_smooth_ece_of_certain_and_wrong_predictions_is_one(n: int):
    assert metrics.smooth_ece(np.zeros(n), np.ones(n, dtype=bool)) == pytest.approx(1.0, abs=1e-6)
    assert metrics.smooth_ece(np.ones(n), np.zeros(n, dtype=bool)) == pytest.approx(1.0, abs=1e-6)


def test_masked_and_ragged_arrays_are_refused():
    masked = np.ma.array([0.5, np.nan, 0.7], mask=[False, True, False])
    for metric in (metrics.ece, metrics.smooth_ece):
        with pytest.raises(InvalidInput, match="mask"):
            metric(masked, [1, 0, 1])
        with pytest.raises(InvalidInput, match="mask"):
            metric([0.5, 0.6, 0.7], np.ma.array([1, 0, 1], mask=[0, 1, 0]))
        with pytest.raises(InvalidInput, match="correct"):
            metric([0.5, 0.6], [[1], [0, 1]])


def test_bad_number_of_bins_is_named():
    for n_bins in ("15", None, 0, 2.0):
        with pytest.raises(InvalidInput, match="n_bins"):
            metrics.worst_tertile_ece([0.5, 0.6], [1, 0], [1, 2], n_bins=n_bins)


def test_wilson_interval_by_hand_and_its_refusal():
    low, high = wilson_interval([5], [10])
    z = 1.959963984540054
    centre, half = 0.5, z * np.sqrt(0.25 / 10 + z**2 / 400) / (1 + z**2 / 10)
    assert (low[0], high[0]) == pytest.approx((centre - half, centre + half))
    with pytest.raises(InvalidInput, match="successes"):
        wilson_interval(5, 3)
