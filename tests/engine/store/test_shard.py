"""Shards: whole or absent, and never believed when damaged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.core.errors import CacheError, CorruptShard
from engine.store import atomic, read_shard, shard_paths, verify_shard, write_shard
from engine.store import shard as module

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def shard(tmp_path, make_record):
    return write_shard(make_record(), tmp_path)


def test_a_truncated_shard(shard):
    whole = shard.read_bytes()
    for length in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        shard.write_bytes(whole[:length])
        with pytest.raises(CorruptShard, match=f"{shard.name}.*build or import the run again"):
            read_shard(shard)


def test_any_flipped_byte_is_noticed_or_harmless(shard, make_record):
    """A byte flipped anywhere gives a `CorruptShard`, or, in a part that carries no data, the same run."""
    whole = bytearray(shard.read_bytes())
    good = make_record()
    noticed = 0
    for position in np.random.default_rng(0).integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        shard.write_bytes(damaged)
        try:
            record = read_shard(shard)
        except CorruptShard:
            noticed += 1
        else:
            np.testing.assert_array_equal(record.logits, good.logits)
            np.testing.assert_array_equal(record.labels, good.labels)
            np.testing.assert_array_equal(record.entropies, good.entropies)
    assert noticed > 100


def rewrite(path, change_header=None, change_table=None):
    file = pq.ParquetFile(path)
    header = json.loads(file.metadata.metadata[b"routecal"])
    table = file.read()
    if change_header:
        change_header(header)
    if change_table:
        table = change_table(table)
    pq.write_table(table.replace_schema_metadata({b"routecal": json.dumps(header)}), path)


def test_changed_values_are_noticed(shard):
    def other_labels(table):
        position = table.schema.get_field_index("label")
        return table.set_column(position, "label", pa.array(np.zeros(len(table), np.int32)))

    rewrite(shard, change_table=other_labels)
    with pytest.raises(CorruptShard, match="checksum"):
        read_shard(shard)


def test_changed_metadata_is_noticed(shard):
    rewrite(shard, change_header=lambda header: header["run"].update(dataset="cifar10"))
    with pytest.raises(CorruptShard, match="checksum"):
        read_shard(shard)


def test_a_later_format_is_named(shard):
    rewrite(shard, change_header=lambda header: header.update(format=99))
    with pytest.raises(CorruptShard, match="format 99, but this release reads formats up to 2"):
        read_shard(shard)


@pytest.mark.parametrize(
    "header", [b"not json", b"[]", b"{}", b'{"format": 1}', b'{"format": 1, "run": 5, "digest": "x"}']
)
def test_foreign_metadata(tmp_path, header):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1]}).replace_schema_metadata({b"routecal": header}), path)
    with pytest.raises(CorruptShard, match=r"a\.parquet"):
        read_shard(path)


def test_a_foreign_parquet_file(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(CorruptShard, match="cache_builder import"):
        read_shard(tmp_path / "a.parquet")


def test_a_renamed_shard(shard):
    with pytest.raises(CorruptShard, match="holds run 'run'"):
        read_shard(shard.rename(shard.with_name("other.parquet")))


def test_a_missing_shard(tmp_path):
    with pytest.raises(CacheError, match="no such shard"):
        read_shard(tmp_path / "a.parquet")
    with pytest.raises(CacheError, match="no such directory"):
        shard_paths(tmp_path / "nowhere")


def describe_anew(path, change, version=module.FORMAT):
    """Change the description of a run under a checksum that fits."""
    file = pq.ParquetFile(path)
    run = json.loads(file.metadata.metadata[b"routecal"])["run"]
    change(run)
    columns = {
        name: column.to_numpy() for name, column in zip(file.schema_arrow.names, file.read().columns, strict=True)
    }
    header = {"format": version, "run": run, "digest": module._digest(run, columns)}
    pq.write_table(file.read().replace_schema_metadata({b"routecal": json.dumps(header)}), path)


def test_a_shard_of_format_1_is_read(shard):
    describe_anew(shard, lambda run: run.pop("capture"), version=1)
    record = read_shard(shard)
    assert (record.capture, record.clusters) == ({}, None)


@pytest.mark.parametrize("name", ["n_samples", "n_correct"])
def test_verify_recounts(shard, name):
    describe_anew(shard, lambda run: run.update({name: run[name] + 1}))
    with pytest.raises(CorruptShard, match="recorded counts"):
        verify_shard(shard)
    describe_anew(shard, lambda run: run.pop(name))
    with pytest.raises(CorruptShard, match="recorded counts"):
        verify_shard(shard)


def test_verify_looks_at_one_file_even_if_it_is_replaced(shard, make_record, monkeypatch):
    really = module._rebuild

    def replaced_meanwhile(run, columns):
        write_shard(make_record(n=70), shard.parent)
        return really(run, columns)

    monkeypatch.setattr(module, "_rebuild", replaced_meanwhile)
    assert verify_shard(shard).n_samples == 60


def test_verify_takes_logits_with_a_large_offset(tmp_path, make_record):
    logits = np.random.default_rng(0).normal(size=(60, 4)) * 3
    record = verify_shard(write_shard(make_record(logits=logits + 1e5), tmp_path))
    np.testing.assert_allclose(record.confidence, make_record(logits=logits).confidence, atol=0.02)


def test_verify_takes_ties(tmp_path, make_record):
    """Of equal logits the first is the prediction, so that half of these labels are right."""
    logits = np.tile([1.0, 2.0, 2.0, 0.0], (60, 1))
    record = verify_shard(write_shard(make_record(logits=logits, labels=np.arange(60) % 2 + 1), tmp_path))
    assert record.accuracy == 1 / 2


@pytest.mark.parametrize("right", [True, False])
def test_verify_derives_correctness_in_both_directions(right, shard, monkeypatch):
    """A prediction marked otherwise than it is, with counts and checksum that agree to it."""
    really = module._rebuild

    def marked_otherwise(run, columns):
        record = really(run, columns)
        record.correct[np.flatnonzero(record.correct == right)[0]] ^= True
        return record

    describe_anew(shard, lambda run: run.update(n_correct=run["n_correct"] + (-1 if right else 1)))
    monkeypatch.setattr(module, "_rebuild", marked_otherwise)
    with pytest.raises(CorruptShard, match="correctness differs"):
        verify_shard(shard)


def test_what_cannot_be_tidied_up_does_not_spoil_a_write(tmp_path, make_record):
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / f".r0.parquet.{atomic.HOST}-{dead.pid}-0123abcd.tmp").mkdir()
    assert write_shard(make_record(), tmp_path).exists()


def test_an_error_without_words_is_named_by_its_kind(tmp_path, make_record, monkeypatch):
    def silent(*_, **__):
        raise OSError

    monkeypatch.setattr(pq, "write_table", silent)
    with pytest.raises(CacheError, match=r"cannot be written \(OSError\); nothing was changed"):
        write_shard(make_record(), tmp_path)


def test_a_failed_write_leaves_nothing(tmp_path, make_record, monkeypatch):
    write_shard(make_record(), tmp_path)
    before = (tmp_path / "run.parquet").read_bytes()

    def full_disk(_table, path, **_):
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(pq, "write_table", full_disk)
    with pytest.raises(CacheError, match="No space left"):
        write_shard(make_record(seed=1), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["run.parquet"]
    assert (tmp_path / "run.parquet").read_bytes() == before


def test_the_same_record_gives_the_same_bytes(tmp_path, make_record):
    record = make_record()
    first = write_shard(record, tmp_path / "a").read_bytes()
    assert write_shard(record, tmp_path / "b").read_bytes() == first


WRITER = """
import sys, numpy as np
sys.path.insert(0, {root!r})
from engine.store import RunRecord, write_shard
rng = np.random.default_rng(0)
print("ready", flush=True)
for number in range(10_000):
    write_shard(RunRecord(run_id=f"r{{number % 3}}", suite="s", backbone="b", dataset="d", variant="v",
        logits=rng.normal(size=(20_000, 10)), labels=rng.integers(0, 10, 20_000)), {folder!r})
