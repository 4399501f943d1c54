"""Questions in SQL: answered from the cache's tables, and nothing else can be reached, changed or stalled."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import numpy as np
import pytest

from engine.core.errors import CacheError, InvalidInput
from engine.core.limits import ANSWER_BYTES, ANSWER_ROWS
from engine.sandbox.run import Allowance, LimitExceeded, ask, schema
from engine.sandbox.sql_child import FUNCTIONS
from engine.store import open_cache, publish, write_shard
from engine.store.schema import COLUMN_NOTES, TABLES

QUICK = Allowance(memory_bytes=1 << 30, cpu_seconds=3, wall_seconds=5, output_bytes=64 << 20)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, make_run) -> Path:
    """In a folder whose name must never be told."""
    folder = tmp_path_factory.mktemp("secret-folder")
    write_shard(make_run("one", n=6000), folder / "shards")
    write_shard(make_run("two", seed=1, n=6000, profile=False), folder / "shards")
    publish(folder / "shards", folder / "secret-name.duckdb")
    return folder / "secret-name.duckdb"


def test_an_answer_is_what_the_cache_holds(cache: Path):
    answer = ask(
        cache, "SELECT run_id, avg(correct::INT) AS accuracy, count(*) AS n FROM samples GROUP BY ALL ORDER BY 1;"
    )
    with open_cache(cache) as opened:
        runs = opened.runs()
    assert answer.frame["run_id"].tolist() == ["one", "two"]
    np.testing.assert_allclose(answer.frame["accuracy"], runs["accuracy"], rtol=1e-12)
    assert answer.frame["n"].tolist() == [6000, 6000]
    assert answer.types == ("VARCHAR", "DOUBLE", "BIGINT")
    assert not answer.more


def test_lists_dates_and_odd_numbers(cache: Path):
    sql = "SELECT [1.5, NULL] AS l, 'nan'::DOUBLE AS x, 1::HUGEINT << 100 AS h, DATE '2026-01-02' AS d, 1 AS a, 2 AS a"
    frame = ask(cache, sql).frame
    assert frame.columns.tolist() == ["l", "x", "h", "d", "a", "a (2)"]
    assert frame.iloc[0].tolist() == [[1.5, None], "nan", str(1 << 100), "2026-01-02", 1, 2]


def test_answers_are_capped(cache: Path):
    answer = ask(cache, "SELECT * FROM range(100000000000)")
    assert len(answer.frame) == ANSWER_ROWS
    assert answer.more
    answer = ask(cache, f"SELECT repeat('x', {ANSWER_BYTES // 4}) AS text FROM range(10)")
    assert len(answer.frame) == 3
    assert answer.more
    assert ask(cache, "SELECT 1 WHERE false").frame.empty


ORDINARY = (
    "WITH a AS (SELECT 1 AS x) FROM a",
    "DESCRIBE samples",
    "SHOW TABLES",
    "SUMMARIZE runs",
    "SELECT * FROM cache.main.runs",
    "SELECT unnest(entropies) FROM samples LIMIT 2",
    "FROM generate_series(1, 3)",
    "SELECT x.key FROM runs, json_each(config) AS x",
    "-- a comment\nSELECT 1 -- and one more",
)


@pytest.mark.parametrize("sql", ORDINARY)
def test_ordinary_queries_work(cache: Path, sql: str):
    ask(cache, sql)


REFUSED = {
    "read a file": "SELECT * FROM read_csv('/etc/passwd')",
    "read a file by name": "SELECT * FROM '/etc/passwd'",
    "read a file as text": "SELECT content FROM read_text('/etc/passwd')",
    "read the environment": "SELECT * FROM read_blob('/proc/self/environ')",
    "read in a subquery": "SELECT (SELECT count(*) FROM read_text('/etc/passwd'))",
    "read in an EXISTS": "SELECT 1 FROM runs WHERE EXISTS (FROM read_text('/etc/passwd'))",
    "read in a WITH": "WITH a AS (FROM read_text('/etc/passwd')) FROM a",
    "read in a join": "FROM runs, LATERAL (SELECT * FROM read_text(run_id))",
    "read in a set operation": "SELECT 'a' UNION ALL SELECT content FROM read_text('/etc/passwd')",
    "list files": "SELECT * FROM glob('/*')",
    "read itself": "SELECT * FROM read_blob('/dev/fd/3')",
    "read a database": "SELECT * FROM read_duckdb('/etc/passwd')",
    "write a file": "COPY (SELECT 1) TO '/tmp/routecal-written.csv'",
    "write a database": "EXPORT DATABASE '/tmp/routecal-written'",
    "write a table": "CREATE TABLE a AS SELECT 1",
    "write a temporary table": "CREATE TEMP TABLE a AS SELECT 1",
    "delete": "DELETE FROM runs",
    "delete in a WITH": "WITH a AS (DELETE FROM runs RETURNING *) FROM a",
    "update": "UPDATE runs SET accuracy = 1",
    "drop": "DROP TABLE runs",
    "attach": "ATTACH '/tmp/routecal-written.db' AS other",
    "detach": "DETACH cache",
    "install an extension": "INSTALL httpfs",
    "load an extension": "LOAD httpfs",
    "load a library": "LOAD '/tmp/evil.duckdb_extension'",
    "set": "SET memory_limit = '100GB'",
    "unlock": "SET lock_configuration = false",
    "reset": "RESET memory_limit",
    "pragma": "PRAGMA memory_limit = '100GB'",
    "pragma that shows the path": "PRAGMA database_list",
    "databases": "SELECT path FROM duckdb_databases()",
    "databases as a view": "SELECT path FROM duckdb_databases",
    "databases behind a WITH": "FROM duckdb_databases, (WITH duckdb_databases AS (SELECT 1) SELECT 1)",
    "databases in quotes": 'SELECT * FROM "DuckDB_Databases"()',
    "databases by schema": "SELECT * FROM system.main.duckdb_databases",
    "pragma as a view": "SELECT * FROM pragma_database_list",
    "catalog": "SELECT * FROM information_schema.tables",
    "settings": "SELECT * FROM duckdb_settings()",
    "one setting": "SELECT current_setting('allowed_paths')",
    "one setting as a method": "SELECT 'allowed_paths'.current_setting()",
    "one setting in a lambda": "SELECT list_transform(['allowed_paths'], lambda x: current_setting(x))",
    "show databases": "SHOW DATABASES",
    "secrets": "SELECT * FROM duckdb_secrets()",
    "a query in a query": "SELECT * FROM query('SELECT * FROM duckdb_settings()')",
    "a table by name": "SELECT * FROM query_table('duckdb_settings')",
    "a plan that evaluates": (
        "SELECT json_serialize_plan('SELECT current_setting(''allowed_paths'')', optimize := true)"
    ),
    "a plan by its qualified name": "SELECT system.main.json_serialize_plan('SELECT 1')",
    "a function of another schema": "SELECT other.sum(n_samples) FROM runs",
    "a function in a window": "SELECT first(current_query()) OVER () FROM runs",
    "sleep": "SELECT sleep_ms(1)",
    "a serialised query": "SELECT * FROM json_execute_serialized_sql('{}')",
    "a raw pointer": "SELECT * FROM arrow_scan(1, 2, 3)",
    "python": "SELECT * FROM python_map_function(1)",
    "call": "CALL duckdb_settings()",
    "prepare": "PREPARE a AS SELECT 1",
    "explain": "EXPLAIN ANALYZE SELECT 1",
    "two statements": "SELECT 1; COPY (SELECT 1) TO '/tmp/routecal-written.csv'",
    "a time with a zone": "SELECT now()",
    "deep nesting": "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "nonsense": "SELCT 1",
    "unknown column": "SELECT nothing FROM runs",
    "a variable of the child": "SELECT * FROM request",
    "nothing": "  ",
    "much": "SELECT 1 --" + "x" * 30_000,
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind: str, cache: Path):
    before = cache.read_bytes()
    with pytest.raises(InvalidInput) as refusal:
        ask(cache, REFUSED[kind])
    for secret in ("secret-folder", "secret-name", "site-packages", "Traceback", "root:"):
        assert secret not in str(refusal.value)
    assert cache.read_bytes() == before
    assert not list(Path("/tmp").glob("routecal-written*"))


ENDLESS = {
    "a giant text": "SELECT repeat('x', 2000000000)",
    "a giant text that is only measured": "SELECT length(repeat('x', 2000000000))",
    "many large texts": "SELECT string_agg(repeat('x', 1000000)) FROM range(100000)",
    "a giant list": "SELECT list(range) FROM range(1000000000)",
    "endless recursion": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "growing recursion": "WITH RECURSIVE t(n) AS (SELECT 'x' UNION ALL SELECT n || n FROM t) SELECT max(n) FROM t",
    "a giant join": "SELECT sum(hash(a.range * b.range)) FROM range(10000000) a, range(10000000) b",
    "a giant sort": "SELECT * FROM range(10000000000) ORDER BY hash(range) LIMIT 1 OFFSET 1000000000",
}  # fmt: skip


@pytest.mark.parametrize("kind", ENDLESS)
def test_killed_within_the_limit(kind: str, cache: Path):
    start = time.monotonic()
    with pytest.raises((LimitExceeded, InvalidInput)):
        ask(cache, ENDLESS[kind], QUICK)
    assert time.monotonic() - start < QUICK.wall_seconds + 60


def test_a_macro_of_the_cache_is_not_the_check(cache: Path, tmp_path: Path):
    """A macro that calls every statement harmless; DuckDB finds it first, once the cache is the default catalogue."""
    harmless = '{"error": false, "statements": []}'
    path = tmp_path / "macro.duckdb"
    path.write_bytes(cache.read_bytes())
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE MACRO json_serialize_sql(x) AS '{harmless}'")
    with pytest.raises((InvalidInput, CacheError)):
        ask(path, "SELECT path FROM duckdb_databases()")


def test_a_query_has_a_second_and_at_most_ten(cache: Path):
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
    with pytest.raises(LimitExceeded, match="longer than the time it was given"):
        ask(cache, endless)
    with pytest.raises(InvalidInput, match="at most 10"):
        ask(cache, "SELECT 1", seconds=11)


def test_a_cache_that_is_gone(tmp_path: Path):
    with pytest.raises(CacheError, match="gone"):
        ask(tmp_path / "none.duckdb", "SELECT 1")


def test_the_schema_is_the_schema(cache: Path):
    assert {table for table, *_ in COLUMN_NOTES} == TABLES
    for table, rows in schema().groupby("table"):
        described = ask(cache, f"DESCRIBE {table}").frame["column_name"].tolist()
        assert ", ".join(rows["column"]).split(", ") == described


def test_every_function_that_is_allowed_exists():
    """A misspelt name would allow what a later DuckDB gives that name."""
    with duckdb.connect() as connection:
        known = {name for (name,) in connection.execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    windows = "row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value"
    assert known | set(windows.split()) >= FUNCTIONS
