"""Logits of many classes in half precision: in single precision they would be nine tenths of a cache's bytes.

Confidence, prediction and correctness are those of the logits before rounding: the confidence is kept beside them,
and the rounded logits have the same argmax.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MANY_CLASSES = 50
LARGEST = 64.0
"""Above this a step of half precision is a sixteenth and more: such logits stay in single precision."""

Float32Array = NDArray[np.float32]


def is_half(logits: NDArray[np.floating]) -> bool:
    """Whether logits (n, K) are of many classes and half precision holds each of them exactly."""
    with np.errstate(over="ignore"):
        return logits.shape[1] >= MANY_CLASSES and bool((logits == logits.astype(np.float16)).all())


def rounded(logits: Float32Array) -> Float32Array:
    """The nearest half-precision numbers, where the classes are many and no logit is large; else the logits as given.

    Rounding never changes an order, but it may tie the largest logit with an earlier one; then it goes one step up.
    """
    if logits.shape[1] < MANY_CLASSES or np.abs(logits).max() > LARGEST:
        return logits
    half, predicted = logits.astype(np.float16), logits.argmax(axis=1)
    tied = np.flatnonzero(half.argmax(axis=1) != predicted)
    half[tied, predicted[tied]] = np.nextafter(half[tied, predicted[tied]], np.float16(np.inf))
    return half.astype(np.float32)


def log_slack(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """(n,) how far log c may be from that of the rounded logits.

    |dz_k| <= 2^-11 |z_k|, and for the predicted class one step of 2^-10 |z_k| more, so |d log c| <= 2^-9 max_k |z_k|.
    """
    return 2.0**-9 * np.abs(logits).max(axis=1).astype(np.float64) + 1e-6
