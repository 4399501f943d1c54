"""One read-only question in SQL, answered in a limited process (`engine.sandbox.run`); knows nothing of the package.

Three walls stand behind one another. The statement must be a single SELECT that names nothing but the cache's tables
and a few harmless table functions: DuckDB's own would show the server's paths and settings, or take raw pointers.
DuckDB is locked: no files, no extensions, no settings. And the process has its limits.
"""

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import duckdb

ALIAS = "cache"
TABLES = frozenset({"meta", "runs", "layers", "samples", "logits", "epochs", "epoch_metrics"})
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})
FORBIDDEN_FUNCTIONS = frozenset({"current_setting", "getvariable", "write_log"})
_SCHEMAS = {("", ""), ("", "main"), ("", ALIAS), (ALIAS, ""), (ALIAS, "main")}
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "max_temp_directory_size": "0B",
    "memory_limit": "384MB",
    "threads": 1,
}


class Refused(Exception):
    """A query that is not run, or that DuckDB could not run; the three parts are those of `InvalidInput`."""

    def __init__(self, expected: str, got: str) -> None:
        self.argument, self.expected, self.got = "query", expected, got
        super().__init__(got)


def main(request: dict[str, Any], file: IO[bytes], output: IO[bytes]) -> None:
    """request : sql, max_rows, max_bytes. Writes columns, types, rows and whether rows were left out, as JSON."""
    connection = _open(file)
    try:
        _check(connection, request["sql"])
        relation = connection.sql(request["sql"])
        if relation is None:
            raise Refused("a SELECT that returns a table", "nothing")
        if any("WITH TIME ZONE" in str(kind) for kind in relation.types):
            raise Refused("times without a zone, such as now()::TIMESTAMP", "a time with its zone")
        found = relation.limit(request["max_rows"] + 1).fetchall()
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise Refused("a query that DuckDB can answer", str(error).partition("Traceback")[0].strip()) from error
    rows: list[str] = []
    n_bytes = 0
    for values in found[: request["max_rows"]]:
        row = json.dumps([_plain(value) for value in values])
        n_bytes += len(row)
        if n_bytes > request["max_bytes"]:
            break
        rows.append(row)
    more = len(rows) < len(found)
    head = {"columns": relation.columns, "types": [str(kind) for kind in relation.types], "more": more}
    output.write(f'{{"head": {json.dumps(head)}, "rows": [{",".join(rows)}]}}'.encode())


def _open(file: IO[bytes]) -> duckdb.DuckDBPyConnection:
    """The cache behind an open descriptor, then the locks."""
    connection = duckdb.connect(":memory:", config=_SETTINGS)
    path = str(Path(f"/dev/fd/{file.fileno()}").resolve()).replace("'", "''")
    connection.execute(f"ATTACH '{path}' AS {ALIAS} (READ_ONLY)")
    connection.execute(f"USE {ALIAS}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse whatever is not one SELECT over the cache's tables."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise Refused("one statement", f"{len(statements)}")
    row = connection.execute("SELECT json_serialize_sql($sql::VARCHAR)", {"sql": statements[0].query}).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree["error"]:
        kind = str(statements[0].type).rpartition(".")[2]
        raise Refused("a SELECT (nothing can be written, attached, loaded or set here)", f"a {kind} statement")
    nodes = list(_nodes(tree))
    named = {entry["key"].lower() for node in nodes for entry in (node.get("cte_map") or {}).get("map", ())}
    views = {name for (name,) in connection.execute("SELECT view_name FROM duckdb_views() WHERE internal").fetchall()}
    for name in sorted(named & (views | TABLES)):
        raise Refused("names of your own in WITH", repr(name))
    for node in nodes:
        _check_node(node, named)


def _check_node(node: dict[str, Any], named: set[str]) -> None:
    kind, function = node.get("type"), str(node.get("function_name", "")).lower()
    if kind == "BASE_TABLE":
        table = node["table_name"].lower()
        place = (node["catalog_name"].lower(), node["schema_name"].lower())
        if place not in _SCHEMAS or not (table in TABLES or (table in named and place == ("", ""))):
            raise Refused(f"one of the tables {', '.join(sorted(TABLES))}", repr(node["table_name"]))
    elif kind == "TABLE_FUNCTION":
        name = str(node["function"].get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise Refused(f"tables of the cache or {', '.join(sorted(TABLE_FUNCTIONS))} in FROM", f"{name}()")
    elif kind == "SHOW_REF" and node["table_name"] not in ("", '"tables"'):
        raise Refused("SHOW TABLES or DESCRIBE", f"SHOW {node['table_name']}")
    elif function in FORBIDDEN_FUNCTIONS:
        raise Refused("functions of values", f"{function}()")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending += node.values()
        elif isinstance(node, list):
            pending += node


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers, text and lists as they are, everything else as text; not-a-number as text too."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, (float, Decimal)):
        value = float(value)
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return str(value)
