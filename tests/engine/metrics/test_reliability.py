"""Summary of calibration, ECE under calibration, class table, and the sentences of the Browse pages."""

from __future__ import annotations

import numpy as np
import pytest

from engine import metrics
from engine.metrics.mechanism import depth_profile, relate_to_error
from engine.metrics.reliability import calibration_summary, class_table, expected_ece
from engine.verdict.wording import mechanism_sentence, reliability_sentence


def test_summary_by_hand():
    summary = calibration_summary([0.9, 0.9, 0.6, 0.6], [1, 0, 1, 1])
    assert summary.accuracy == 0.75
    assert summary.mean_confidence == pytest.approx(0.75)
    assert summary.ece == pytest.approx(0.5 * 0.4 + 0.5 * 0.4)
    assert summary.direction == "neither"
    assert summary.gap == pytest.approx(0)


def test_direction_needs_the_interval_to_leave_no_doubt():
    assert calibration_summary(np.full(1000, 0.9), np.arange(1000) < 700).direction == "over"
    assert calibration_summary(np.full(1000, 0.6), np.arange(1000) < 700).direction == "under"
    assert calibration_summary(np.full(1000, 0.71), np.arange(1000) < 700).direction == "neither"


def test_ece_of_a_calibrated_model_by_hand_and_by_simulation():
    assert expected_ece([0.5] * 4) == pytest.approx(np.sqrt(2 * 4 * 0.25 / np.pi) / 4)
    rng = np.random.default_rng(0)
    confidence = np.sqrt(rng.random(3000))
    drawn = [metrics.ece(confidence, rng.random(3000) < confidence) for _ in range(300)]
    assert expected_ece(confidence) == pytest.approx(np.mean(drawn), rel=0.03)


def test_class_table_by_hand():
    table = class_table([0.9, 0.7, 0.8, 0.6], [1, 0, 1, 1], [3, 3, 3, 0], n_bins=2)
    assert table["predicted"].tolist() == [0, 3]
    assert table["count"].tolist() == [1, 3]
    assert table["gap"].tolist() == pytest.approx([1 - 0.6, 2 / 3 - 0.8])
    assert table["ece"].tolist() == pytest.approx([0.4, 0.8 - 2 / 3])
    assert (table["gap_low"] <= table["gap"]).all()
    assert (table["gap"] <= table["gap_high"]).all()


def test_class_table_equals_the_metrics_of_each_class():
    rng = np.random.default_rng(1)
    confidence, predicted = rng.random(900), rng.integers(0, 7, 900)
    correct = rng.random(900) < confidence**2
    table = class_table(confidence, correct, predicted)
    for row in table.itertuples():
        own = predicted == row.predicted
        assert row.ece == pytest.approx(metrics.ece(confidence[own], correct[own]))
        summary = calibration_summary(confidence[own], correct[own])
        assert row.gap_low == pytest.approx(summary.accuracy_low - summary.mean_confidence)
        assert row.gap_high == pytest.approx(summary.accuracy_high - summary.mean_confidence)


def test_reliability_sentence_carries_its_numbers():
    sentence = reliability_sentence(calibration_summary(np.full(1000, 0.61), np.arange(1000) < 690))
    assert sentence.startswith(
        "Raw ECE is 0.080 (debiased 0.080, 95 % interval 0.051 to 0.108): this run is under-confident by 0.08 on "
        "average (accuracy 0.69, mean confidence 0.61)."
    )
    assert f"{np.sqrt(2 * 0.61 * 0.39 * 1000 / np.pi) / 1000:.3f}" in sentence
    finer = reliability_sentence(calibration_summary(np.full(1000, 0.744), np.arange(1000) < 698))
    assert "over-confident by 0.046 on average (accuracy 0.698, mean confidence 0.744)" in finer
    modest = reliability_sentence(calibration_summary(np.full(1000, 0.7), np.arange(1000) < 690))
    assert "neither clearly over- nor under-confident (accuracy 0.690" in modest


def test_mechanism_sentence_says_what_was_measured_and_what_not():
    rng = np.random.default_rng(3)
    confidence = np.sqrt(rng.random(800))
    correct = rng.random(800) < confidence
    profile = depth_profile(np.column_stack([np.full(800, 0.4), np.full(800, 0.9)]), correct, names=["first", "second"])
    clear = mechanism_sentence(profile, relate_to_error(confidence, correct, 1 - confidence), "my feature")
    assert clear.startswith("Mean routing entropy runs from 0.40 (first) to 0.90 (second) over 2 layers")
    assert "The error |c - t| rises with my feature (rank correlation 0." in clear
    assert clear.endswith("this does not say that anything is added to it.")
    noise = mechanism_sentence(profile, relate_to_error(confidence, correct, rng.random(800)), "my feature")
    assert "My feature has no clear rank correlation" in noise
    bare = mechanism_sentence(None, relate_to_error(confidence, correct, np.ones(800)), "a norm", lacking="routing")
    assert "no routing profile" in bare
    assert "It lacks routing; below, a norm stands in. A norm cannot be ranked" in bare
    own = mechanism_sentence(None, relate_to_error(confidence, correct, confidence), "confidence itself")
    assert "not held fixed" not in own
    one = mechanism_sentence(
        depth_profile(np.full((800, 1), 0.5), correct, names=["only"]),
        relate_to_error(confidence, correct, correct),
        "x",
    )
    assert one.startswith("The one routing layer, only, has a mean entropy of 0.50.")
