"""Opening, replacing, sharing and refusing cache files."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pytest

from engine.core.errors import CacheError, NotACache, SchemaMismatch, UnknownName
from engine.store import default_cache_path, open_cache, publish, write_shard

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def published(tmp_path, make_record):
    for seed in range(2):
        write_shard(make_record(f"run{seed}", seed=seed), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    return tmp_path / "cache.duckdb"


def listing(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_default_path(monkeypatch, published):
    monkeypatch.delenv("ROUTECAL_CACHE", raising=False)
    assert default_cache_path() == ROOT / "data" / "routing.duckdb"
    monkeypatch.setenv("ROUTECAL_CACHE", str(published))
    with open_cache() as cache:
        assert cache.path == published
        assert len(cache.runs()) == 2


def change(path, sql):
    with duckdb.connect(str(path)) as connection:
        connection.execute(sql)


def test_a_cache_that_duckdb_made_shorter_itself_is_whole(published):
    """A checkpoint cuts free blocks off the end of the file after its header has counted them."""
    whole = published.stat().st_size
    change(published, "CREATE TABLE passing AS SELECT random() AS x FROM range(1000000)")
    change(published, "DROP TABLE passing; CHECKPOINT")
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{published}' AS held (READ_ONLY)")
        sizes = "SELECT block_size * total_blocks FROM pragma_database_size() WHERE database_name = 'held'"
        [(counted,)] = connection.execute(sizes).fetchall()
    assert whole <= published.stat().st_size < counted
    with open_cache(published) as cache:
        assert [cache.load(run_id).run_id for run_id in cache.runs()["run_id"]] == cache.runs()["run_id"].tolist()
    os.truncate(published, published.stat().st_size - 1)
    with pytest.raises(NotACache, match="cut short"):
        open_cache(published)


REFUSED = {
    "missing": (lambda path: path.unlink(), NotACache, "no such cache, or it may not be read; publish one"),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), NotACache, "no such cache"),
    "text": (lambda path: path.write_text("hello " * 5000), NotACache, "not a readable DuckDB"),
    "empty": (lambda path: path.write_bytes(b""), NotACache, "not a readable DuckDB"),
    "truncated": (lambda path: os.truncate(path, path.stat().st_size // 2), NotACache, "not a readable DuckDB"),
    "foreign": (lambda path: (path.unlink(), change(path, "CREATE TABLE t (x INTEGER)")), NotACache, "not a RouteCal"),
    "another version": (
        lambda path: change(path, "UPDATE meta SET value = '99' WHERE key = 'schema_version'"),
        SchemaMismatch,
        "version 99.*reads version 1 or 2",
    ),
    "no version": (lambda path: change(path, "DELETE FROM meta"), SchemaMismatch, "version none"),
    "a table missing": (lambda path: change(path, "DROP TABLE epochs"), NotACache, "epochs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_nothing_changed(case, published, tmp_path):
    damage, error, text = REFUSED[case]
    damage(published)
    before = listing(tmp_path)
    with pytest.raises(error, match=text):
        open_cache(published)
    assert listing(tmp_path) == before


def test_a_run_that_lacks_some_of_its_labels_is_refused(published):
    change(published, "UPDATE samples SET label = NULL WHERE run_id = 'run0' AND sample_id = 3")
    with open_cache(published) as cache, pytest.raises(CacheError, match="damaged"):
        cache.load("run0")


def test_a_cache_of_version_1_opens_without_clusters_and_is_written_anew(published, tmp_path):
    for sql in (
        "ALTER TABLE samples DROP COLUMN cluster",
        "ALTER TABLE runs DROP COLUMN capture",
        "UPDATE meta SET value = '1' WHERE key = 'schema_version'",
    ):
        change(published, sql)
    with open_cache(published) as cache:
        assert cache.runs()["capture"].tolist() == ["{}", "{}"]
        assert cache.load("run0").clusters is None
        np.testing.assert_array_equal(cache.load("run1").entropies, cache.load("run1", {"entropies"}).entropies)
    assert publish(tmp_path / "shards", published).changed
    assert not publish(tmp_path / "shards", published).changed


def test_a_cache_that_somebody_writes_to(published):
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import duckdb, sys; c = duckdb.connect({str(published)!r}); print('open', flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        writer.stdout.readline()
        with pytest.raises(CacheError, match="open for writing"):
            open_cache(published)
    finally:
        writer.communicate()
    open_cache(published).close()


def test_unknown_run(published):
    with open_cache(published) as cache:
        for call in (cache.load, cache.layers, cache.epochs, cache.epoch_metrics):
            with pytest.raises(UnknownName, match="run0, run1"):
                call("nope")


def test_a_closed_cache_says_so(published):
    cache = open_cache(published)
    cache.close()
    for call in (cache.runs, lambda: cache.load("run0")):
        with pytest.raises(CacheError, match="closed"):
            call()


def test_reading_is_all_that_is_possible(published, tmp_path):
    with open_cache(published) as cache:
        for sql in (
            "DELETE FROM cache.runs",
            "CREATE TABLE cache.t (x INTEGER)",
            f"COPY cache.runs TO '{tmp_path / 'out.csv'}'",
            f"ATTACH '{tmp_path / 'new.duckdb'}'",
            f"SELECT * FROM read_text('{ROOT / 'pyproject.toml'}')",
            "SET enable_external_access = true",
            "INSTALL httpfs",
        ):
            with pytest.raises(duckdb.Error):
                cache._connection.cursor().execute(sql)


def test_a_publish_reaches_those_who_open_again_and_spares_those_who_do_not(published, tmp_path, make_record):
    old = open_cache(published)
    write_shard(make_record("run2", seed=2), tmp_path / "shards")
    assert publish(tmp_path / "shards", published).changed
    new = open_cache(published)
    assert old.runs()["run_id"].tolist() == ["run0", "run1"]
    assert new.runs()["run_id"].tolist() == ["run0", "run1", "run2"]
    assert old.load("run1").n_samples == 60
    np.testing.assert_array_equal(new.load("run1").entropies, old.load("run1").entropies)
    assert old.fingerprint != new.fingerprint
    old.close()
    assert len(new.runs()) == 3
    new.close()


def test_threads_share_a_cache(published):
    with open_cache(published) as cache:
        expected = {run_id: cache.load(run_id) for run_id in ("run0", "run1")}
        failures = []

        def work(number):
            run_id = f"run{number % 2}"
            try:
                for _ in range(15):
                    loaded = cache.load(run_id)
                    np.testing.assert_array_equal(loaded.logits, expected[run_id].logits)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def test_loaded_arrays_may_be_changed(published):
    with open_cache(published) as cache:
        run = cache.load("run0")
        for array in (run.confidence, run.correct, run.entropies, run.logits, run.labels, run.extra["margin"]):
            array[0] = 0
        assert cache.load("run0").confidence[0] != 0


def test_rows_out_of_order_are_noticed(published):
    with duckdb.connect(str(published)) as connection:
        connection.execute("CREATE TABLE other AS SELECT * FROM samples ORDER BY run_id, sample_id DESC")
        connection.execute("DELETE FROM samples")
        connection.execute("INSERT INTO samples SELECT * FROM other")
        connection.execute("DROP TABLE other")
    with open_cache(published) as cache, pytest.raises(CacheError, match="out of order"):
        cache.load("run0")


def test_open_and_close_leaves_no_descriptor(published):
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    open_cache(published).close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        open_cache(published).close()
    time.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before
