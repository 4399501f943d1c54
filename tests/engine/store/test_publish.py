"""Publishing: all shards or no change at all."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pytest

from engine.core.errors import CacheError, CorruptShard
from engine.store import Layer, atomic, open_cache, publish, write_shard

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def shards(tmp_path, make_record):
    for seed in range(3):
        write_shard(make_record(f"run{seed}", seed=seed), tmp_path / "shards")
    return tmp_path / "shards"


def test_an_empty_directory_gives_an_empty_cache(tmp_path):
    (tmp_path / "shards").mkdir()
    report = publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    assert (report.n_runs, report.n_samples) == (0, 0)
    with open_cache(tmp_path / "cache.duckdb") as cache:
        assert cache.runs().empty
        assert "run_id" in cache.runs().columns
    assert not publish(tmp_path / "shards", tmp_path / "cache.duckdb").changed


def test_nothing_is_done_when_nothing_changed(shards, tmp_path, make_record):
    target = tmp_path / "cache.duckdb"
    publish(shards, target)
    stamp = target.stat().st_mtime_ns
    again = publish(shards, target)
    assert (again.changed, again.n_runs, again.n_samples) == (False, 3, 180)
    assert target.stat().st_mtime_ns == stamp
    write_shard(make_record("run1", seed=9), shards)
    assert publish(shards, target).changed
    (shards / "run2.parquet").unlink()
    assert publish(shards, target).n_runs == 2


def test_the_fingerprint_names_the_contents(shards, tmp_path):
    publish(shards, tmp_path / "a.duckdb")
    publish(shards, tmp_path / "b.duckdb")
    (shards / "run2.parquet").unlink()
    publish(shards, tmp_path / "c.duckdb")
    prints = []
    for name in "abc":
        with open_cache(tmp_path / f"{name}.duckdb") as cache:
            prints.append(cache.fingerprint)
    assert prints[0] == prints[1] != prints[2]
    assert len(prints[0]) == 16


def test_a_damaged_shard_changes_nothing(shards, tmp_path, make_record):
    target = tmp_path / "cache.duckdb"
    publish(shards, target)
    before = target.read_bytes()
    write_shard(make_record("run3", seed=3), shards)
    path = shards / "run1.parquet"
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(CorruptShard, match=r"run1\.parquet"):
        publish(shards, target)
    assert target.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["cache.duckdb", "shards"]


def test_a_copied_shard_is_refused(shards, tmp_path):
    (shards / "copy.parquet").write_bytes((shards / "run1.parquet").read_bytes())
    with pytest.raises(CorruptShard, match=r"copy\.parquet: holds run 'run1'"):
        publish(shards, tmp_path / "cache.duckdb")
    assert not (tmp_path / "cache.duckdb").exists()


def test_temporary_files_of_writers_at_work_are_ignored(shards, tmp_path):
    (shards / ".run9.parquet.00000000-1-0123abcd.tmp").write_bytes(b"half")
    (shards / "README.md").write_text("notes")
    assert publish(shards, tmp_path / "cache.duckdb").n_runs == 3


def test_other_files_are_never_overwritten(shards, tmp_path):
    table = tmp_path / "results.csv"
    table.write_text("a,b\n1,2\n")
    with pytest.raises(CacheError, match="not a RouteCal cache"):
        publish(shards, table)
    assert table.read_text() == "a,b\n1,2\n"
    other = tmp_path / "other.duckdb"
    with duckdb.connect(str(other)) as connection:
        connection.execute("CREATE TABLE precious (x INTEGER)")
    before = other.read_bytes()
    with pytest.raises(CacheError, match="not a RouteCal cache"):
        publish(shards, other)
    assert other.read_bytes() == before
    with pytest.raises(CacheError):
        publish(shards, tmp_path)


def test_a_damaged_or_older_cache_is_replaced(shards, tmp_path):
    target = tmp_path / "cache.duckdb"
    publish(shards, target)
    target.write_bytes(target.read_bytes()[:20_000])
    assert publish(shards, target).changed
    with duckdb.connect(str(target)) as connection:
        connection.execute("UPDATE meta SET value = '0' WHERE key = 'schema_version'")
    assert publish(shards, target).changed
    with open_cache(target) as cache:
        assert len(cache.runs()) == 3


LOSSES = {
    "a row of samples": "DELETE FROM samples WHERE run_id = 'run1' AND sample_id = 59",
    "a row of logits": "DELETE FROM logits WHERE run_id = 'run1' AND sample_id = 30",
    "all samples": "DELETE FROM samples WHERE run_id = 'run1'",
    "a layer": "DELETE FROM layers WHERE run_id = 'run1' AND layer = 2",
    "a run": "DELETE FROM runs WHERE run_id = 'run1'",
    "a row too many": "INSERT INTO samples SELECT * FROM samples WHERE run_id = 'run1' LIMIT 1",
}


@pytest.mark.parametrize("kind", LOSSES)
def test_a_cache_that_lost_rows_is_not_up_to_date(kind, shards, tmp_path):
    target = tmp_path / "cache.duckdb"
    publish(shards, target)
    with duckdb.connect(str(target)) as connection:
        connection.execute(LOSSES[kind])
    assert publish(shards, target).changed
    with open_cache(target) as cache:
        assert cache.load("run1").n_samples == 60
        assert len(cache.layers("run1")) == 3
    assert not publish(shards, target).changed


def test_force_repairs_what_the_numbers_of_rows_do_not_show(shards, tmp_path):
    target = tmp_path / "cache.duckdb"
    publish(shards, target)
    with duckdb.connect(str(target)) as connection:
        connection.execute("UPDATE samples SET sample_id = 59 - sample_id WHERE run_id = 'run1'")
    with open_cache(target) as cache, pytest.raises(CacheError, match=r"out of order.* publish --force"):
        cache.load("run1")
    assert not publish(shards, target).changed
    assert publish(shards, target, force=True).changed
    with open_cache(target) as cache:
        assert cache.load("run1").n_samples == 60


def test_force_overwrites_no_other_file(shards, tmp_path):
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    with pytest.raises(CacheError, match="not a RouteCal cache"):
        publish(shards, tmp_path / "results.csv", force=True)
    assert (tmp_path / "results.csv").read_text() == "a,b\n1,2\n"


def test_the_largest_numbers_that_a_record_takes_can_be_published(tmp_path, make_record):
    largest = make_record(
        seed=2**63 - 1, block_size=2**31 - 1, epoch=2**31 - 1, layers=[Layer("a", np.int64(2**31 - 1))] * 3
    )
    write_shard(largest, tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        [run] = cache.runs().to_dict("records")
        assert (run["seed"], run["block_size"], run["epoch"]) == (2**63 - 1, 2**31 - 1, 2**31 - 1)
        assert cache.layers("run")["n_sources"].tolist() == [2**31 - 1] * 3


def test_what_cannot_be_tidied_up_does_not_spoil_a_publish(shards, tmp_path):
    """A directory in place of a leftover stands for any that may not be removed: root may remove every file."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / f".cache.duckdb.{atomic.HOST}-{dead.pid}-0123abcd.tmp").mkdir()
    assert publish(shards, tmp_path / "cache.duckdb").changed


