"""Histogram binning, BBQ and isotonic regression against enumeration and scikit-learn; the rescaled others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.calibrators import CALIBRATORS, Samples
from engine.calibrators.binning import average_binnings, bin_numbers
from engine.calibrators.samples import with_top_probability


def test_others_keep_their_proportions():
    probabilities = np.array([[0.5, 0.3, 0.2]])
    moved = with_top_probability(Samples.checked(np.log(probabilities)), np.array([0.8]))
    # the others shrink by (1 - 0.8) / (1 - 0.5) = 0.4
    assert moved == pytest.approx(np.array([[0.8, 0.12, 0.08]]))


def test_others_keep_their_proportions_when_confidence_rounds_to_one():
    samples = Samples.checked([[1e4, math.log(3.0), 0.0]])
    assert samples.confidence[0] == 1.0
    assert with_top_probability(samples, np.array([0.6])) == pytest.approx(np.array([[0.6, 0.3, 0.1]]))


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_extreme_targets(target):
    moved = with_top_probability(Samples.checked([[2.0, 1.0, 0.0]]), np.array([target]))
    assert moved[0, 0] == target
    assert moved.sum() == pytest.approx(1)


def test_histogram_by_hand():
    # confidences 0.7 (bin 11 of 15: 10/15 to 11/15) three times, two of them right; 0.95 (last bin) twice, both right
    confidence = np.array([0.7, 0.7, 0.7, 0.95, 0.95])
    logits = np.column_stack([np.log(confidence), np.log(1 - confidence)])
    fitted = CALIBRATORS["hb"]().fit(logits, [0, 0, 1, 0, 0])
    assert fitted.accuracy[[10, 14]] == pytest.approx([2 / 3, 1.0])
    assert fitted.count.tolist() == [0] * 10 + [3, 0, 0, 0, 2]
    query = np.array([0.69, 0.99, 0.55])
    predicted = fitted.predict_proba(np.column_stack([np.log(query), np.log(1 - query)]))
    # 0.55 falls in an empty bin and stays
    assert predicted[:, 0] == pytest.approx([2 / 3, 1.0, 0.55])


def naeini(confidence, correct, query):
    """The definition in plain loops, with gamma functions."""
    n = len(confidence)
    scores, estimates = [], []
    for n_bins in bin_numbers(n):
        ends = [0] + [n * b // n_bins for b in range(1, n_bins)] + [n]
        bounds = [0.0] + [(confidence[e - 1] + confidence[e]) / 2 for e in ends[1:-1]] + [1.0]
        score, table = 1.0, []
        for b in range(n_bins):
            inside = correct[ends[b] : ends[b + 1]]
            hits, misses = sum(inside), len(inside) - sum(inside)
            strength = 2 / n_bins
            middle = (bounds[b] + bounds[b + 1]) / 2
            alpha, beta = strength * middle, strength * (1 - middle)
            score *= math.gamma(strength) / math.gamma(len(inside) + strength)
            score *= math.gamma(hits + alpha) / math.gamma(alpha) * math.gamma(misses + beta) / math.gamma(beta)
            table.append((hits + alpha) / (len(inside) + strength))
        chosen = max(b for b in range(n_bins) if query >= bounds[b])
        scores.append(score)
        estimates.append(table[chosen])
    return float(np.dot(scores, estimates) / np.sum(scores)), np.array(scores) / np.sum(scores)


def test_bbq_by_enumeration():
    confidence = [0.31, 0.42, 0.47, 0.55, 0.58, 0.66, 0.71, 0.78, 0.83, 0.9, 0.95, 0.99]
    correct = [0, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1]
    edges, values, n_bins, weight = average_binnings(np.array(confidence), np.array(correct, dtype=bool))
    assert n_bins.tolist() == list(range(1, 13))  # 12^(1/3) = 2.29: from max(1, 0.229) to min(12, 22.9)
    for query in (0.2, 0.5, 0.6, 0.8, 0.97):
        expected, posterior = naeini(confidence, correct, query)
        assert values[np.searchsorted(edges, query, side="right")] == pytest.approx(expected, rel=1e-10)
        assert weight == pytest.approx(posterior, rel=1e-9)


def test_bbq_range_of_bin_numbers():
    # n = 5000: n^(1/3) = 17.1, so 1 to 171
    assert bin_numbers(5000)[[0, -1]].tolist() == [1, 171]
    # n = 8e6: n^(1/3) = 200, so 20 to 2000
    assert bin_numbers(8_000_000)[[0, -1]].tolist() in ([20, 2000], [19, 2000], [20, 2001], [19, 2001])
    assert bin_numbers(1).tolist() == [1]


def test_bbq_keeps_equal_confidences_together():
    confidence = np.repeat([0.4, 0.6, 0.9], [30, 50, 20])
    correct = np.random.default_rng(0).random(100) < confidence
    edges, values, n_bins, weight = average_binnings(confidence, correct)
    assert edges == pytest.approx([0.5, 0.75])
    assert np.isfinite(values).all()
    assert weight.sum() == pytest.approx(1)
    assert n_bins.size == weight.size


def test_bbq_estimates_a_step():
    rng = np.random.default_rng(41)
    confidence = np.sort(rng.uniform(0.2, 1, 4000))
    correct = rng.random(4000) < np.where(confidence < 0.6, 0.3, 0.9)
    edges, values, _, _ = average_binnings(confidence, correct)
    at = values[np.searchsorted(edges, [0.3, 0.45, 0.75, 0.95], side="right")]
    assert at == pytest.approx([0.3, 0.3, 0.9, 0.9], abs=0.05)


@pytest.mark.parametrize("n_classes", [2, 10])
def test_isotonic_equals_scikit_learn(n_classes, network):
    isotonic = pytest.importorskip("sklearn.isotonic")
    data = network(2000, n_classes, seed=42, temperature=2.0)
    cal, test = Samples.checked(data.logits[:1000], data.labels[:1000]), Samples.checked(data.logits[1000:])
    peer = isotonic.IsotonicRegression(out_of_bounds="clip").fit(cal.confidence, cal.correct)
    fitted = CALIBRATORS["isotonic"]().fit(data.logits[:1000], data.labels[:1000])
    predicted = fitted.predict_proba(data.logits[1000:])[np.arange(1000), test.top]
    assert predicted == pytest.approx(peer.predict(test.confidence), abs=1e-9)


def test_isotonic_equals_scikit_learn_on_ties():
    isotonic = pytest.importorskip("sklearn.isotonic")
    rng = np.random.default_rng(43)
    confidence = rng.choice([0.6, 0.7, 0.8, 0.9], 200)
    labels = (rng.random(200) > confidence**2).astype(int)
    logits = np.column_stack([np.log(confidence), np.log(1 - confidence)])
    samples = Samples.checked(logits, labels)
    peer = isotonic.IsotonicRegression(out_of_bounds="clip").fit(samples.confidence, samples.correct)
    predicted = CALIBRATORS["isotonic"]().fit(logits, labels).predict_proba(logits)[:, 0]
    assert predicted == pytest.approx(peer.predict(samples.confidence), abs=1e-9)
