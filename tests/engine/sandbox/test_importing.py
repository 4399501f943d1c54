"""Strangers' files read in a process of their own: the same columns, and overruns end with the child."""

from __future__ import annotations

import io
import json
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.core.errors import InvalidInput, UnknownName
from engine.importing import Limits, read_stream
from engine.sandbox.run import Allowance, LimitExceeded, _believed, read_isolated

RNG = np.random.default_rng(0)


def npz(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def parquet(columns, **options) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, **options)
    return buffer.getvalue()


FILES = {
    "a.npz": npz(
        logits=RNG.normal(size=(50, 4)).astype(np.float32), label=np.arange(50) % 4, name=np.array(["x"] * 50)
    ),
    "a.csv": b"confidence,correct,who\n0.5,1,a\n0.25,0,b\n",
    "a.parquet": parquet({"confidence": RNG.random(30), "entropies": [list(row) for row in RNG.random((30, 3))]}),
}


@pytest.mark.parametrize("name", FILES)
def test_the_same_as_in_this_process(name: str):
    here, there = read_stream(io.BytesIO(FILES[name]), name), read_isolated(FILES[name], name)
    assert there.name == here.name == name
    assert list(there.columns) == list(here.columns)
    for column, values in here.columns.items():
        np.testing.assert_array_equal(there.columns[column], values)
    assert (there.ignored, there.n_bytes, there.fingerprint) == (here.ignored, here.n_bytes, here.fingerprint)


def test_an_open_file(tmp_path):
    (tmp_path / "a.csv").write_bytes(FILES["a.csv"])
    assert read_isolated((tmp_path / "a.csv").open("rb"), "a.csv").columns["confidence"].tolist() == [0.5, 0.25]


def page_header_asking_for_2_gb() -> bytes:
    """The first page's header (thrift: 15 <type> 15 <unpacked size>) claims 2^31 - 1 bytes; the footer does not."""
    raw = bytearray(parquet({"confidence": np.zeros(5000)}, compression="zstd", use_dictionary=False))
    assert raw[4:7] == b"\x15\x00\x15"
    end = 7
    while raw[end] & 0x80:
        end += 1
    raw[7 : end + 1] = b"\xfe\xff\xff\xff\x0f"
    return bytes(raw)


def test_a_page_that_asks_for_2_gb():
    with pytest.raises((InvalidInput, LimitExceeded)):
        read_isolated(page_header_asking_for_2_gb(), "a.parquet")


def test_refusals_keep_their_reason():
    with pytest.raises(InvalidInput, match=r"a\.csv: expected at most 10 rows, got 11"):
        read_isolated(b"a\n" + b"1\n" * 11, "a.csv", Limits(max_rows=10))
    with pytest.raises(UnknownName, match=r"\.parquet, \.csv, \.npz"):
        read_isolated(b"1", "a.pkl")
    with pytest.raises(InvalidInput, match=r"at most 0\.0 MB"):
        read_isolated(b"a\n1\n", "a.csv", Limits(max_bytes=3))


def test_a_file_that_takes_too_long_is_given_up():
    start = time.monotonic()
    with pytest.raises(LimitExceeded):
        read_isolated(FILES["a.npz"], "a.npz", allowance=Allowance(1 << 30, 1, 0.2, 1 << 20))
    assert time.monotonic() - start < 60


def answer(head, **arrays) -> io.BytesIO:
    buffer = io.BytesIO()
    np.savez(buffer, head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
    buffer.seek(0)
    return buffer


HEAD = {"name": "a.csv", "columns": ["a"], "ignored": {}, "n_bytes": 3, "fingerprint": "f"}
LIES = {
    "no zip": io.BytesIO(b"x" * 100),
    "no head": io.BytesIO(npz(**{"0": np.zeros(3)})),
    "objects": io.BytesIO(npz(head=np.array([None]))),
    "no column": answer(HEAD),
    "markup": answer(HEAD | {"columns": ["<script>"]}, **{"0": np.zeros(3)}),
    "markup in the name": answer(HEAD | {"name": "<b>"}, **{"0": np.zeros(3)}),
    "markup in what is left out": answer(HEAD | {"ignored": {"<b>": "x"}}, **{"0": np.zeros(3)}),
    "one name twice": answer(HEAD | {"columns": ["a", "a"]}, **{"0": np.zeros(3), "1": np.zeros(3)}),
    "a list": answer([1, 2]),
}


@pytest.mark.parametrize("kind", LIES)
def test_a_child_that_was_taken_over_is_not_believed(kind: str):
    with pytest.raises(LimitExceeded, match="could not be used"):
        _believed(LIES[kind])
