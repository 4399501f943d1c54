"""Simulated worlds with a known answer: how often the verdict's test says "evidence" where there is none, and where an
oracle, which knows the shape of the effect, finds it 95 times in 100. `python -m tests.bench.size_and_power` prints it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit, ndtri, softmax

from engine.controls import VERDICT, false_alarm_rate, raises_false_alarms
from engine.controls.simulation import Simulator
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import BoolArray, FloatArray
from engine.gaps import TestSettings, ladder_test
from engine.gaps.combined import CombinedBatch, echoes_confidence
from engine.gaps.shape import confidence_model, unit_rank

N_CLASSES = 10
ACCURACIES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "calibrated": lambda c: c,
    "steep": lambda c: expit(2.5 * logit(c.clip(1e-6, 1 - 1e-6)) - 1),
    "step": lambda c: np.where(c > 0.8, 0.95, 0.45),
    "low end": lambda c: 0.1 + 0.85 * c**4,
}
FEATURES: dict[str, Callable[[FloatArray, FloatArray, np.random.Generator], FloatArray]] = {
    "independent": lambda c, _p, rng: rng.normal(size=c.size),
    "correlated 0.6": lambda c, _p, rng: _copy(c, 0.6, rng),
    "correlated 0.9": lambda c, _p, rng: _copy(c, 0.9, rng),
    "correlated 0.99": lambda c, _p, rng: _copy(c, 0.99, rng),
    "confidence itself": lambda c, _p, _rng: c,
    "predictive entropy": lambda _c, p, _rng: -(p * np.log(p.clip(1e-300))).sum(axis=1),
}
SHAPES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "monotone": lambda u, v: 2 * u - 1 + 0 * v,
    "U": lambda u, v: (2 * u - 1) ** 2 + 0 * v,
    "bump": lambda u, v: np.exp(-(((u - 0.5) / 0.1) ** 2)) + 0 * v,
    "high-confidence half": lambda u, v: (2 * u - 1) * (v > 0.5),
    "opposite signs": lambda u, v: (2 * u - 1) * np.sign(v - 0.5),
    "U, opposite signs": lambda u, v: (2 * u - 1) ** 2 * np.sign(v - 0.5),
}
"""Effects on the log-odds of being right, of the ranks u of rho and v of confidence."""


def _copy(confidence: FloatArray, correlation: float, rng: np.random.Generator) -> FloatArray:
    """A feature whose normal scores have this correlation with those of confidence."""
    scores = ndtri(unit_rank(confidence))
    copied: FloatArray = correlation * scores + np.sqrt(1 - correlation**2) * rng.normal(size=scores.size)
    return copied


def network(n: int, rng: np.random.Generator) -> FloatArray:
    """(n, 10) probabilities whose confidence piles up near one, as a trained network's does."""
    logits = (
        1.5 * rng.normal(size=(n, N_CLASSES)) + rng.gamma(2, 2.5, (n, 1)) * np.eye(N_CLASSES)[rng.integers(0, 10, n)]
    )
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def rejection_rate(
    confidence: FloatArray,
    rho: FloatArray,
    accuracy: FloatArray,
    n_worlds: int,
    rng: np.random.Generator,
    limit: float = 0.05,
) -> float:
    """Share of outcomes drawn from these accuracies whose p-value by the combined test is at most the limit."""
    batch = CombinedBatch(confidence, rho, confidence)
    rejected = 0
    for size in np.diff(np.append(np.arange(0, n_worlds, max(1, 1_000_000 // rho.size)), n_worlds)):
        rejected += int((batch.pvalues(rng.random((size, rho.size)) < accuracy, accuracy) <= limit).sum())
    return rejected / n_worlds


def believed(confidence: FloatArray, correct: BoolArray, rho: FloatArray) -> float:
    """The largest p-value that lost digits do not explain (`lost_digits_explain`); 5 % where they hardly matter."""
    simulator = Simulator(confidence, correct, rho, (VERDICT,), TestSettings())
    (summary,) = simulator.summarise([simulator.world("restored")], 1200, (0,))[VERDICT]
    p_values = simulator.tests[VERDICT].pvalues(summary)
    explains = raises_false_alarms(int((p_values <= 0.05).sum()), p_values.size, 0.05)
    return float(np.quantile(p_values, 0.025)) if explains else 0.05


def size(
    feature: str,
    accuracy: str,
    n: int,
    *,
    digits: int | None = None,
    n_worlds: int = 1000,
    n_draws: int = 4,
    seed: int = 0,
) -> tuple[float, float]:
    """(rate of evidence, share of draws flagged) where only confidence matters; rates of flagged draws do not count.

    digits : to which recorded confidences are rounded; the feature then knows the digits lost if it is `lost digits`.
    A rejection is evidence there if the lost digits do not explain it.
    """
    rates, flagged = [], 0
    for draw in range(n_draws):
        rng = np.random.default_rng((seed, draw, n))
        probabilities = network(n, rng)
        full = probabilities.max(axis=1)
        truth = ACCURACIES[accuracy](full)
        confidence = full if digits is None else full.round(digits)
        rho = full - confidence if feature == "lost digits" else FEATURES[feature](full, probabilities, rng)
        alarms = false_alarm_rate(confidence, rng.random(n) < truth, rho, tests=(VERDICT,), n_replicates=300, seed=draw)
        if alarms.broken(VERDICT) or echoes_confidence(confidence, rho):
            flagged += 1
        else:
            limit = 0.05 if alarms.rounding is None else believed(confidence, rng.random(n) < truth, rho)
            rates.append(rejection_rate(confidence, rho, truth, n_worlds // n_draws, rng, limit))
    return float(np.mean(rates)) if rates else np.nan, flagged / n_draws


def power(
    shape: str, confidence: FloatArray, accuracy: FloatArray, correlation: float, *, n_worlds: int = 300, seed: int = 0
) -> float:
    """How often the combined test finds an effect that an oracle score test, which knows its shape, finds in 95 %.

    The oracle's noncentrality is delta sqrt(sum w s^2), s the shape less its projection on the confidence model with
    weights w = p (1 - p); 95 % power needs 1.96 + 1.645 of it.
    """
    rng = np.random.default_rng(seed)
    rho = _copy(confidence, correlation, rng)
    rank = unit_rank(confidence)
    score = SHAPES[shape](unit_rank(rho), rank)
    model, weight = confidence_model(confidence, rank), accuracy * (1 - accuracy)
    weighted = model * weight[:, None]
    score = score - model @ np.linalg.lstsq(weighted.T @ model, weighted.T @ score, rcond=None)[0]
    delta = (ndtri(0.975) + ndtri(0.95)) / np.sqrt(weight @ score**2)
    planted = expit(logit(accuracy.clip(1e-9, 1 - 1e-9)) + delta * score)
    return rejection_rate(confidence, rho, planted, n_worlds, rng)


def ladder_size(rung: int, n: int, n_classes: int, *, n_worlds: int = 200, seed: int = 0) -> float:
    """Share of worlds that a rung rejects although correctness depends on what it conditions on alone.

    rho follows the same things, and has noise of its own.
    """
    rng = np.random.default_rng((seed, rung, n, n_classes))
    rejected = 0
    for _ in range(n_worlds):
        classes = rng.integers(0, n_classes, n)
        logits = 1.5 * rng.normal(size=(n, n_classes)) + rng.gamma(2, 2.5, (n, 1)) * np.eye(n_classes)[classes]
        probabilities = softmax(logits, axis=1)
        confidence, predicted = probabilities.max(axis=1), probabilities.argmax(axis=1)
        entropy = -(probabilities * np.log(probabilities.clip(1e-300))).sum(axis=1) / np.log(n_classes)
        log_odds, rho = 0.8 * logit(confidence.clip(1e-6, 1 - 1e-6)) - 2 * entropy, 2 * entropy + rng.normal(size=n)
        if rung >= 2:
            shift = rng.normal(size=n_classes)[predicted]
            log_odds, rho = log_odds + 0.5 * shift, rho + shift
        if rung >= 3:
            log_odds, rho = log_odds + 0.2 * logits[:, 0], rho + 0.3 * logits[:, 0]
        found = ladder_test(confidence, rng.random(n) < expit(log_odds), rho, logits)[rung - 1]
        rejected += found.p_value is not None and found.p_value <= 0.05
    return rejected / n_worlds


def main() -> None:
    keep_blas_to_one_thread()
    print("Size: share of evidence where only confidence matters (nominal 5 %), and share of draws flagged")
    for n in (500, 2000, 10_000, 50_000):
        for accuracy in ACCURACIES:
            for feature in FEATURES:
                rate, flagged = size(feature, accuracy, n)
                print(f"  n = {n:>6,}  {accuracy:<12}{feature:<20}{rate:6.1%}  flagged {flagged:4.0%}", flush=True)
    for digits in (4, 3, 2, 1):
        for feature in ("independent", "correlated 0.9", "lost digits"):
            rate, flagged = size(feature, "calibrated", 10_000, digits=digits)
            print(f"  n = 10,000  {digits} digits      {feature:<20}{rate:6.1%}  flagged {flagged:4.0%}", flush=True)
    print("Power where an oracle has 95 %, rho independent of confidence / correlated 0.6, n = 10,000")
    confidence = network(10_000, np.random.default_rng(1)).max(axis=1)
    for shape in SHAPES:
        rates = [power(shape, confidence, confidence, correlation, n_worlds=1000) for correlation in (0.0, 0.6)]
        print(f"  {shape:<22}{rates[0]:6.1%} {rates[1]:6.1%}", flush=True)
    print("Ladder: share of worlds rejected in which only what the rung conditions on matters")
    for n, n_classes in ((2000, 10), (10_000, 10), (10_000, 100)):
        rates = [ladder_size(rung, n, n_classes) for rung in (1, 2, 3)]
        print(f"  n = {n:>6,}  {n_classes:>3} classes  " + "  ".join(f"{rate:5.1%}" for rate in rates), flush=True)


if __name__ == "__main__":
    main()
