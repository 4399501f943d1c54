"""Opening DuckDB files, and saying plainly why one cannot be opened."""

import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import duckdb

from engine.core.errors import CacheError, NotACache, SchemaMismatch, first_line
from engine.store.atomic import log_of
from engine.store.identity import HEADERS, REMEDY
from engine.store.schema import ADDED_IN_2, DDL, READABLE, TABLES

ALIAS = "cache"
REPAIR = "write it anew with `python -m cache_builder publish --force`"
Settings = Mapping[str, str | bool | int | float | list[str]]
_SETTINGS: Settings = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    # What scans may keep of the file and what sorts may hold before they spill; results are not counted.
    "memory_limit": "128MB",
}
_MAX_THREADS = 4
CACHE_VARIABLE = "ROUTECAL_CACHE"
PROJECT_ROOT = Path(__file__).resolve().parents[2]


def open_read_only(path: Path, settings: Settings | None = None) -> duckdb.DuckDBPyConnection:
    """A locked-down connection with the file attached read-only under the name `cache`.

    Every call makes a database of its own in memory and attaches the file to it. DuckDB shares one database among all
    connections of a process to the same path, even after the file was replaced; an attached file is opened anew, so a
    cache opened after a publish shows the new data while older ones keep theirs.

    A database file is code: a view of its author's would run with the reader's rights. So the reader has given up all
    other files before this one is opened, and it holds the tables of the schema and nothing else or is refused.
    """
    _check_kind(path)
    threads = min(os.cpu_count() or 1, _MAX_THREADS)
    usual: Settings = {"temp_directory": _spill_folder(), "threads": threads}
    connection = duckdb.connect(":memory:", config={**_SETTINGS, **usual, **(settings or {})})
    try:
        _attach_alone(connection, path)
        _check_schema(connection, path)
        _check_size(connection, path)
    except duckdb.Error as error:
        connection.close()
        raise _explained(path, error) from error
    except OSError as error:
        connection.close()
        raise NotACache(f"{path}: no such cache; {REMEDY}") from error
    except CacheError:
        connection.close()
        raise
    return connection


def _check_kind(path: Path) -> None:
    """What can be told from the outside: reading a FIFO would wait for a writer, and a device may never end."""
    if not is_text(path):
        raise NotACache(f"{os.fsencode(path)!r}: the name is not UTF-8; rename the file")
    if not path.is_file():
        raise NotACache(f"{path}: no such cache; {REMEDY}")
    if log_of(path).exists():  # it would be replayed, whoever wrote it
        raise CacheError(
            f"{path}: has a log beside it: somebody writes to it or was stopped; close it or remove {log_of(path).name}"
        )


def is_text(path: Path) -> bool:
    """Whether the name of a file is UTF-8; of others Python makes characters that cannot be written anywhere."""
    return os.fsencode(path).decode(errors="replace") == str(path)