"""


@pytest.mark.faults
def test_a_killed_writer_leaves_whole_shards(tmp_path, make_record):
    """kill -9 at five moments: every shard reads, and the next writer removes what the dead one left."""
    rng = np.random.default_rng(11)
    for _ in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER.format(root=str(ROOT), folder=str(tmp_path))], stdout=subprocess.PIPE
        )
        child.stdout.readline()
        time.sleep(rng.uniform(0.02, 0.3))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for path in shard_paths(tmp_path):
            assert read_shard(path).n_samples == 20_000
    dead = tmp_path / f".r0.parquet.{atomic.HOST}-{child.pid}-0123abcd.tmp"
    dead.write_bytes(b"half")
    alive = tmp_path / f".r0.parquet.{atomic.HOST}-{os.getppid()}-0123abcd.tmp"
    alive.write_bytes(b"half")
    elsewhere = tmp_path / ".r0.parquet.00000000-1-0123abcd.tmp"
    elsewhere.write_bytes(b"half")
    write_shard(make_record(), tmp_path)
    assert sorted(path.name for path in tmp_path.glob(".*")) == sorted([alive.name, elsewhere.name])
    os.utime(elsewhere, (0, 0))
    write_shard(make_record(), tmp_path)
    assert not elsewhere.exists()


def test_a_small_file_does_not_become_a_large_run(tmp_path, make_plain_record, monkeypatch):
    """One value, run-length coded: a few kilobytes for any number of rows."""
    n = 200_000
    path = write_shard(make_plain_record(n=n, confidence=np.full(n, 0.5), correct=np.ones(n, bool), extra={}), tmp_path)
    assert path.stat().st_size < 10_000
    assert read_shard(path).n_samples == n
    monkeypatch.setattr(module.limits, "SPARE_VALUES", n)
    with pytest.raises(CorruptShard, match="400,000 values, more than a file of this size may unpack to"):
        read_shard(path)
