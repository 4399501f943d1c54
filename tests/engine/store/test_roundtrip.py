"""What goes into a shard comes out of the shard, and of the published cache, bit for bit."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InvalidInput
from engine.core.types import COLUMNS, WITHOUT_LOGITS
from engine.features import FEATURES, CustomFeature, columns_of, feature
from engine.store import open_cache, publish, read_shard, verify_shard, write_shard


def assert_same(left, right):
    for entry in fields(left):
        one, other = getattr(left, entry.name), getattr(right, entry.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype, entry.name
            np.testing.assert_array_equal(one, other, strict=True)
        elif isinstance(one, pd.DataFrame):
            pd.testing.assert_frame_equal(one, other)
        elif entry.name == "extra":
            assert list(one) == list(other)
            for name in one:
                np.testing.assert_array_equal(one[name], other[name], strict=True)
        else:
            assert one == other, entry.name


CASES = {
    "everything": ("full", {}),
    "no extra columns": ("full", {"extra": {}, "epoch_metrics": None}),
    "no profile": ("full", {"entropies": None, "layers": (), "epochs": None}),
    "one sample": ("full", {"n": 1}),
    "no logits": ("plain", {}),
    "no logits but classes": (
        "plain",
        {"correct": None, "labels": np.arange(60) % 3, "predictions": np.arange(60) % 2, "n_classes": 3},
    ),
    "clusters, and how the routing was read": (
        "full",
        {"clusters": [f"sequence {i // 7:02}" for i in range(60)], "capture": {"tap": "softmax", "axis": 0}},
    ),
    "no logits but a profile": ("plain", {"entropies": np.full((60, 2), 0.25)}),
}


@pytest.mark.parametrize("case", CASES)
def test_round_trip(case, tmp_path, make_record, make_plain_record):
    kind, changes = CASES[case]
    record = (make_record if kind == "full" else make_plain_record)(**changes)
    path = write_shard(record, tmp_path / "shards")
    assert path == tmp_path / "shards" / f"{record.run_id}.parquet"
    assert_same(read_shard(path), record)
    assert_same(verify_shard(path), record)

    report = publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    assert (report.n_runs, report.n_samples, report.changed) == (1, record.n_samples, True)
    with open_cache(tmp_path / "cache.duckdb") as cache:
        assert_same(cache.load(record.run_id), record.data())
        row = cache.runs().iloc[0]
        assert row["accuracy"] == record.accuracy == record.correct.mean()
        assert row["n_samples"] == record.n_samples
        assert row["n_layers"] == record.n_layers
        assert bool(row["has_logits"]) == (record.logits is not None)
        assert tuple(row["extra_names"]) == record.extra_names
        assert json.loads(row["capture"]) == record.capture
        assert row["created_at"] == pd.Timestamp(record.created_at)
        assert cache.layers(record.run_id)["name"].tolist() == [layer.name for layer in record.layers]
        pd.testing.assert_frame_equal(cache.epochs(record.run_id), record.epochs, check_dtype=False)
        pd.testing.assert_frame_equal(cache.epoch_metrics(record.run_id), record.epoch_metrics, check_dtype=False)


@pytest.fixture
def one_run(tmp_path, make_record):
    write_shard(make_record(), tmp_path)
    publish(tmp_path, tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        yield cache


@pytest.mark.parametrize("column", sorted(COLUMNS))
def test_only_the_columns_named_are_read(one_run, column):
    whole, partial = one_run.load("run"), one_run.load("run", {column})
    always = {"confidence", "correct", "clusters"}
    for name in {column} | always:
        np.testing.assert_equal(getattr(partial, name), getattr(whole, name))
    for name in COLUMNS - {column} - always:
        with pytest.raises(InvalidInput, match=f"columns: expected '{name}' among those"):
            getattr(partial, name)
    rows = np.arange(0, 60, 7)
    np.testing.assert_equal(getattr(partial.subset(rows), column), getattr(whole.subset(rows), column))
    full = pickle.loads(pickle.dumps(partial)).replace(**{name: getattr(whole, name) for name in COLUMNS})
    assert_same(full, whole)


def test_a_column_that_was_not_read_is_not_fetched(one_run, monkeypatch):
    asked = []
    query = one_run._query
    monkeypatch.setattr(one_run, "_query", lambda sql, *more: asked.append(sql) or query(sql, *more))
    one_run.load("run", {"extra"})
    assert any("FROM cache.samples" in sql for sql in asked)
    assert not [sql for sql in asked if "entropies" in sql or "cache.logits" in sql or "label" in sql]


def test_columns_that_are_none(one_run):
    for columns in ({"entropy"}, {3}, "logits", 4, None):
        with pytest.raises(InvalidInput, match="columns: expected"):
            one_run.load("run", columns)
    assert one_run.load("run", ()).n_samples == 60
    with pytest.raises(InvalidInput, match="'logits' among those"):
        _ = one_run.load("run", WITHOUT_LOGITS).probs
    with pytest.raises(InvalidInput, match="'entropies' among those"):
        feature(one_run.load("run", columns_of("pred_entropy")), "r_agg")


def test_every_feature_can_be_made_of_its_columns(one_run):
    whole = one_run.load("run")
    for name in (*FEATURES, "margin", CustomFeature((1, 2))):
        np.testing.assert_array_equal(feature(one_run.load("run", columns_of(name)), name), feature(whole, name))


def test_many_runs_are_kept_apart(tmp_path, make_record, make_plain_record):
    records = [make_record(f"r{seed}", seed=seed, n=40 + seed) for seed in range(5)] + [make_plain_record()]
    for record in records:
        write_shard(record, tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        assert cache.runs()["run_id"].tolist() == sorted(record.run_id for record in records)
        assert cache.runs()["block_size"].isna().all()
        assert cache.runs()["seed"].tolist() == [0, 0, 1, 2, 3, 4]  # "plain" sorts first
        for record in records:
            assert_same(cache.load(record.run_id), record.data())


def test_confidence_is_the_top_softmax_probability_of_what_is_kept(make_record):
    record = make_record(n=4000, classes=11)
    assert record.logits.dtype == np.float32
    np.testing.assert_array_equal(record.confidence, record.data().probs.max(axis=1))


def test_the_default_shard_stays_under_a_megabyte(tmp_path, make_record):
    path = write_shard(make_record(n=10_000, classes=10, n_layers=16, extra={}), tmp_path)
    assert path.stat().st_size < 900_000