def _attach_alone(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """First the locks, then the file. DuckDB looks for its log as well, which is not there."""
    real = path.resolve()
    connection.execute(f"SET allowed_paths = ['{quoted(real)}', '{quoted(log_of(real))}']")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    connection.execute(f"ATTACH '{quoted(real)}' AS {ALIAS} (READ_ONLY)")


def _spill_folder() -> str:
    """Where sorts of more rows than fit in memory go, made only when that happens; nowhere if the disk is full."""
    try:
        return str(Path(tempfile.gettempdir()) / f"routecal-spill-{os.getpid()}")
    except OSError:
        return ""


def is_database(path: Path) -> bool:
    """Whether DuckDB can open the file, whatever it holds."""
    try:
        with duckdb.connect(":memory:", config={**_SETTINGS}) as connection:
            _attach_alone(connection, path)
    except duckdb.Error:
        return False
    return True


def read_meta(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The `meta` table as a dictionary."""
    return dict(connection.execute(f"SELECT key, value FROM {ALIAS}.meta").fetchall())


_TABLES = "SELECT table_name, sql FROM system.main.duckdb_tables() WHERE database_name = ? AND schema_name = 'main'"
_OTHERS = """
    SELECT 'view' FROM system.main.duckdb_views() WHERE database_name = $name AND NOT internal
    UNION ALL SELECT 'schema' FROM system.main.duckdb_schemas() WHERE database_name = $name AND schema_name <> 'main'
    UNION ALL SELECT 'type' FROM system.main.duckdb_types() WHERE database_name = $name AND NOT internal
    UNION ALL SELECT 'sequence' FROM system.main.duckdb_sequences() WHERE database_name = $name
    UNION ALL SELECT 'index' FROM system.main.duckdb_indexes() WHERE database_name = $name"""
_MACROS = "SELECT count(*) FROM system.main.duckdb_functions() WHERE database_name = ?"


def tables_of(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, str]:
    """The definition of each table: its columns with their types, defaults and constraints, as DuckDB prints it."""
    return dict(connection.execute(_TABLES, [database]).fetchall())


@cache
def _defined(version: str) -> dict[str, str]:
    """The same of the schema."""
    with duckdb.connect(":memory:", config={**_SETTINGS, "threads": 1}) as connection:
        connection.execute(DDL)
        if version == "1":
            for column, table in ADDED_IN_2.items():
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        return tables_of(connection, "memory")


def _check_schema(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Before a table is read it is known to be one: a view of the same name may hide behind it."""
    others = connection.execute(_OTHERS, {"name": ALIAS}).fetchall()
    if others:
        raise NotACache(f"{path}: not a RouteCal cache: it holds a {others[0][0]}; {REMEDY}")
    found = tables_of(connection, ALIAS)
    if found.get("meta") != _defined(READABLE[-1])["meta"]:
        raise NotACache(f"{path}: a DuckDB database, but not a RouteCal cache; {REMEDY}")
    version = read_meta(connection).get("schema_version", "none")[:20]
    if version not in READABLE:
        raise SchemaMismatch(str(path), version, " or ".join(READABLE))
    if not found.keys() >= TABLES:
        raise NotACache(f"{path}: the tables {', '.join(sorted(TABLES - found.keys()))} are missing; {REMEDY}")
    if not found.items() <= _defined(version).items():
        raise NotACache(f"{path}: not a RouteCal cache: its tables are not those of the schema; {REMEDY}")


def check_macros(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """No macro of the file's own. Only who makes the cache DuckDB's default need ask: it takes ten milliseconds."""
    if connection.execute(_MACROS, [ALIAS]).fetchall() != [(0,)]:
        raise NotACache(f"{path}: not a RouteCal cache: it holds a macro; {REMEDY}")


def _check_size(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """DuckDB opens a file cut short as long as its catalogue is there, and fails only when it misses a block.

    DuckDB itself cuts free blocks off the end after it has counted them, so a file shorter than its header says is
    whole if it has the last block in use. Finding that one takes long in a large cache, and is seldom needed.
    """
    [(block_size, n_counted)] = connection.execute(
        "SELECT block_size, total_blocks FROM pragma_database_size() WHERE database_name = ?", [ALIAS]
    ).fetchall()
    n_there = (path.stat().st_size - HEADERS) // block_size
    if n_there < n_counted and n_there <= _last_block_in_use(connection):
        raise NotACache(f"{path}: cut short; {REMEDY}")


def _last_block_in_use(connection: duckdb.DuckDBPyConnection) -> int:
    """The number, from 0, of the last block that holds rows of a table or a part of the catalogue."""
    rows = "SELECT max(greatest(block_id, list_max(additional_block_ids))) FROM pragma_storage_info(?) WHERE persistent"
    last = [connection.execute(rows, [f"{ALIAS}.{name}"]).fetchall()[0][0] for name in tables_of(connection, ALIAS)]
    last += connection.execute("SELECT max(block_id) FROM pragma_metadata_info(?)", [ALIAS]).fetchall()[0]
    return max((number for number in last if number is not None), default=-1)


def _explained(path: Path, error: duckdb.Error) -> CacheError:
    """In our words: those of DuckDB may be the file's author's."""
    message = first_line(error)
    if "lock on file" in message:
        return CacheError(f"{path}: another process has this file open for writing; close it and try again")
    reason = "made by another version of DuckDB" if "version number" in message else "damaged, or another kind of file"
    return NotACache(f"{path}: not a readable DuckDB database ({reason}); {REMEDY}")


def quoted(path: Path) -> str:
    """A path inside single quotes of SQL."""
    return str(path).replace("'", "''")


def default_cache_path() -> Path:
    """`data/routing.duckdb` of the project, or what the environment variable ROUTECAL_CACHE names."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else PROJECT_ROOT / "data" / "routing.duckdb"


def default_shards_directory() -> Path:
    """`data/shards` of the project."""
    return PROJECT_ROOT / "data" / "shards"
