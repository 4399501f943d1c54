"""Plotly's validators, made by one thread at a time.

Plotly makes the validator of a property when it is first used. All x axes share one set of parameters, into which it
writes the name of the axis just before it reads them: two threads that first draw `xaxis` and `xaxis2` at the same
moment can leave `xaxis` with the validator of `xaxis2`. That one is kept, and every figure with an axis then fails
until the server is started again.
"""

import threading
from typing import Any

from plotly.validator_cache import ValidatorCache

_guard = threading.RLock()  # a validator may ask for another one while it is made
_make = ValidatorCache.get_validator


def _get_validator(parent_path: str, prop_name: str) -> Any:
    """The validator of a property: a kept one without waiting, a new one under the lock."""
    found = ValidatorCache._cache.get((parent_path, prop_name))
    if found is not None:
        return found
    with _guard:
        return _make(parent_path, prop_name)


def guard_validators() -> None:
    """Once per process, before the first figure."""
    ValidatorCache.get_validator = staticmethod(_get_validator)
