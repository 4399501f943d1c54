"""Publishing: all shards or no change at all."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pytest

from engine.errors import CacheError, CorruptShard
from engine.store import open_cache, publish, write_shard

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
