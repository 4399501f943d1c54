"""Whether the rows of a cache are what its schema says: a whole look at it, for a limited process.

Each condition holds of every row of its table; what is empty where it must not be fails it too. DuckDB sorts NaN above
all numbers, so an upper bound keeps it out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import duckdb

from engine.core import limits
from engine.core.errors import NotACache
from engine.store.connection import ALIAS, REPAIR, tables_of
from engine.store.schema import ADDED_IN_2

_RUN_ID = "regexp_full_match({0}, '[A-Za-z0-9][A-Za-z0-9._-]{{0,119}}')"
_NAME = r"""regexp_full_match({0}, '[\pL\pN_]( |[^\pC\pZ<>&"''`\\]){{0,119}}')"""
"""`engine.store.record.check_name`, in the words of RE2."""
_NUMBER = "abs({0}) < 'inf'"
_SLACK = 1e-5
MOST_INTEGER = 2**31 - 1


def _name(column: str) -> str:
    return _NAME.format(column)


def _list(column: str, width: str, low: str, high: str) -> str:
    inside = f"coalesce(list_min({column}) >= {low} AND list_max({column}) <= {high}, true)"
    return f"len({column}) = {width} AND list_count({column}) = {width} AND {inside}"


_RUNS = (
    f"""(SELECT run_id, n_samples, n_classes, n_layers, has_logits, len(extra_names) AS n_extra FROM {ALIAS}.runs)"""
)
_NUMBERS = f"""
    SELECT sum(n_samples::DOUBLE * (6 + n_layers + len(extra_names) + if(has_logits, n_classes, 0)))
    FROM {ALIAS}.runs"""
_UNEQUAL = f"""
    SELECT r.run_id FROM {ALIAS}.runs AS r
    LEFT JOIN (SELECT run_id, count(*) AS n FROM {ALIAS}.{{table}} GROUP BY run_id) AS c USING (run_id)
    WHERE coalesce(c.n, 0) <> {{expected}}"""
_EXPECTED = {"samples": "n_samples", "logits": "if(has_logits, n_samples, 0)", "layers": "n_layers"}
_ROWS_AT_A_TIME = 10_000
_CONDITIONS: Mapping[str, Mapping[str, str]] = {
    "runs": {
        "run_id": _RUN_ID.format("run_id"),
        "suite, backbone, dataset, variant": " AND ".join(map(_name, ("suite", "backbone", "dataset", "variant"))),
        "block_size, seed, epoch": "least(coalesce(block_size, 1), 1) = 1 AND least(seed, epoch, 0) = 0",
        "n_samples": f"n_samples BETWEEN 1 AND {limits.MOST_SAMPLES}",
        "n_classes": f"coalesce(n_classes BETWEEN 2 AND {limits.MOST_CLASSES}, NOT has_logits)",
        "n_layers": f"n_layers BETWEEN 0 AND {limits.MOST_LAYERS}",
        "accuracy": "accuracy BETWEEN 0 AND 1",
        "extra_names": f"len(extra_names) <= {limits.MOST_COLUMNS} "
        f"AND len(list_distinct(list_filter(extra_names, lambda name: {_name('name')}))) = len(extra_names)",
        "created_at": "created_at BETWEEN TIMESTAMP '1700-01-01' AND TIMESTAMP '2200-01-01'",
    },
    "samples": {
        "sample_id": "sample_id BETWEEN 0 AND n_samples - 1",
        "label": f"coalesce(label BETWEEN 0 AND coalesce(n_classes - 1, {MOST_INTEGER}), true)",
        "prediction": f"coalesce(prediction BETWEEN 0 AND coalesce(n_classes - 1, {MOST_INTEGER}), true)",
        "confidence": "confidence BETWEEN 0 AND 1",
        "correct": "correct = coalesce(label = prediction, correct)",
        "entropies": _list("entropies", "n_layers", f"{-_SLACK}", f"{1 + _SLACK}"),
        "extra": _list("extra", "n_extra", "-3.5e38", "3.5e38"),
        "cluster": "coalesce(cluster >= 0, true)",
    },
    "logits": {
        "sample_id": "sample_id BETWEEN 0 AND n_samples - 1",
        "logits": "has_logits AND " + _list("logits", "n_classes", "-3.5e38", "3.5e38"),
    },
    "layers": {
        "layer": "layer BETWEEN 1 AND n_layers",
        "name": _name("name"),
        "n_sources": "coalesce(n_sources >= 2, true)",
    },
    "epochs": {
        "layer": "layer BETWEEN 1 AND n_layers",
        "mean_entropy, std_entropy": f"{_NUMBER.format('mean_entropy')} AND {_NUMBER.format('std_entropy')}",
    },
    "diagnoses": {"result": f"strlen(result) <= {limits.MOST_TEXT}", "feature": "strlen(feature) <= 400"},
    "epoch_metrics": {"name": _name("name"), "value": _NUMBER.format("value")},
}


def check_ranges(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Every value of an attached cache, then all of it once more in the way in which `Cache` reads it."""
    try:
        version = _check_texts(connection)
        _check_table(connection, "runs", f"{ALIAS}.runs", version)
        [(numbers,)] = connection.execute(_NUMBERS).fetchall()
        if (numbers or 0) > limits.VALUES_PER_BYTE * path.stat().st_size + limits.SPARE_VALUES:
            raise NotACache(f"{numbers:,.0f} numbers, more than a file of this size may unpack to")
        for table, expected in _EXPECTED.items():
            unequal = connection.execute(_UNEQUAL.format(table=table, expected=expected)).fetchone()
            if unequal is not None:
                raise NotACache(f"other than {expected} rows in {table} for run {unequal[0]!r}")
        others = [table for table in tables_of(connection, ALIAS) if table not in ("meta", "runs")]
        for table in others:
            _check_table(connection, table, f"{ALIAS}.{table} LEFT JOIN {_RUNS} USING (run_id)", version)
        for table in ("runs", *others):
            for _ in connection.sql(f"FROM {ALIAS}.{table} WHERE run_id >= ''").to_arrow_reader(_ROWS_AT_A_TIME):
                pass
    except NotACache as error:
        raise NotACache(f"{path}: not a sound cache: {error}; {REPAIR}") from error
    except duckdb.OutOfMemoryException:
        raise
    except (duckdb.Error, ValueError, RecursionError) as error:
        raise NotACache(f"{path}: damaged, or not what its tables say; {REPAIR}") from error