def test_a_directory_that_cannot_be_flushed_does_not_hide_that_the_cache_is_in_place(shards, tmp_path, monkeypatch):
    really = atomic._flush

    def flush(path):
        if path.is_dir():
            raise OSError("Invalid argument")
        really(path)

    monkeypatch.setattr(atomic, "_flush", flush)
    assert publish(shards, tmp_path / "cache.duckdb").changed


def test_a_slow_publisher_does_not_take_newer_runs_away(shards, tmp_path, make_record):
    """It has listed four shards when a fifth comes and somebody else publishes that; readers wait for neither."""
    target = tmp_path / "cache.duckdb"
    publish(shards, target)
    write_shard(make_record("run3", seed=3), shards)
    listed, go_on = threading.Event(), threading.Event()

    def hesitate(done, _text):
        listed.set()
        if done < 1:
            go_on.wait(60)

    slow = threading.Thread(target=publish, args=(shards, target, hesitate))
    quick = threading.Thread(target=publish, args=(shards, target))
    slow.start()
    assert listed.wait(60)
    write_shard(make_record("run4", seed=4), shards)
    quick.start()
    quick.join(2)  # time to overtake, if it could
    with open_cache(target) as cache:
        assert len(cache.runs()) >= 3
    go_on.set()
    slow.join(60)
    quick.join(60)
    with open_cache(target) as cache:
        assert cache.runs()["run_id"].tolist() == ["run0", "run1", "run2", "run3", "run4"]


