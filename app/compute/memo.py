"""A memory for long computations that report progress.

Streamlit's own caches replay what was drawn while a function ran, so a function that they hold must not draw: the
progress bar of one viewer would be replayed to another. This one only remembers results.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar, cast

import streamlit as st

Result = TypeVar("Result")
_CAPACITY = 128


@dataclass(eq=False)
class _Turn:
    """A computation under way: who is at it or waits for it, and whether its result is still wanted."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    n_inside: int = 0
    forgotten: bool = False


class Memo:
    """The last results by key, least recently used forgotten first; two viewers never compute one thing twice."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._results: OrderedDict[Hashable, object] = OrderedDict()
        self._turns: dict[Hashable, _Turn] = {}
        self._guard = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """The remembered result, or a computed one."""
        with self._turn(key) as turn:
            with self._guard:
                if key in self._results:
                    self._results.move_to_end(key)
                    return cast(Result, self._results[key])
            result = compute()
            with self._guard:
                if not turn.forgotten:
                    self._results[key] = result
                while len(self._results) > self._capacity:
                    self._results.popitem(last=False)
            return result

    @contextmanager
    def _turn(self, key: Hashable) -> Iterator[_Turn]:
        """One after the other for each key; the last one out, with or without a result, leaves nothing behind."""
        with self._guard:
            turn = self._turns.setdefault(key, _Turn())
            turn.n_inside += 1
        try:
            with turn.lock:
                yield turn
        finally:
            with self._guard:
                turn.n_inside -= 1
                if turn.n_inside == 0:
                    del self._turns[key]

    def find(self, key: Hashable) -> object | None:
        """The remembered result, or None without one."""
        with self._guard:
            if key in self._results:
                self._results.move_to_end(key)
            return self._results.get(key)

    def forget(self, fingerprint: str) -> None:
        """Drop all results of a cache, those under way too; every key holds its fingerprint, mostly in a selection."""
        with self._guard:
            for key in [key for key in self._results if fingerprint in repr(key)]:
                del self._results[key]
            for key, turn in self._turns.items():
                turn.forgotten |= fingerprint in repr(key)


@st.cache_resource(show_spinner=False)
def _memo() -> Memo:
    return Memo()


def remember(key: Hashable, compute: Callable[[], Result]) -> Result:
    """One memory for all viewers of this server."""
    return _memo().get(key, compute)


def forget(fingerprint: str) -> None:
    """Drop what is remembered of a cache."""
    _memo().forget(fingerprint)
