"""Logits of many classes are kept in half precision; all that is read off them stays as it was before rounding."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from engine.core.errors import CorruptShard, InvalidInput
from engine.store import half, open_cache, publish, read_shard, verify_shard, write_shard
from engine.store.record import top_probability

CLASSES, N = 60, 400


@pytest.fixture
def logits():
    return (np.random.default_rng(0).normal(size=(N, CLASSES)) * 4).astype(np.float32)


@pytest.fixture
def record(make_record, logits):
    return make_record(n=N, logits=logits, labels=logits.argmax(axis=1), extra={})


def test_confidence_and_correctness_are_those_before_rounding(record, logits):
    np.testing.assert_array_equal(record.confidence, top_probability(logits))
    assert record.correct.all()
    assert np.array_equal(record.logits.argmax(axis=1), record.predictions)
    assert not np.array_equal(record.logits, logits)
    np.testing.assert_allclose(record.logits, logits, rtol=2**-9, atol=2**-8)


def test_a_shard_holds_halves_and_gives_the_same_record_back(tmp_path, record):
    path = write_shard(record, tmp_path)
    schema = pq.read_schema(path)
    assert str(schema.field("logits").type) == f"fixed_size_list<element: uint16>[{CLASSES}]"
    assert str(schema.field("confidence").type) == "double"
    for again in (read_shard(path), verify_shard(path)):
        np.testing.assert_array_equal(again.logits, record.logits)
        np.testing.assert_array_equal(again.confidence, record.confidence)
        np.testing.assert_array_equal(again.correct, record.correct)
    publish(tmp_path, tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        np.testing.assert_array_equal(cache.load(record.run_id).confidence, record.confidence)


def test_finer_halves_and_those_of_an_older_shard_are_kept_as_they_are(tmp_path, make_record, monkeypatch):
    """1/1024 is no whole number of steps; and a zero with a sign reads back as zero."""
    logits = np.zeros((N, CLASSES), dtype=np.float32)
    logits[:, 3], logits[:, 5] = 1.0, -0.0
    record = make_record(n=N, logits=logits, labels=np.zeros(N, dtype=int), extra={})
    np.testing.assert_array_equal(read_shard(write_shard(record, tmp_path)).logits, logits)
    assert half.in_steps(np.array([[2.0**-10, 1.0]], dtype=np.float16)) is None
    assert half.in_steps(np.array([[np.nan, 1.0]], dtype=np.float16)) is None
    monkeypatch.setattr(half, "in_steps", lambda _: None)
    path = write_shard(record, tmp_path)
    assert "halffloat" in str(pq.read_schema(path).field("logits").type)
    np.testing.assert_array_equal(read_shard(path).logits, logits)


def test_rounding_never_moves_the_prediction():
    """Of two logits that are one number after rounding, the later and larger one stays the prediction."""
    largest = np.array([2.0, -2.0, 30.0, -30.0, 0.0], dtype=np.float32)
    tied = np.tile(largest[:, None] - 5, (1, CLASSES))
    tied[:, 3] = largest
    tied[:, 7] = largest + 1e-4
    kept = half.rounded(tied)
    assert kept.argmax(axis=1).tolist() == [7] * 5
    assert half.is_half(kept)
    np.testing.assert_array_equal(half.rounded(kept), kept)


@pytest.mark.parametrize(("classes", "scale"), [(49, 4), (60, 60)])
def test_few_classes_and_large_logits_stay_in_single_precision(make_record, tmp_path, classes, scale):
    logits = np.random.default_rng(1).normal(size=(N, classes)) * scale
    record = make_record(n=N, logits=logits, labels=np.zeros(N, dtype=int), extra={})
    np.testing.assert_array_equal(record.logits, logits.astype(np.float32))
    np.testing.assert_array_equal(verify_shard(write_shard(record, tmp_path)).logits, record.logits)


@pytest.mark.parametrize("factor", [0.9, 0.0])
def test_a_confidence_beyond_rounding_is_refused(record, make_record, factor):
    with pytest.raises(InvalidInput, match="confidence"):
        make_record(n=N, logits=record.logits, labels=record.labels, extra={}, confidence=record.confidence * factor)


def test_confidence_beside_logits_that_are_no_halves_is_refused(make_record, logits):
    with pytest.raises(InvalidInput, match="derived"):
        make_record(n=N, logits=logits, labels=np.zeros(N, dtype=int), extra={}, confidence=top_probability(logits))


def test_halves_compress(tmp_path, make_record):
    n, wide = 5_000, 100
    rng = np.random.default_rng(0)
    record = make_record(n=n, logits=rng.normal(size=(n, wide)) * 2, labels=rng.integers(0, wide, n), extra={})
    assert write_shard(record, tmp_path).stat().st_size < 1.7 * n * wide


def test_verify_finds_a_confidence_that_was_changed(tmp_path, record):
    object.__setattr__(record, "confidence", record.confidence * 0.9)
    with pytest.raises(CorruptShard, match="confidence"):
        verify_shard(write_shard(record, tmp_path))
