"""What is computed once and kept for all viewers, by the cache that it comes from.

Streamlit's own caches replay what was drawn while a function ran, so the progress bar of one viewer would be drawn for
another. This memory only holds results. What comes from a viewer's own data is dropped with that data: nobody else can
have its fingerprint, and `forget` finds it by that.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import NamedTuple, ParamSpec, TypeVar, cast
from weakref import WeakSet

import streamlit as st

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Key(NamedTuple):
    """A result: of which cache, and which of its results."""

    fingerprint: str
    what: Hashable


@dataclass(eq=False)
class _Turn:
    """A computation under way: who is at it or waits for it, and whether its result is still wanted."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    n_inside: int = 0
    forgotten: bool = False


class Memo:
    """The last results by key, least recently used forgotten first; two viewers never compute one thing twice."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: OrderedDict[Key, object] = OrderedDict()
        self._turns: dict[Key, _Turn] = {}
        self._guard = threading.Lock()

    def get(self, key: Key, compute: Callable[[], Result]) -> Result:
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
    def _turn(self, key: Key) -> Iterator[_Turn]:
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

    def find(self, key: Key) -> object | None:
        """The remembered result, or None without one."""
        with self._guard:
            if key in self._results:
                self._results.move_to_end(key)
            return self._results.get(key)

    def forget(self, fingerprint: str) -> None:
        """Drop all results of a cache, those under way too."""
        with self._guard:
            for key in [key for key in self._results if key.fingerprint == fingerprint]:
                del self._results[key]
            for key, turn in self._turns.items():
                turn.forgotten |= key.fingerprint == fingerprint


_MEMOS: WeakSet[Memo] = WeakSet()
"""Those of all kept functions; when Streamlit loads a changed module again, the old ones go with it."""


def keep(
    *, max_entries: int, by: Callable[..., Hashable] | None = None, spinner: str = ""
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Keep the results of a function whose first argument is a cache or a view.

    by : takes the same arguments and says what the result depends on besides the cache, where that is not all
        arguments after the first.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        memo, parameters = Memo(max_entries), signature(function)
        _MEMOS.add(memo)

        @wraps(function)
        def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            bound = parameters.bind(*arguments, **named)
            bound.apply_defaults()
            first, *others = bound.arguments.values()
            key = Key(first.kept_by, tuple(others) if by is None else by(first, *others))

            def compute() -> Result:
                with st.spinner(spinner) if spinner else nullcontext():
                    return function(*arguments, **named)

            return memo.get(key, compute)

        return call

    return decorate


def forget(fingerprint: str) -> None:
    """Drop what is kept of a cache."""
    for memo in list(_MEMOS):
        memo.forget(fingerprint)
