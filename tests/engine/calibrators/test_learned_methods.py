"""Vector scaling, parameterised temperature scaling and margin-entropy cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from engine import metrics
from engine.calibrators import CALIBRATORS, Samples
from engine.calibrators import margin_entropy as margin_entropy_module
from engine.calibrators.parametric import Network, ParametricTemperatureScaling, sorted_logits
from tests.bench.peers import probmetrics_calibrators


def test_vector_scaling_recovers_its_own_model():
    """Labels drawn from softmax(a * z + b) with known a and b, the biases up to their common shift."""
    rng = np.random.default_rng(30)
    logits = 2 * rng.normal(size=(30_000, 4)) + np.array([5.0, 0.0, -3.0, 1.0])
    scale, bias = np.array([0.5, 1.0, 1.5, 0.8]), np.array([-1.0, 0.5, 2.0, 0.0])
    scores = scale * logits + bias
    probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1) < rng.random((30_000, 1))).sum(axis=1).clip(max=3)
    fitted = CALIBRATORS["vs"]().fit(logits, labels)
    assert fitted.converged
    assert fitted.scale == pytest.approx(scale, abs=0.06)
    assert fitted.bias - fitted.bias[1] == pytest.approx(bias - bias[1], abs=0.2)
    assert np.abs(fitted.predict_proba(logits) - probabilities).max() < 0.03


def test_vector_scaling_stops_at_the_optimum(network):
    """A logistic regression with the same diagonal structure cannot be improved along any coordinate."""
    data = network(3000, 5, seed=31, temperature=1.6)
    fitted = CALIBRATORS["vs"]().fit(data.logits, data.labels)
    best = metrics.nll(fitted.predict_proba(data.logits), data.labels)

    def nll(scale, bias):
        scores = data.logits * scale + bias
        scores -= scores.max(axis=1, keepdims=True)
        return float((np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(3000), data.labels]).mean())

    assert nll(fitted.scale, fitted.bias) == pytest.approx(best, abs=1e-9)
    for k in range(5):
        for step in (-0.05, 0.05):
            moved = np.eye(5)[k] * step
            assert nll(fitted.scale + moved, fitted.bias) > best - 1e-6
            assert nll(fitted.scale, fitted.bias + moved) > best - 1e-6


def test_vector_scaling_matches_probmetrics(network):
    pytest.importorskip("probmetrics")
    data = network(3000, 10, seed=32, temperature=1.6)
    # the peer works on log-probabilities, so it is given logits that are log-probabilities already
    log_probabilities = np.log(CALIBRATORS["none"]().fit(data.logits, data.labels).predict_proba(data.logits))
    peer = probmetrics_calibrators().VectorScalingCalibrator()
    peer.fit(np.exp(log_probabilities), data.labels)
    theirs = metrics.nll(np.asarray(peer.predict_proba(np.exp(log_probabilities)), dtype=np.float64), data.labels)
    fitted = CALIBRATORS["vs"]().fit(log_probabilities, data.labels)
    ours = metrics.nll(fitted.predict_proba(log_probabilities), data.labels)
    assert ours == pytest.approx(theirs, abs=1e-3)


def test_vector_scaling_pins_unseen_classes(network):
    data = network(2000, 6, seed=33, temperature=1.6)
    rows = np.flatnonzero(data.labels != 2)
    fitted = CALIBRATORS["vs"]().fit(data.logits[rows], data.labels[rows])
    common = CALIBRATORS["ts"]().fit(data.logits[rows], data.labels[rows])
    assert fitted.unseen.tolist() == [False, False, True, False, False, False]
    assert fitted.scale[2] == pytest.approx(1 / common.temperature)
    assert fitted.bias[2] == 0.0
    assert np.abs(fitted.bias[[0, 1, 3]]).max() > 0


def test_network_gradient():
    rng = np.random.default_rng(34)
    inputs, by_change = rng.normal(size=(40, 6)), rng.normal(size=40)
    network = Network.initial(6, rng)
    start = network.flatten() + 0.1 * rng.normal(size=network.flatten().size)

    def loss(values):
        return float(network.filled(values).forward(inputs)[2] @ by_change)

    def gradient(values):
        trial = network.filled(values)
        return trial.backward(inputs, *trial.forward(inputs), by_change)

    assert check_grad(loss, gradient, start) < 1e-5


def test_sorted_logits_are_the_ten_largest():
    logits = np.random.default_rng(35).normal(size=(50, 30))
    assert sorted_logits(Samples.checked(logits)).tolist() == np.sort(logits, axis=1)[:, ::-1][:, :10].tolist()
    assert sorted_logits(Samples.checked(logits[:, :4])).shape == (50, 4)


def test_parametric_temperatures_follow_the_samples(network):
    """Two kinds of samples, told apart by their largest logit, need temperatures 1 and 3."""
    rng = np.random.default_rng(36)
    data = network(8000, 10, seed=36)
    hot = rng.random(8000) < 0.5
    logits = np.where(hot[:, None], 3.0, 1.0) * data.logits
    fitted = CALIBRATORS["pts"]().fit(logits[:4000], data.labels[:4000])
    temperature = fitted.temperature(Samples.checked(logits[4000:]))
    assert np.median(temperature[hot[4000:]]) == pytest.approx(3.0, rel=0.25)
    assert np.median(temperature[~hot[4000:]]) == pytest.approx(1.0, rel=0.25)
    common = CALIBRATORS["ts"]().fit(logits[:4000], data.labels[:4000])
    better = metrics.nll(fitted.predict_proba(logits[4000:]), data.labels[4000:])
    assert better < metrics.nll(common.predict_proba(logits[4000:]), data.labels[4000:]) - 0.01


def test_parametric_seed_is_the_only_randomness(network):
    data = network(500, 6, seed=37, temperature=2.0)
    first, same, other = (
        ParametricTemperatureScaling(seed=seed).fit(data.logits, data.labels).network.flatten() for seed in (1, 1, 2)
    )
    assert first.tobytes() == same.tobytes()
    assert first.tobytes() != other.tobytes()


def test_cells_are_monotone_along_the_margin(network):
    data = network(4000, 10, seed=38, temperature=1.5)
    fitted = CALIBRATORS["rcmmc"]().fit(data.logits, data.labels)
    assert fitted.temperature.shape == (8, 4)
    assert (np.diff(fitted.temperature, axis=0) <= 1e-12).all()
    assert fitted.count.sum() == 4000
    assert fitted.count.sum(axis=1) == pytest.approx(500, abs=1)
    assert fitted.count.sum(axis=0) == pytest.approx(1000, abs=1)


def test_cells_find_temperatures_that_fall_with_the_margin(network):
    """Samples of a clear margin are calibrated; the labels of the others are drawn at random."""
    data = network(12_000, 5, seed=39)
    ordered = np.sort(data.logits, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 2.0
    labels = np.where(clear, data.labels, np.random.default_rng(0).integers(0, 5, 12_000))
    fitted = CALIBRATORS["rcmmc"]().fit(data.logits, labels)
    assert fitted.temperature[0].min() > 2.0
    assert fitted.temperature[-1].max() < 1.3


def test_cell_objective_gradient(network, monkeypatch):
    data = network(300, 4, seed=40, temperature=1.5)
    samples = Samples.checked(data.logits, data.labels)
    cell = np.random.default_rng(0).integers(0, 32, 300)
    captured = {}

    def spy(loss, start, **settings):
        captured["loss"] = loss
        return original(loss, start, **settings)

    original = margin_entropy_module.minimize
    monkeypatch.setattr(margin_entropy_module, "minimize", spy)
    margin_entropy_module._minimise(samples, cell, 1.5)
    point = np.random.default_rng(1).uniform(0, 0.2, 32)
    assert check_grad(lambda v: captured["loss"](v)[0], lambda v: captured["loss"](v)[1], point) < 1e-5
