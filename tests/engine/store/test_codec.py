"""Results as text: bit by bit the same, and nothing else than what the reader expects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

from engine.core.types import BEHIND, FloatArray, IntArray, NotRead
from engine.store.codec import Unreadable, decode, encode


@dataclass(frozen=True, eq=False)
class Inner:
    kind: Literal["a", "b"]
    values: FloatArray


@dataclass(frozen=True, eq=False)
class Outer:
    inner: Inner | None
    pairs: Mapping[tuple[str, str], float | None]
    several: tuple[Inner, ...]
    counts: IntArray
    table: pd.DataFrame
    number: float
    draws: FloatArray = field(metadata=BEHIND, default_factory=lambda: np.ones(3))


ODD = [0.1, -0.0, 5e-324, 1.7976931348623157e308, np.nan, np.inf, -np.inf, 1 / 3]
TABLE = pd.DataFrame(
    {
        "row": [f"r{number}" for number in range(8)],
        "odd": ODD,
        "whole": pd.array([1, None, *range(6)], dtype="Int64"),
        "text": ["<&\"'", *"abcdefg"],
        "missing": pd.Series([None, *"abcdefg"], dtype="str"),
        "mixed": pd.Series([None, np.nan, 0.5, "x", True, 3, np.array([0.1, 0.2], np.float32), 1.0], dtype=object),
    }
).set_index("row")


def outer() -> Outer:
    inner = Inner("b", np.array([ODD, ODD]))
    pairs = {("a", "b"): None, ("c", "d"): np.float64(0.1)}
    return Outer(inner, pairs, (inner, Inner("a", np.empty((0, 3), np.float32))), np.arange(4), TABLE, np.nan)


def test_what_is_read_is_what_was_written():
    given, read = outer(), decode(encode(outer()), Outer)
    assert encode(read) == encode(given)
    assert read.inner is not None
    assert given.inner is not None
    assert read.inner.values.tobytes() == given.inner.values.tobytes()
    assert (read.several[1].values.shape, read.several[1].values.dtype) == ((0, 3), np.float32)
    assert read.counts.dtype == np.int64
    assert read.pairs == given.pairs
    plain = [name for name in TABLE if name != "mixed"]
    pd.testing.assert_frame_equal(read.table[plain], given.table[plain], check_exact=True)
    assert read.table["mixed"].iloc[0] is None
    assert read.draws is NotRead


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, each in inside for deeper in places(each, (*path, key)))]


HOSTILE: tuple[Any, ...] = ({}, [], "os.system", True, -1, 1e400, {"float": "0x"}, {"array": "object", "values": []})


def test_whatever_is_put_in_any_place_is_refused_or_of_the_expected_type():
    """Every single place of the text, with every kind of value that does not belong there."""
    text = encode(outer())
    for path in places(json.loads(text)):
        for wrong in HOSTILE:
            spoilt = [json.loads(text)]
            at: Any = spoilt
            for key in (0, *path)[:-1]:
                at = at[key]
            at[(0, *path)[-1]] = wrong
            try:
                read = decode(json.dumps(spoilt[0]), Outer)
            except Unreadable:
                continue
            assert type(read) is Outer
            assert read.inner is None or type(read.inner) is Inner
            assert isinstance(read.counts, np.ndarray)
            assert isinstance(read.table, pd.DataFrame)
            assert type(read.number) in (float, int)


@pytest.mark.parametrize("text", ["", "{", "null", "[" * 5000, '{"inner":null}', '"\\ud800"', "1" * 5000])
def test_other_texts_are_refused(text: str):
    with pytest.raises(Unreadable):
        decode(text, Outer)


def test_what_cannot_be_read_back_is_not_written():
    for value in (object(), {1, 2}, np.array([object()]), pd.DataFrame({"when": pd.to_datetime(["2026-01-01"])})):
        with pytest.raises(TypeError):
            encode(value)
