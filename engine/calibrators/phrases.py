"""How the summaries of fitted calibrators put a range into words."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def span(values: ArrayLike) -> str:
    """`0.74 to 0.91`, or `0.74` where nothing varies at that precision."""
    numbers = np.asarray(values, dtype=np.float64)
    low, high = (f"{value + 0.0:.2f}".replace("-0.00", "0.00") for value in (numbers.min(), numbers.max()))
    return low if low == high else f"{low} to {high}"
