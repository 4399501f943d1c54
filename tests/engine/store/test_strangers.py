"""Caches that somebody made to harm whoever opens them: each is refused by `open_cache` before it is read."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from engine.core.errors import CacheError, NotACache
from engine.store import open_cache, publish, write_shard


@pytest.fixture
def published(tmp_path: Path, make_record) -> Path:
    write_shard(make_record("run0"), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    return tmp_path / "cache.duckdb"


def change(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        for sql in statements:
            connection.execute(sql)


READS = "SELECT 'schema_version' AS key, content AS value FROM read_text('{secret}')"
CODE = {
    "a view called meta": [
        "CREATE SCHEMA s", "CREATE TABLE s.meta AS FROM meta", "DROP TABLE meta", "CREATE VIEW meta AS " + READS
    ],
    "a view called samples": ["DROP TABLE samples", "CREATE VIEW samples AS SELECT content FROM read_text('{secret}')"],
    "a view beside the tables": ["CREATE VIEW more AS " + READS],
    "an endless view": ["DROP TABLE epochs", "CREATE VIEW epochs AS SELECT range AS run_id FROM range(1000000000000)"],
    "a generated column": [
        "DROP TABLE epoch_metrics",
        "CREATE TABLE epoch_metrics (run_id VARCHAR NOT NULL, epoch INTEGER NOT NULL, name VARCHAR NOT NULL, "
        "value DOUBLE GENERATED ALWAYS AS (epoch / 0))",
    ],
    "a default of its own": ["ALTER TABLE layers ALTER n_sources SET DEFAULT 3"],
    "another type": ["ALTER TABLE layers ALTER n_sources TYPE VARCHAR"],
    "a column more": ["ALTER TABLE layers ADD COLUMN more INTEGER"],
    "a table more": ["CREATE TABLE more (x INTEGER)"],
    "another schema": ["CREATE SCHEMA more"],
    "a type": ["CREATE TYPE mood AS ENUM ('a')"],
    "a sequence": ["CREATE SEQUENCE one"],
    "an index on an expression": ["CREATE INDEX i ON layers ((layer + 1))"],
}  # fmt: skip


@pytest.mark.parametrize("case", CODE)
def test_a_cache_holds_the_tables_of_the_schema_and_nothing_else(case: str, published: Path, tmp_path: Path):
    secret = tmp_path / "secret.txt"
    secret.write_text("KEY=8765")
    change(published, *(sql.format(secret=secret) for sql in CODE[case]))
    with pytest.raises(NotACache, match="not a RouteCal cache") as refusal:
        open_cache(published)
    assert "8765" not in str(refusal.value)


def test_external_access_is_off_before_anything_is_read(published: Path, monkeypatch: pytest.MonkeyPatch):
    """Even if the catalogue's check should let a view pass."""
    asked: list[str] = []
    connect = duckdb.connect

    class Told:
        def __init__(self, *arguments, **named):
            self._connection = connect(*arguments, **named)

        def execute(self, sql, *arguments):
            asked.append(sql)
            return self._connection.execute(sql, *arguments)

        def __getattr__(self, name):
            return getattr(self._connection, name)

    monkeypatch.setattr(duckdb, "connect", Told)
    open_cache(published).close()
    [attached] = [number for number, sql in enumerate(asked) if sql.startswith("ATTACH")]
    [closed] = [number for number, sql in enumerate(asked) if "enable_external_access = false" in sql]
    [locked] = [number for number, sql in enumerate(asked) if "lock_configuration = true" in sql]
    assert closed < locked < attached


def test_a_fifo_is_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "x.duckdb")
    with pytest.raises(NotACache, match="regular file"):
        open_cache(tmp_path / "x.duckdb")


def test_a_device_is_refused(tmp_path: Path):
    (tmp_path / "x.duckdb").symlink_to("/dev/zero")
    with pytest.raises(NotACache, match="regular file"):
        open_cache(tmp_path / "x.duckdb")


def test_a_log_beside_it_is_not_replayed(published: Path):
    published.with_name("cache.duckdb.wal").write_bytes(b"anything")
    with pytest.raises(CacheError, match="log beside it"):
        open_cache(published)
