"""Temperature, ensemble and classwise scaling, soft-binned ECE and logit normalisation: closed forms and peers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from engine import metrics
from engine.calibrators import CALIBRATORS, likelihood
from engine.calibrators.calibration_error import soft_binned_ece_squared
from tests.bench.peers import probmetrics_calibrators


def nll_at(logits, labels, temperature):
    scaled = logits / temperature
    highest = scaled.max(axis=1)
    total = np.log(np.exp(scaled - highest[:, None]).sum(axis=1)) + highest
    return float((total - scaled[np.arange(len(labels)), labels]).mean())


def test_temperature_in_closed_form():
    # gap 1 in every sample, 8 of 10 right: 1 / (1 + exp(-1 / T)) = 0.8  ->  T = 1 / log 4
    fitted = CALIBRATORS["ts"]().fit(np.tile([1.0, 0.0], (10, 1)), [0] * 8 + [1] * 2)
    assert fitted.temperature == pytest.approx(1 / math.log(4), rel=1e-7)
    assert fitted.predict_proba([[1.0, 0.0]]) == pytest.approx(np.array([[0.8, 0.2]]), abs=1e-8)


def test_true_temperature_is_recovered(network):
    data = network(20_000, 10, seed=20, temperature=2.0)
    assert CALIBRATORS["ts"]().fit(data.logits, data.labels).temperature == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize("n", [300, 5000])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0, 50.0])
def test_temperature_minimises_the_likelihood(n, temperature, network):
    data = network(n, 6, seed=21, temperature=temperature)
    fitted = CALIBRATORS["ts"]().fit(data.logits, data.labels)
    best = minimize_scalar(
        lambda u: nll_at(data.logits, data.labels, math.exp(u)),
        bounds=(-3, 6),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert fitted.temperature == pytest.approx(math.exp(best.x), rel=1e-5)
    assert fitted.converged


def test_temperature_scaling_matches_scikit_learn(network):
    calibration = pytest.importorskip("sklearn.calibration")
    data = network(4000, 10, seed=22, temperature=1.7)
    peer = calibration._TemperatureScaling().fit(data.logits, data.labels)
    fitted = CALIBRATORS["ts"]().fit(data.logits, data.labels)
    ours = metrics.nll(fitted.predict_proba(data.logits), data.labels)
    assert ours == pytest.approx(metrics.nll(peer.predict(data.logits), data.labels), abs=1e-3)
    assert ours <= metrics.nll(peer.predict(data.logits), data.labels) + 1e-9
    assert fitted.temperature == pytest.approx(1 / float(peer.beta_), rel=1e-3)


@pytest.mark.parametrize(("name", "peer_name"), [("ts", "TemperatureScalingCalibrator"), ("ets", "ETSCalibrator")])
def test_matches_probmetrics(name, peer_name, network):
    pytest.importorskip("probmetrics")
    calibrators = probmetrics_calibrators()
    data = network(4000, 10, seed=23, temperature=1.7)
    raw = CALIBRATORS["none"]().fit(data.logits, data.labels).predict_proba(data.logits)
    peer = getattr(calibrators, peer_name)(**({"loss": "ce"} if name == "ets" else {}))
    peer.fit(raw, data.labels)
    ours = metrics.nll(CALIBRATORS[name]().fit(data.logits, data.labels).predict_proba(data.logits), data.labels)
    theirs = metrics.nll(np.asarray(peer.predict_proba(raw), dtype=np.float64), data.labels)
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert ours <= theirs + 1e-6


def test_ensemble_weights_minimise_the_likelihood(network):
    """Labels that no temperature explains: a tenth of them is drawn at random, so the uniform part earns its weight."""
    data = network(5000, 5, seed=24, temperature=1.5)
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(5000) < 0.1, rng.integers(0, 5, 5000), data.labels)
    fitted = CALIBRATORS["ets"]().fit(data.logits, labels)
    ours = metrics.nll(fitted.predict_proba(data.logits), labels)
    raw = CALIBRATORS["none"]().fit(data.logits, labels).predict_proba(data.logits)
    scaled = CALIBRATORS["ts"]().fit(data.logits, labels).predict_proba(data.logits)
    grid = np.linspace(0, 1, 26)
    best = min(
        metrics.nll(a * scaled + b * raw + (1 - a - b) / 5, labels) for a in grid for b in grid if a + b <= 1 + 1e-12
    )
    assert ours <= best + 1e-9
    assert ours < metrics.nll(scaled, labels) - 1e-4
    assert sum(fitted.weights) == pytest.approx(1)
    assert min(fitted.weights) >= 0


def test_classwise_temperatures_are_those_of_each_class(network):
    data = network(6000, 4, seed=25)
    predicted = data.logits.argmax(axis=1)
    stretched = data.logits * np.array([1.0, 1.5, 2.0, 3.0])[predicted][:, None]
    fitted = CALIBRATORS["cts"]().fit(stretched, data.labels)
    assert fitted.temperature == pytest.approx([1.0, 1.5, 2.0, 3.0], rel=0.15)
    for k in range(4):
        alone = CALIBRATORS["ts"]().fit(stretched[predicted == k], data.labels[predicted == k])
        assert fitted.temperature[k] == pytest.approx(alone.temperature, rel=1e-6)
    assert not fitted.shared.any()


def test_rare_classes_take_the_common_temperature(network):
    data = network(3000, 4, seed=26, temperature=2.0)
    rare = np.flatnonzero(data.logits.argmax(axis=1) == 3)[19:]  # leaves 19 samples predicted as class 3
    rows = np.setdiff1d(np.arange(3000), rare)
    fitted = CALIBRATORS["cts"]().fit(data.logits[rows], data.labels[rows])
    common = CALIBRATORS["ts"]().fit(data.logits[rows], data.labels[rows])
    assert fitted.shared.tolist() == [False, False, False, True]
    assert fitted.temperature[3] == common.temperature


def test_soft_binned_error_by_hand():
    # two bins, centres 1/4 and 3/4, bin temperature 1: memberships of bin 2 are s(c) = 1 / (1 + exp(-(c - 1/2)))
    confidence, correct = np.array([0.5, 0.9]), np.array([False, True])
    second = 1 / (1 + np.exp(-(confidence - 0.5)))
    sizes = np.array([(1 - second).sum(), second.sum()])
    residuals = np.array([(1 - second) @ (correct - confidence), second @ (correct - confidence)])
    expected = (residuals**2 / sizes).sum() / 2
    assert soft_binned_ece_squared(confidence, correct, 2, 1.0) == pytest.approx(expected, rel=1e-12)


def test_soft_bins_harden_into_bins():
    rng = np.random.default_rng(27)
    centres = (np.arange(15) + 0.5) / 15
    confidence = rng.choice(centres, 2000)
    correct = rng.random(2000) < confidence**2
    table = metrics.reliability_table(confidence, correct)
    expected = (table["count"] / 2000 * table["gap"] ** 2).sum()
    assert soft_binned_ece_squared(confidence, correct, 15, 1e-6) == pytest.approx(expected, rel=1e-9)


def test_soft_binned_temperature_is_the_best_on_a_fine_grid(network):
    data = network(3000, 10, seed=28, temperature=2.0)
    fitted = CALIBRATORS["sbece"]().fit(data.logits, data.labels)
    correct = data.logits.argmax(axis=1) == data.labels

    def error(temperature):
        scaled = np.exp((data.logits - data.logits.max(axis=1, keepdims=True)) / temperature)
        return soft_binned_ece_squared(1 / scaled.sum(axis=1), correct)

    grid = fitted.temperature * np.exp(np.linspace(-1, 1, 201))
    assert error(fitted.temperature) <= min(error(value) for value in grid) + 1e-9
    assert fitted.temperature == pytest.approx(2.0, rel=0.15)


def test_logit_normalisation_uses_the_direction_only(network):
    data = network(2000, 5, seed=29)
    lengths = np.random.default_rng(0).uniform(0.1, 10, 2000)[:, None]
    plain = CALIBRATORS["lc"]().fit(data.logits, data.labels)
    stretched = CALIBRATORS["lc"]().fit(lengths * data.logits, data.labels)
    assert stretched.factor == pytest.approx(plain.factor, rel=1e-6)
    # logits of common length 7 drawn as calibrated: the best factor is near 7
    assert plain.factor == pytest.approx(7.0, rel=0.1)
    assert plain.calibration_ece == pytest.approx(
        metrics.ece(plain.predict_proba(data.logits).max(axis=1).clip(max=1), data.logits.argmax(axis=1) == data.labels)
    )


def test_logits_of_zero_have_no_direction():
    logits = np.vstack([np.zeros((5, 3)), np.tile([2.0, 1.0, 0.0], (20, 1))])
    fitted = CALIBRATORS["lc"]().fit(logits, [0] * 20 + [1] * 5)
    assert fitted.predict_proba(np.zeros((1, 3))) == pytest.approx(np.full((1, 3), 1 / 3))


def test_labels_of_one_class_leave_vector_scaling_the_common_temperature(network):
    data = network(400, 4)
    rows = data.labels == 0
    fitted = CALIBRATORS["vs"]().fit(data.logits[rows], data.labels[rows])
    temperature = CALIBRATORS["ts"]().fit(data.logits[rows], data.labels[rows]).temperature
    assert temperature != pytest.approx(1.0)
    assert fitted.scale == pytest.approx(np.full(4, 1 / temperature))
    assert not fitted.converged
    assert fitted.note == (
        "the calibration labels are all of one class, so every class has the common temperature and no bias"
    )


def test_a_search_that_was_cut_short_is_not_said_to_leave_the_logits_alone(network, monkeypatch):
    data = network(400, 4)
    monkeypatch.setattr(likelihood, "MAX_ITERATIONS", 1)
    fitted = CALIBRATORS["ts"]().fit(5 * data.logits, data.labels)
    assert not fitted.converged
    assert fitted.temperature != 1
    assert "stopped after" in fitted.note
