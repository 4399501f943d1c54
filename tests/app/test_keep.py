"""Results are computed once, remembered, and forgotten in order; a failure is not remembered."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from app.compute.keep import Key, Memo, forget, keep

KEY = Key("cache", "result")


def test_computes_once_and_forgets_the_oldest():
    memo, calls = Memo(capacity=2), []

    def compute(value: str) -> str:
        calls.append(value)
        return value

    for key in ("a", "a", "b", "a", "c", "a", "b"):
        assert memo.get(Key("cache", key), lambda key=key: compute(key)) == key
    assert calls == ["a", "b", "c", "b"]  # b was the least recently used when c came


def test_a_failure_is_raised_and_tried_again():
    memo = Memo(8)
    with pytest.raises(ValueError, match="once"):
        memo.get(KEY, lambda: (_ for _ in ()).throw(ValueError("once")))
    assert memo.get(KEY, lambda: 7) == 7


def test_two_viewers_do_not_compute_the_same_thing_at_once():
    memo, calls, gate = Memo(8), [], threading.Event()

    def slow() -> int:
        calls.append(1)
        gate.wait(60)
        return 3

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(memo.get(KEY, slow))) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(60)
    assert found == [3, 3, 3, 3]
    assert calls == [1]


def test_a_failure_leaves_nothing_behind():
    memo = Memo(8)
    for number in range(3):
        with pytest.raises(ValueError, match="once"):
            memo.get(Key("cache", number), lambda: (_ for _ in ()).throw(ValueError("once")))
    assert memo._turns == {}


def test_what_is_forgotten_while_it_is_computed_is_not_kept():
    memo = Memo(8)

    def compute() -> int:
        memo.forget("gone-cache")
        return 7

    assert memo.get(Key("gone-cache", "result"), compute) == 7
    assert memo.find(Key("gone-cache", "result")) is None
    assert memo.get(KEY, compute) == 7
    assert memo.find(KEY) == 7
    assert memo._turns == {}


@dataclass(frozen=True)
class Named:
    """Stands in for a cache."""

    kept_by: str


def test_a_fingerprint_is_compared_and_not_looked_for_in_text():
    memo = Memo(8)
    memo.get(Key("cache-10", "result"), lambda: 1)
    memo.get(Key("other", ("slice of cache-1",)), lambda: 2)
    memo.forget("cache-1")
    assert (memo.find(Key("cache-10", "result")), memo.find(Key("other", ("slice of cache-1",)))) == (1, 2)


def test_results_are_kept_by_cache_and_arguments_and_forgotten_by_cache():
    calls = []

    @keep(max_entries=8)
    def sum_of(cache: Named, number: int = 1) -> tuple[str, int]:
        calls.append((cache.kept_by, number))
        return cache.kept_by, number

    mine, theirs = Named("mine"), Named("theirs")
    assert [sum_of(mine), sum_of(mine, 1), sum_of(mine, number=1)] == [("mine", 1)] * 3
    assert (sum_of(theirs), sum_of(mine, 2)) == (("theirs", 1), ("mine", 2))
    assert calls == [("mine", 1), ("theirs", 1), ("mine", 2)]
    forget("mine")
    sum_of(theirs)
    sum_of(mine)
    assert calls[3:] == [("mine", 1)]


def test_by_says_what_a_result_depends_on():
    @keep(max_entries=8, by=lambda _cache, numbers: len(numbers))
    def first(cache: Named, numbers: list[int]) -> int:  # noqa: ARG001
        return numbers[0]

    assert (first(Named("by"), [1]), first(Named("by"), [2]), first(Named("by"), [3, 4])) == (1, 1, 3)
