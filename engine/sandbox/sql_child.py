"""One read-only question in SQL, answered in a limited process (`engine.sandbox.run`).

Three walls stand behind one another. The statement must be a single SELECT that names nothing but the cache's tables,
a few harmless table functions and functions of values that are listed here by name: DuckDB's others would show the
server's paths and settings, take raw pointers, or run another statement. DuckDB is locked: no files, no extensions, no
settings, no views or macros of the file's author. And the process has its limits.
"""

import json
import math
import signal
from collections.abc import Iterator
from decimal import Decimal
from typing import IO, Any

import duckdb

from engine.sandbox.attached import connection_code, path_of

TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})
_NAMES = """
    + - * ** / // % ^ ^@ & | ~ ~~ ~~* ~~~ !~~ !~~* << >> && || <@ @> ->> @ <-> abs acos age aggregate alias any_value
    approx_count_distinct approx_quantile arbitrary arg_max arg_max_null arg_min arg_min_null argmax argmin array_agg
    array_append array_concat array_contains array_distinct array_has array_length array_position array_prepend
    array_slice array_sort array_to_string ascii asin atan atan2 avg bar base64 bit_and bit_count bit_or bit_xor
    bool_and bool_or cardinality cbrt ceil ceiling char_length chr concat concat_ws constant_or_null contains corr cos
    cosh cot count count_if count_star countif covar_pop covar_samp cume_dist current_date date_add date_diff date_part
    date_sub date_trunc datediff datepart datetrunc day dayname dayofmonth dayofweek dayofyear degrees dense_rank divide
    element_at ends_with entropy epoch epoch_ms equi_width_bins even exp factorial favg fdiv filter first first_value
    flatten floor fmod format fsum gamma gcd geomean geometric_mean get_current_timestamp greatest group_concat hash
    histogram hour if isfinite isinf isnan isodow isoyear jaccard json json_array json_array_length json_contains
    json_exists json_extract json_extract_path json_extract_path_text json_extract_string json_group_array
    json_group_object json_keys json_object json_pretty json_quote json_structure json_type json_valid json_value
    kahan_sum kurtosis kurtosis_pop lag last last_day last_value lcase lcm lead least left len length levenshtein lgamma
    list list_aggr list_aggregate list_any_value list_append list_apply list_avg list_bool_and list_bool_or list_concat
    list_contains list_cosine_similarity list_count list_distance list_distinct list_dot_product list_element
    list_entropy list_extract list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram
    list_indexof list_inner_product list_intersect list_kurtosis list_last list_mad list_max list_median list_min
    list_mode list_pack list_position list_prepend list_product list_reduce list_reverse list_reverse_sort list_select
    list_sem list_skewness list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform
    list_unique list_value list_var_pop list_var_samp list_where list_zip listagg ln log log10 log2 lower lpad ltrim mad
    make_date make_timestamp map map_contains map_entries map_extract map_from_entries map_keys map_values max max_by
    md5 mean median min min_by minute mod mode month monthname multiply nextafter now nth_value ntile nullif ord
    percent_rank pi position pow power prefix printf product quantile quantile_cont quantile_disc quarter radians random
    rank reduce regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
    regexp_split_to_array regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    repeat replace reservoir_quantile reverse right round round_even row row_number rpad rtrim second sem sign signbit
    sin sinh skewness split split_part sqrt starts_with stddev stddev_pop stddev_samp str_split strftime string_agg
    string_split string_to_array strip_accents strlen strpos strptime struct_extract struct_insert struct_pack substr
    substring subtract suffix sum sum_no_overflow sumkahan tan tanh timezone to_days to_hours to_json to_milliseconds
    to_minutes to_months to_seconds to_weeks to_years today translate trim trunc try_strptime typeof ucase unicode upper
    var_pop var_samp variance week weekday weekofyear weighted_avg xor year yearweek
"""
FUNCTIONS = TABLE_FUNCTIONS | frozenset(_NAMES.split())
"""Functions of their arguments alone. Who misses one writes to whoever runs the server."""
_SCHEMAS = {("", ""), ("", "main"), ("", "cache"), ("cache", ""), ("cache", "main")}
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
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
    """request : sql, seconds, max_rows, max_bytes. Writes columns, types, rows and whether there are more, as JSON."""
    connection = _open(file)
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])  # whose signal ends the process: no query ignores it
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
    """The cache behind an open descriptor, locked, with the tables' names free for use."""
    code, path = connection_code(), path_of(file)
    try:
        connection: duckdb.DuckDBPyConnection = code.open_read_only(path, _SETTINGS)
        code.check_macros(connection, path)
    except code.CacheError as error:
        raise Refused("a readable cache", "another file") from error
    connection.execute(f"USE {code.ALIAS}")
    return connection


def _check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse whatever is not one SELECT over the cache's tables."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise Refused("one statement", f"{len(statements)}")
    serialize = "SELECT system.main.json_serialize_sql($sql::VARCHAR)"
    row = connection.execute(serialize, {"sql": statements[0].query}).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree["error"]:
        kind = str(statements[0].type).rpartition(".")[2]
        raise Refused("a SELECT (nothing can be written, attached, loaded or set here)", f"a {kind} statement")
    nodes = list(_nodes(tree))
    named = {entry["key"].lower() for node in nodes for entry in (node.get("cte_map") or {}).get("map", ())}
    views = connection.execute("SELECT view_name FROM system.main.duckdb_views() WHERE internal").fetchall()
    for name in sorted(named & ({name for (name,) in views} | _tables())):
        raise Refused("names of your own in WITH", repr(name))
    for node in nodes:
        _check_node(node, named)


def _tables() -> frozenset[str]:
    tables: frozenset[str] = connection_code().TABLES
    return tables


def _check_node(node: dict[str, Any], named: set[str]) -> None:
    kind = node.get("type")
    if kind == "BASE_TABLE":
        table, place = node["table_name"].lower(), (node["catalog_name"].lower(), node["schema_name"].lower())
        if place not in _SCHEMAS or not (table in _tables() or (table in named and place == ("", ""))):
            raise Refused(f"one of the tables {', '.join(sorted(_tables()))}", repr(node["table_name"]))
    elif kind == "TABLE_FUNCTION":
        name = str(node["function"].get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise Refused(f"tables of the cache or {', '.join(sorted(TABLE_FUNCTIONS))} in FROM", f"{name}()")
    elif kind == "SHOW_REF" and node["table_name"] not in ("", '"tables"'):
        raise Refused("SHOW TABLES or DESCRIBE", f"SHOW {node['table_name']}")
    if "function_name" in node:
        catalogue, schema, name = (str(node[part]).lower() for part in ("catalog", "schema", "function_name"))
        if name not in FUNCTIONS or catalogue not in ("", "system") or schema not in ("", "main"):
            called = ".".join(filter(None, (catalogue, schema, name)))
            raise Refused("functions of values, such as avg or list_max", f"{called}()")


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
