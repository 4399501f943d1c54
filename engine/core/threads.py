"""Linear algebra on one thread.

The matrix products here take milliseconds. Split over threads they gain little on an idle machine, and on a busy one a
thread that waits its turn holds up the others: a product of 13 ms was seen to take 330 ms. One thread also gives the
same bytes whatever the number of cores.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np  # noqa: F401  (both libraries must be loaded before the controller looks for them)
import scipy.linalg  # noqa: F401
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


@lru_cache
def keep_blas_to_one_thread() -> None:
    """Limit BLAS for the rest of the process, on the first call.

    For good, not for a while: OpenBLAS has one limit per process, so threads that set and lift it would undo each
    other's.
    """
    ThreadpoolController().limit(limits=1, user_api="blas")