def _check_texts(connection: duckdb.DuckDBPyConnection) -> str:
    """Sizes first, then what the texts hold; the version of the schema."""
    meta = dict(connection.execute(f"SELECT key, value FROM {ALIAS}.meta LIMIT 100").fetchall())
    version = str(meta["schema_version"])
    if re.fullmatch("[0-9a-f]{1,64}", meta.get("fingerprint", "0")) is None:
        raise NotACache("a fingerprint that is none")
    columns = ["config", "provenance", *(name for name in ADDED_IN_2 if name == "capture" and version != "1")]
    longest = ", ".join(f"max(strlen({column}))" for column in columns)
    [(n_runs, *sizes)] = connection.execute(f"SELECT count(*), {longest} FROM {ALIAS}.runs").fetchall()
    if n_runs > limits.MOST_RUNS or max(size or 0 for size in sizes) > limits.MOST_TEXT:
        raise NotACache(f"more than {limits.MOST_RUNS:,} runs, or texts of more than {limits.MOST_TEXT:,} bytes")
    for texts in connection.execute(f"SELECT {', '.join(columns)} FROM {ALIAS}.runs").fetchall():
        if not all(isinstance(json.loads(text), dict) for text in texts):
            raise NotACache(f"{' or '.join(columns)} that is no JSON object")
    return version


def _check_table(connection: duckdb.DuckDBPyConnection, table: str, rows: str, version: str) -> None:
    conditions = {name: sql for name, sql in _CONDITIONS[table].items() if version != "1" or name not in ADDED_IN_2}
    holds = ", ".join(f"bool_and(coalesce({sql}, false))" for sql in conditions.values())
    for name, held in zip(conditions, connection.execute(f"SELECT {holds} FROM {rows}").fetchall()[0], strict=True):
        if held is False:
            raise NotACache(f"values of {table}.{name} outside their range")
