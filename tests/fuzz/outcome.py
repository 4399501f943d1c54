"""What a public function may do with whatever it is given: raise a typed error, or return finite numbers. Nothing else.

While it works it is watched: a warning, an allocation beyond the allowance, a run beyond the time limit, and a change
of its arguments are findings like any other exception.
"""

from __future__ import annotations

import dataclasses
import math
import resource
import signal
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import InvalidInput, RouteCalError

SECONDS = 10
MEMORY_BYTES = 3 << 30
"""Of address space. An allocator may reserve a gigabyte at a time; what is looked for is a hundred of them."""
_PAGE = resource.getpagesize()


class TooSlow(AssertionError):
    """A call that did not come back."""


@contextmanager
def watched(seconds: int = SECONDS, memory_bytes: int = MEMORY_BYTES) -> Iterator[None]:
    """Warnings raise, as do allocations beyond `memory_bytes` more than now, and `TooSlow` after `seconds`."""

    def ring(_number: int, _frame: object) -> None:
        raise TooSlow(f"no answer after {seconds} seconds")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    alarmed = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGALRM, ring) if alarmed else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            resource.setrlimit(resource.RLIMIT_AS, (held + memory_bytes, hard))
            if alarmed:
                signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            if alarmed:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, previous)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def sound(
    work: Callable[[], object],
    arguments: Mapping[str, object],
    *,
    named: Collection[str] = (),
    missing: Collection[str] = (),
) -> None:
    """Run `work`, which uses `arguments`: a typed error that names an argument, or finite results.

    named : what an `InvalidInput` may call the culprit. missing : fields and columns where NaN has a meaning.
    """
    before = snapshot(arguments)
    try:
        with watched():
            result = work()
            problems = list(faults(result, frozenset(missing)))
    except RouteCalError as error:
        assert str(error).strip(), "an error without a message"  # noqa: PT017
        if isinstance(error, InvalidInput) and named:
            root = error.argument.partition("[")[0].partition(".")[0]
            assert root in named, f"the error blames {error.argument!r}, which is no argument: {error}"  # noqa: PT017
    else:
        assert not problems, "; ".join(problems)
    assert snapshot(arguments) == before, "an argument was changed in place"


def snapshot(value: object) -> object:
    """A value that stays equal for as long as nobody writes into it."""
    if isinstance(value, np.ma.MaskedArray):
        return (value.data.tobytes(), np.ma.getmaskarray(value).tobytes())
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, pd.Series):
        return snapshot(value.to_numpy())
    if isinstance(value, pd.DataFrame):
        return tuple((str(column), snapshot(value[column].to_numpy())) for column in value)
    if isinstance(value, Mapping):
        return tuple((repr(key), snapshot(entry)) for key, entry in value.items())
    if isinstance(value, list | tuple):
        return tuple(snapshot(entry) for entry in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(snapshot(getattr(value, field.name)) for field in dataclasses.fields(value))
    return repr(value)


def faults(value: object, missing: frozenset[str], where: str = "result") -> Iterator[str]:
    """Every number in a result that is not finite, with its place; properties of a result are read as well.

    Infinity is never right. NaN is, in the fields and columns named in `missing`, which say "there is no such number".
    """
    field = where.rpartition(".")[2]
    if isinstance(value, bool | np.bool_ | str | bytes) or value is None:
        return
    if isinstance(value, complex | np.complexfloating):
        yield f"{where} is complex"
    elif isinstance(value, Real):
        if math.isinf(value) or (math.isnan(value) and field not in missing):
            yield f"{where} is {value}"
    elif isinstance(value, np.ndarray):
        yield from _array_faults(value, field in missing, where)
    elif isinstance(value, pd.Series):
        yield from faults(value.to_numpy(), missing, where)
    elif isinstance(value, pd.DataFrame):
        for column in value:
            yield from faults(value[column].to_numpy(), missing, f"{where}.{column}")
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from faults(entry, missing, f"{where}.{key}")
    elif isinstance(value, tuple | list | set | frozenset):
        for entry in value:
            yield from faults(entry, missing, where)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name in _readable(value):
            yield from faults(getattr(value, name), missing, f"{where}.{name}")


def _array_faults(value: np.ndarray, may_miss: bool, where: str) -> Iterator[str]:
    if value.dtype.kind == "O":
        # A missing number of an optional column may come as None, NaN or NA; text passes.
        numbers = [entry for entry in value.ravel() if isinstance(entry, Real) and not isinstance(entry, bool)]
        value = np.array(numbers, dtype=float)
    if value.dtype.kind == "c":
        yield f"{where} is complex"
    if value.dtype.kind != "f":
        return
    if np.isinf(value).any():
        yield f"{where} holds an infinity"
    if not may_miss and np.isnan(value).any():
        yield f"{where} holds NaN"


def _readable(value: Any) -> list[str]:
    """Fields and public properties of a result."""
    kind = type(value)
    derived = [
        name
        for name in dir(kind)
        if not name.startswith("_") and isinstance(getattr(kind, name), property | cached_property)
    ]
    return [*(field.name for field in dataclasses.fields(value)), *derived]
