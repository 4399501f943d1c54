"""Synthetic runs of realistic shape for the benchmarks: most confidence near one, accuracy about 90 %."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from engine.core.types import BoolArray, FloatArray, IntArray


def samples(n: int = 10_000, seed: int = 0) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Confidence, correctness and an independent rho."""
    rng = np.random.default_rng(seed)
    confidence = 1 - 0.9 * rng.beta(0.5, 2.0, n)
    return confidence, rng.random(n) < confidence**1.1, rng.normal(size=n)


def predictions(n: int, n_classes: int, seed: int = 0) -> tuple[FloatArray, FloatArray, IntArray]:
    """Over-confident logits (true temperature 1.5), their softmax, and labels; most confidence above 14/15."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * 2
    logits[np.arange(n), rng.integers(0, n_classes, n)] += rng.normal(10, 3, n)
    cumulative = np.cumsum(softmax(logits / 1.5, axis=1), axis=1)
    labels = (rng.random((n, 1)) < cumulative).argmax(axis=1)
    return logits, softmax(logits, axis=1), labels
