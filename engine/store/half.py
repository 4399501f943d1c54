"""Logits of many classes in half precision, in steps of 1/256 and more: in full they would be most of a cache's bytes.

Confidence, prediction and correctness are those of the logits before rounding: the confidence is kept beside them,
and the rounded logits have the same argmax.
"""

import numpy as np
from numpy.typing import NDArray

MANY_CLASSES = 50
STEP = 2.0**-8
"""That of half precision between 4 and 8. A finer one for smaller logits says nothing more about probabilities."""
LARGEST = 64.0
"""Above this a step of half precision is a sixteenth and more: such logits stay in single precision."""

Float32Array = NDArray[np.float32]


def is_half(logits: NDArray[np.floating]) -> bool:
    """Whether logits (n, K) are of many classes and half precision holds each of them exactly."""
    with np.errstate(over="ignore"):
        return logits.shape[1] >= MANY_CLASSES and bool((logits == logits.astype(np.float16)).all())


def rounded(logits: Float32Array) -> Float32Array:
    """The nearest multiples of 1/256 that half precision holds, where the classes are many and no logit is large.

    Rounding never changes an order, but it may tie the largest logit with an earlier one; then it goes one step up.
    """
    if logits.shape[1] < MANY_CLASSES or np.abs(logits).max() > LARGEST:
        return logits
    half, predicted = (np.round(logits / STEP) * STEP).astype(np.float16), logits.argmax(axis=1)
    rows = np.flatnonzero(half.argmax(axis=1) != predicted)
    tied = half[rows, predicted[rows]]
    half[rows, predicted[rows]] = np.maximum(tied + np.float16(STEP), np.nextafter(tied, np.float16(np.inf)))
    return half.astype(np.float32)


def in_steps(halves: NDArray[np.float16]) -> NDArray[np.uint16] | None:
    """The same numbers counted in steps of 1/256 from -128, which compress by a tenth more; None where one is none."""
    steps = halves.astype(np.float32) / STEP + 2**15
    within = (steps >= 0) & (steps < 2**16)  # false for NaN as well
    return steps.astype(np.uint16) if (within & (steps == np.round(steps))).all() else None


def from_steps(steps: NDArray[np.uint16]) -> NDArray[np.float16]:
    """The inverse of `in_steps`."""
    return ((steps.astype(np.float32) - 2**15) * np.float32(STEP)).astype(np.float16)


def log_slack(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """(n,) how far log c may be from that of the rounded logits: 2^-7 + 2^-9 max_k |z_k|.

    |dz_k| <= 2^-9 + 2^-11 |z_k|, for the predicted class one step of 2^-8 or 2^-10 |z_k| more, and log c moves by no
    more than the largest of these and that of the predicted class together.
    """
    return 2.0**-7 + 2.0**-9 * np.abs(logits).max(axis=1).astype(np.float64)
