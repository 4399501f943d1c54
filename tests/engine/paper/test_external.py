"""The paper's external checks: against dense sums, against the gap of each run, and against a bootstrap of rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax

from engine import metrics
from engine.core.binning import split
from engine.core.types import RunData
from engine.gaps import matched_gap, trend_test
from engine.paper.external import against_noise, block_against_full, lift_over_norm, logit_norm


def made(seed: int, n: int, effect: float = 0.0, name: str = "made") -> RunData:
    """At any confidence, accuracy shifts by effect * u; routing follows u, and scale makes the logit norm vary."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 4)) * rng.uniform(0.5, 2.5, (n, 1))
    chances = softmax(logits, axis=1)
    confidence, top = chances.max(axis=1), chances.argmax(axis=1)
    u = rng.integers(-1, 2, n)
    right = rng.random(n) < np.clip(confidence + effect * u, 0, 1)
    labels = np.where(right, top, (top + rng.integers(1, 4, n)) % 4)
    entropies = (0.5 + 0.1 * u + rng.normal(0, 0.02, n))[:, None] + rng.normal(0, 0.01, (n, 3))
    return RunData(name, confidence, right, entropies.clip(0, 1), logits, labels)


def test_noise_is_the_primary_test_of_three_features():
    run = made(0, 3000, 0.2)
    found = against_noise(run)
    assert found["routing_z"] == trend_test(run.confidence, run.correct, run.entropies.mean(axis=1)).z
    assert found["norm_z"] == trend_test(run.confidence, run.correct, np.sqrt((run.logits**2).sum(axis=1))).z
    assert abs(found["routing_z"]) > 8
    assert max(abs(found["norm_z"]), abs(found["random_z"])) < 3


def test_random_features_are_standard_normal_and_differ_between_runs():
    run = made(1, 400, 0.2)
    z = [against_noise(run.replace(run_id=f"r{i}"))["random_z"] for i in range(200)]
    assert np.mean(z) == pytest.approx(0, abs=3 / np.sqrt(200))
    assert np.std(z) == pytest.approx(1, abs=0.2)


def test_a_run_too_small_to_match_confidence_is_untested():
    assert np.isnan(list(against_noise(made(2, 60)).values())).all()


def dense_scores(run: RunData, columns: np.ndarray) -> list[float]:
    """ECE, NLL and Brier by the definition: all pairs, h = sigma n^(-1/6), a root per sample."""
    known, asked = split(run.n_samples)
    x = np.column_stack([run.confidence, columns])
    h = x[known].std(axis=0) * len(known) ** (-1 / 6)
    weights = np.exp(-0.5 * (((x[asked][:, None] - x[known][None]) / h) ** 2).sum(axis=2))
    n_classes = run.logits.shape[1]
    target = (weights @ run.correct[known] / weights.sum(axis=1)).clip(1 / n_classes + 1e-6, 1 - 1e-6)
    beta = [
        np.exp(brentq(lambda b, z=z, t=t: softmax(np.exp(b) * z).max() - t, -20, 20))
        for z, t in zip(run.logits[asked], target, strict=True)
    ]
    p, labels = softmax(run.logits[asked] * np.array(beta)[:, None], axis=1), run.labels[asked]
    own = p[np.arange(len(asked)), labels]
    brier = ((p - np.eye(n_classes)[labels]) ** 2).sum(axis=1).mean()
    return [metrics.ece(p.max(axis=1).clip(max=1), run.correct[asked]), -np.log(own.clip(1e-12)).mean(), brier]


def test_lift_by_the_definition():
    run = made(3, 300, 0.2)
    norm, rho = logit_norm(run), run.entropies.mean(axis=1)
    expected = np.subtract(dense_scores(run, norm[:, None]), dense_scores(run, np.column_stack([norm, rho])))
    assert list(lift_over_norm(run).values()) == pytest.approx(expected.tolist(), abs=1e-6)


def test_lift_has_the_sign_of_what_routing_knows():
    assert lift_over_norm(made(4, 3000, 0.25))["gain_brier"] > 0.005
    assert lift_over_norm(made(5, 3000))["gain_brier"] < 0


def signed_gap(run: RunData) -> float:
    return matched_gap(run.confidence, run.correct, run.entropies.mean(axis=1)).signed_gap


def test_pairs_are_the_difference_of_the_gaps():
    block, full = made(6, 2000, 0.2), made(7, 2000)
    assert block_against_full(block, full)["difference"] == pytest.approx(
        abs(signed_gap(block)) - abs(signed_gap(full))
    )
    assert block_against_full(block, block) == {"difference": 0.0, "error": 0.0}


def test_pairs_resample_both_runs_at_once():
    """Two runs that share most of their answers: the error of the difference is that of rows drawn for both."""
    block = made(8, 1500, 0.2)
    rng = np.random.default_rng(9)
    other = rng.random(1500) < 0.1
    full = block.replace(correct=np.where(other, ~block.correct, block.correct))
    values = []
    for _ in range(300):
        rows = rng.integers(0, 1500, 1500)
        gaps = []
        for run in (block, full):
            drawn = run.subset(rows)
            rho = run.entropies.mean(axis=1)  # cuts of the whole run, as ranks that no draw can move
            group = np.digitize(rho, np.quantile(rho, [1 / 3, 2 / 3]), right=True)[rows]
            found = matched_gap(drawn.confidence, drawn.correct, group.astype(float), quantiles=(0.2, 0.5))
            gaps.append(abs(found.signed_gap))
        values.append(gaps[0] - gaps[1])
    found = block_against_full(block, full)
    assert found["error"] == pytest.approx(np.std(values, ddof=1), rel=0.15)
    apart = np.hypot(*(block_against_full(run, made(10, 1500))["error"] for run in (block, full)))
    assert found["error"] < apart / 2
