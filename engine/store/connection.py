"""Opening DuckDB files, and saying plainly why one cannot be opened."""

import os
import tempfile
from pathlib import Path

import duckdb

from engine.core.errors import CacheError, NotACache, SchemaMismatch, first_line
from engine.store.identity import HEADERS
from engine.store.schema import READABLE, TABLES

ALIAS = "cache"
REMEDY = "publish one with `python -m cache_builder publish`"
REPAIR = "write it anew with `python -m cache_builder publish --force`"
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    # What scans may keep of the file and what sorts may hold before they spill; results are not counted.
    "memory_limit": "128MB",
}
_MAX_THREADS = 4
CACHE_VARIABLE = "ROUTECAL_CACHE"
PROJECT_ROOT = Path(__file__).resolve().parents[2]


def open_read_only(path: Path) -> duckdb.DuckDBPyConnection:
    """A locked-down connection with the file attached read-only under the name `cache`.

    Every call makes a database of its own in memory and attaches the file to it. DuckDB shares one database among all
    connections of a process to the same path, even after the file was replaced; an attached file is opened anew, so a
    cache opened after a publish shows the new data while older ones keep theirs.
    """
    if not path.is_file():
        raise NotACache(f"{path}: no such cache; {REMEDY}")
    threads = min(os.cpu_count() or 1, _MAX_THREADS)
    connection = duckdb.connect(":memory:", config={**_SETTINGS, "temp_directory": _spill_folder(), "threads": threads})
    try:
        connection.execute(f"ATTACH '{quoted(path.resolve())}' AS {ALIAS} (READ_ONLY)")
        _check_schema(connection, path)
        _check_size(connection, path)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
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


def _spill_folder() -> str:
    """Where sorts of more rows than fit in memory go, made only when that happens; nowhere if the disk is full."""
    try:
        return str(Path(tempfile.gettempdir()) / f"routecal-spill-{os.getpid()}")
    except OSError:
        return ""


def is_database(path: Path) -> bool:
    """Whether DuckDB can open the file, whatever it holds."""
    try:
        with duckdb.connect(":memory:") as connection:
            connection.execute(f"ATTACH '{quoted(path.resolve())}' AS {ALIAS} (READ_ONLY)")
    except duckdb.Error:
        return False
    return True


def read_meta(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The `meta` table as a dictionary."""
    return dict(connection.execute(f"SELECT key, value FROM {ALIAS}.meta").fetchall())


def _table_names(connection: duckdb.DuckDBPyConnection) -> set[str]:
    found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = ?", [ALIAS]).fetchall()
    return {name for (name,) in found}


def _check_schema(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    found = _table_names(connection)
    if "meta" not in found:
        raise NotACache(f"{path}: a DuckDB database, but not a RouteCal cache; {REMEDY}")
    version = read_meta(connection).get("schema_version", "none")
    if version not in READABLE:
        raise SchemaMismatch(str(path), version, " or ".join(READABLE))
    if not found >= TABLES:
        raise NotACache(f"{path}: the tables {', '.join(sorted(TABLES - found))} are missing; {REMEDY}")


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
    last = [connection.execute(rows, [f"{ALIAS}.{name}"]).fetchall()[0][0] for name in _table_names(connection)]
    last += connection.execute("SELECT max(block_id) FROM pragma_metadata_info(?)", [ALIAS]).fetchall()[0]
    return max((number for number in last if number is not None), default=-1)


def _explained(path: Path, error: duckdb.Error) -> CacheError:
    message = first_line(error)
    if "lock on file" in message:
        return CacheError(f"{path}: another process has this file open for writing; close it and try again")
    return NotACache(f"{path}: not a readable DuckDB database ({message}); {REMEDY}")


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
