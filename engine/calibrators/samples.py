"""Logits with everything calibrators derive from them, computed once and shared between methods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Samples:
    """n checked samples of K classes: (n, K) logits, (n,) labels if known, (n,) feature rho if given."""

    logits: FloatArray
    labels: IntArray | None = None
    feature: FloatArray | None = None

    @classmethod
    def checked(cls, logits: ArrayLike, labels: ArrayLike | None = None, feature: ArrayLike | None = None) -> Samples:
        """Validate once; everything behind this call trusts its input."""
        values = validation.matrix("logits", logits)
        n, n_classes = values.shape
        if n_classes < 2:
            raise InvalidInput("logits", "at least two classes (columns)", f"shape {values.shape}")
        return cls(
            values,
            None if labels is None else validation.labels(labels, n_classes, n),
            None if feature is None else validation.vector("feature", feature, n).astype(np.float64, copy=False),
        )

    @property
    def n_samples(self) -> int:
        return int(self.logits.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.logits.shape[1])

    @cached_property
    def top(self) -> IntArray:
        """(n,) predicted class, the first one in a tie."""
        winner: IntArray = self.logits.argmax(axis=1)
        return winner

    @cached_property
    def gaps(self) -> FloatArray:
        """(n, K) d_k = z_top - z_k >= 0: all that a softmax depends on, in coordinates that cannot overflow."""
        return self.logits[np.arange(self.n_samples), self.top][:, np.newaxis] - self.logits

    @cached_property
    def label_gap(self) -> FloatArray:
        """(n,) d_y, the gap of the true class."""
        return self.gaps[np.arange(self.n_samples), self.known_labels]

    @cached_property
    def probabilities(self) -> FloatArray:
        """(n, K) softmax of the logits."""
        return softmax_of_gaps(self.gaps, 1.0)

    @cached_property
    def confidence(self) -> FloatArray:
        """(n,) top probability."""
        return self.probabilities[np.arange(self.n_samples), self.top]

    @cached_property
    def entropy(self) -> FloatArray:
        """(n,) -sum_k p_k log p_k / log K."""
        entropy: FloatArray = -xlogy(self.probabilities, self.probabilities).sum(axis=1) / np.log(self.n_classes)
        return entropy

    @cached_property
    def correct(self) -> BoolArray:
        """(n,) whether the predicted class is the true one."""
        return self.top == self.known_labels

    @property
    def known_labels(self) -> IntArray:
        if self.labels is None:
            raise InvalidInput("labels", "the true classes", "None")
        return self.labels


def softmax_of_gaps(gaps: FloatArray, inverse_temperature: float | FloatArray) -> FloatArray:
    """(n, K) softmax(beta z) from gaps; beta is one number or (n,)."""
    beta = np.asarray(inverse_temperature)
    probabilities: FloatArray = gaps * (-beta if beta.ndim == 0 else -beta[:, np.newaxis])
    np.exp(probabilities, out=probabilities)
    # A product with ones sums short rows several times faster than a reduction along them.
    probabilities /= (probabilities @ np.ones(gaps.shape[1]))[:, np.newaxis]
    return probabilities


def top_probability(gaps: FloatArray, inverse_temperature: float | FloatArray) -> FloatArray:
    """(n,) the largest entry of softmax(beta z) from gaps."""
    beta = np.asarray(inverse_temperature)
    scaled = gaps * (-beta if beta.ndim == 0 else -beta[:, np.newaxis])
    # The top class contributes 1, so only rounding could bring the sum below it.
    top: FloatArray = 1 / np.maximum(np.exp(scaled, out=scaled) @ np.ones(gaps.shape[1]), 1.0)
    return top


def with_top_probability(samples: Samples, target: FloatArray) -> FloatArray:
    """(n, K) softmax with the top probability set to a target and the others rescaled in proportion.

    p_k <- p_k (1 - target) / (1 - c) for k other than the top. Where c rounds to 1 the proportions are taken from the
    logits of the other classes alone.
    """
    rows = np.arange(samples.n_samples)
    others = samples.probabilities.copy()
    others[rows, samples.top] = 0.0
    rest = others.sum(axis=1)
    lost = np.flatnonzero(rest < np.finfo(np.float64).tiny / np.finfo(np.float64).eps)
    if lost.size:
        gaps = samples.gaps[lost].copy()
        gaps[np.arange(lost.size), samples.top[lost]] = np.inf
        others[lost] = np.exp(gaps.min(axis=1, keepdims=True) - gaps)
        rest[lost] = others[lost].sum(axis=1)
    others *= ((1 - target) / rest)[:, np.newaxis]
    others[rows, samples.top] = target
    return others
