"""The one 50/50 split that everything fitted shares, so that probes and calibrators are judged on the same samples."""

import numpy as np

from engine.core import validation
from engine.core.types import IntArray

SPLIT_SEED = 42


def split(n: int, seed: int = SPLIT_SEED) -> tuple[IntArray, IntArray]:
    """Rows to fit on and rows to evaluate on: `default_rng(seed).permutation(n)`, cut after the first n // 2.

    An odd n gives the evaluated half one sample more.
    """
    validation.whole("n", n, 2, validation.MOST_SAMPLES)
    validation.seed(seed)
    order = np.random.default_rng(seed).permutation(n)
    return order[: n // 2], order[n // 2 :]
