"""Results are computed once, remembered, and forgotten in order; a failure is not remembered."""

from __future__ import annotations

import threading

import pytest

from app.compute.memo import Memo


def test_computes_once_and_forgets_the_oldest():
    memo, calls = Memo(capacity=2), []

    def compute(value: str) -> str:
        calls.append(value)
        return value

    for key in ("a", "a", "b", "a", "c", "a", "b"):
        assert memo.get(key, lambda key=key: compute(key)) == key
    assert calls == ["a", "b", "c", "b"]  # b was the least recently used when c came


def test_a_failure_is_raised_and_tried_again():
    memo = Memo()
    with pytest.raises(ValueError, match="once"):
        memo.get("key", lambda: (_ for _ in ()).throw(ValueError("once")))
    assert memo.get("key", lambda: 7) == 7


def test_two_viewers_do_not_compute_the_same_thing_at_once():
    memo, calls, gate = Memo(), [], threading.Event()

    def slow() -> int:
        calls.append(1)
        gate.wait(5)
        return 3

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(memo.get("key", slow))) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(5)
    assert found == [3, 3, 3, 3]
    assert calls == [1]


def test_a_failure_leaves_nothing_behind():
    memo = Memo()
    for number in range(3):
        with pytest.raises(ValueError, match="once"):
            memo.get(number, lambda: (_ for _ in ()).throw(ValueError("once")))
    assert memo._turns == {}


def test_what_is_forgotten_while_it_is_computed_is_not_kept():
    memo = Memo()

    def compute() -> int:
        memo.forget("gone-cache")
        return 7

    assert memo.get(("result", "gone-cache"), compute) == 7
    assert memo.find(("result", "gone-cache")) is None
    assert memo.get(("result", "cache"), compute) == 7
    assert memo.find(("result", "cache")) == 7
    assert memo._turns == {}