HANGING = """
import sys, time
sys.path.insert(0, {root!r})
from engine.store import publish
def hang(done, text):
    print("at work", flush=True)
    time.sleep(600)
publish({shards!r}, {target!r}, hang)
"""


def test_a_killed_publisher_lets_the_next_one_in(shards, tmp_path):
    target = tmp_path / "cache.duckdb"
    script = HANGING.format(root=str(ROOT), shards=str(shards), target=str(target))
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"at work\n"
    waiting = threading.Thread(target=publish, args=(shards, target))
    waiting.start()
    waiting.join(1)
    assert waiting.is_alive()
    child.kill()
    child.wait()
    child.stdout.close()
    waiting.join(60)
    assert not waiting.is_alive()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["cache.duckdb", "shards"]


def test_progress_runs_from_zero_to_one(shards, tmp_path):
    seen = []
    publish(shards, tmp_path / "cache.duckdb", progress=lambda done, text: seen.append((done, text)))
    assert [done for done, _ in seen] == [0, 1 / 3, 2 / 3, 1]
    assert "run1" in seen[1][1]


PUBLISHER = """
import sys, time
sys.path.insert(0, {root!r})
from engine.store import publish
from pathlib import Path
print("ready", flush=True)
for number in range(10_000):
    shards = [{one!r}, {other!r}][number % 2]
    publish(shards, {target!r})
"""


@pytest.mark.faults
def test_killed_and_concurrent_publishers_leave_a_whole_cache(shards, tmp_path, make_record):
    """Two publishers at a time, killed with -9 at random moments: the cache always opens and is one of the two."""
    other = tmp_path / "other"
    write_shard(make_record("elsewhere", n=3000), other)
    target = tmp_path / "cache.duckdb"
    publish(shards, target)
    rng = np.random.default_rng(2)
    script = PUBLISHER.format(root=str(ROOT), one=str(shards), other=str(other), target=str(target))
    for _ in range(3):
        children = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(2)]
        for child in children:
            child.stdout.readline()
        for child in children:
            time.sleep(rng.uniform(0.05, 0.4))
            with open_cache(target) as cache:
                runs = cache.runs()["run_id"].tolist()
                assert runs in (["run0", "run1", "run2"], ["elsewhere"])
                assert all(cache.load(run_id).n_samples in (60, 3000) for run_id in runs)
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()
    (shards / "run2.parquet").unlink()
    assert publish(shards, target).n_runs == 2
    assert not list(tmp_path.glob(".cache*"))


def test_a_log_beside_the_old_cache_is_not_replayed_and_goes_with_it(tmp_path, make_record):
    write_shard(make_record("run0"), tmp_path / "shards")
    target, log = tmp_path / "cache.duckdb", tmp_path / "cache.duckdb.wal"
    publish(tmp_path / "shards", target)
    log.write_bytes(b"what a killed writer left")
    assert publish(tmp_path / "shards", target).changed
    assert not log.exists()
    with duckdb.connect(str(tmp_path / "other.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    (tmp_path / "other.duckdb.wal").write_bytes(b"")
    with pytest.raises(CacheError, match="not a RouteCal cache"):
        publish(tmp_path / "shards", tmp_path / "other.duckdb")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cache.duckdb",
        "other.duckdb",
        "other.duckdb.wal",
        "shards",
    ]
