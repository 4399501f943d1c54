"""Linear algebra on one thread, and independent pieces of work on several.

The matrix products here take milliseconds. Split over threads they gain little on an idle machine, and on a busy one a
thread that waits its turn holds up the others: a product of 13 ms was seen to take 330 ms. One thread also gives the
same bytes whatever the number of cores.
"""

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import numpy as np  # noqa: F401  (both libraries must be loaded before the controller looks for them)
import scipy.linalg  # noqa: F401
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Item = TypeVar("Item")
Result = TypeVar("Result")


@lru_cache
def keep_blas_to_one_thread() -> None:
    """Limit BLAS for the rest of the process, on the first call.

    For good, not for a while: OpenBLAS has one limit per process, so threads that set and lift it would undo each
    other's.
    """
    ThreadpoolController().limit(limits=1, user_api="blas")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], n_threads: int = 2) -> Generator[Result]:
    """work(item) for each item, in order, several at a time: sorting and products leave Python's lock.

    No more than one result ahead of each thread is made, so that whoever stops listening leaves little to finish.
    """
    threads = max(1, min(n_threads, os.cpu_count() or 1))
    pool = ThreadPoolExecutor(threads, thread_name_prefix="side-by-side")
    try:
        waiting = [pool.submit(work, item) for item in items[: 2 * threads]]
        for position in range(len(items)):
            yield waiting.pop(0).result()
            if position + 2 * threads < len(items):
                waiting.append(pool.submit(work, items[position + 2 * threads]))
    finally:
        pool.shutdown(cancel_futures=True)
