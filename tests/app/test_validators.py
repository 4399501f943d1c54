"""Two viewers who draw their first figures at the same moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from _plotly_utils import basevalidators
from plotly import validator_cache

import app.plots  # noqa: F401  (guards the validators)


class _Slow:
    """Plotly's classes of validators; whoever asks for one first is held up until somebody else has asked too."""

    def __init__(self) -> None:
        self._others = threading.Event()
        self.first = threading.Event()

    def __getattr__(self, name: str) -> Any:
        if self.first.is_set():
            self._others.set()
        else:
            self.first.set()
            self._others.wait(0.5)  # in vain where threads go one after the other
        return getattr(basevalidators, name)


def test_axes_first_drawn_at_the_same_moment_keep_their_names(monkeypatch: pytest.MonkeyPatch):
    slow, get = _Slow(), validator_cache.ValidatorCache.get_validator
    monkeypatch.setattr(validator_cache, "basevalidators", slow)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(get, "layout", "xaxis71")
        assert slow.first.wait(60)
        other = pool.submit(get, "layout", "xaxis72")
    assert (one.result().plotly_name, other.result().plotly_name) == ("xaxis71", "xaxis72")
    assert get("layout", "xaxis71") is one.result()
