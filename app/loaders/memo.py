"""A memory for long computations that report progress.

Streamlit's own caches replay what was drawn while a function ran, so a function that they hold must not draw: the
progress bar of one viewer would be replayed to another. This one only remembers results.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

import streamlit as st

Result = TypeVar("Result")
_CAPACITY = 128


class Memo:
    """The last results by key, least recently used forgotten first; two viewers never compute one thing twice."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._results: OrderedDict[Hashable, object] = OrderedDict()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._guard = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """The remembered result, or a computed one."""
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            with self._guard:
                if key in self._results:
                    self._results.move_to_end(key)
                    return cast(Result, self._results[key])
            result = compute()
            with self._guard:
                self._results[key] = result
                while len(self._results) > self._capacity:
                    forgotten, _ = self._results.popitem(last=False)
                    self._locks.pop(forgotten, None)
            return result

    def find(self, key: Hashable) -> object | None:
        """The remembered result, or None without one."""
        with self._guard:
            if key in self._results:
                self._results.move_to_end(key)
            return self._results.get(key)

    def forget(self, fingerprint: str) -> None:
        """Drop all results of a cache; every key carries its fingerprint, mostly inside a selection."""
        with self._guard:
            for key in [key for key in self._results if fingerprint in repr(key)]:
                del self._results[key]
                self._locks.pop(key, None)


@st.cache_resource(show_spinner=False)
def _memo() -> Memo:
    return Memo()


def remember(key: Hashable, compute: Callable[[], Result]) -> Result:
    """One memory for all viewers of this server."""
    return _memo().get(key, compute)


def forget(fingerprint: str) -> None:
    """Drop what is remembered of a cache."""
    _memo().forget(fingerprint)
