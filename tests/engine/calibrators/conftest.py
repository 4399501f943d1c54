"""Synthetic networks whose calibration is known because their labels are drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest


@dataclass(frozen=True)
class Network:
    logits: np.ndarray
    labels: np.ndarray
    feature: np.ndarray

    def rows(self, rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.logits[rows], self.labels[rows], self.feature[rows]


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def draw_labels(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    below = probabilities.cumsum(axis=1) < rng.random((probabilities.shape[0], 1))
    return below.sum(axis=1).clip(max=probabilities.shape[1] - 1)


@pytest.fixture(scope="session")
def network() -> Callable[..., Network]:
    """Logits on a sphere, with labels drawn from softmax(logits / temperature).

    The common length of the logits lets every method, also logit normalisation, leave a calibrated network alone.
    """

    def make(n: int, n_classes: int = 10, seed: int = 0, temperature: float = 1.0, length: float = 7.0) -> Network:
        rng = np.random.default_rng(seed)
        direction = rng.normal(size=(n, n_classes)) ** 3
        logits = length * temperature * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        feature = 0.1 + 0.03 * rng.gamma(3.0, 1 / 3, n)
        return Network(logits, draw_labels(softmax(logits / temperature), rng), feature)

    return make
