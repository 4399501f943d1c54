"""Results as JSON text and back, bit by bit the same, by the types that the reader expects.

What is read builds the annotated types of a dataclass and nothing else: a text cannot name a type, and one that does
not fit is refused. Numbers are written as the shortest decimals that give them back; NaN and infinity as
{"float": "nan"}. An array is {"array": dtype, "shape": shape, "values": flat list}, a table {"columns": ...} with
[name, dtype, values] for each column. A field marked `BEHIND` is left out.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from engine.core.errors import CacheError, RouteCalError
from engine.core.types import NotRead

MOST_CHARACTERS = 1 << 28
_DTYPES = ("float64", "float32", "int64", "int32", "bool")
_COLUMNS = (*_DTYPES, "Int64", "boolean", "str", "object")
_MISFITS = (RouteCalError, ValueError, TypeError, LookupError, RecursionError, OverflowError)
Result = TypeVar("Result")


class Unreadable(CacheError):
    """A text that is not what its reader expects."""


def encode(result: object) -> str:
    """A result as one line of JSON."""
    return json.dumps(_encoded(result), separators=(",", ":"), allow_nan=False)


def decode(text: str, kind: type[Result]) -> Result:
    """A result of this kind; raises `Unreadable` for any other text, from whomever it comes."""
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"{len(text):,} characters are too many for a result")
    try:
        return _decoded(json.loads(text), kind)
    except Unreadable:
        raise
    except _MISFITS as error:
        raise Unreadable(f"no {getattr(kind, '__name__', kind)}: {type(error).__name__}") from error


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, np.generic):
        return _encoded(value.item())
    if isinstance(value, np.ndarray) and value.dtype.name in _DTYPES:
        numbers = [_encoded(number) for number in value.ravel().tolist()]
        return {"array": value.dtype.name, "shape": list(value.shape), "values": numbers}
    if isinstance(value, pd.DataFrame):
        plain = value.index.equals(pd.RangeIndex(len(value))) and value.index.name is None
        whole = value if plain else value.reset_index()
        columns = [[str(name), str(whole[name].dtype), _cells(whole[name])] for name in whole]
        if any(dtype not in _COLUMNS for _, dtype, _ in columns):
            raise TypeError(f"no way to write a table with columns {columns}")
        index = None if plain else [value.index.name, columns.pop(0)]
        return {"columns": columns, "index": index, "over": value.columns.name, "rows": len(value)}
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: _encoded(getattr(value, entry.name)) for entry in _written(type(value))}
    if isinstance(value, Mapping):
        return [[_encoded(key), _encoded(each)] for key, each in value.items()]
    if isinstance(value, (tuple, list)):
        return [_encoded(each) for each in value]
    raise TypeError(f"no way to write down a {type(value).__name__}")


def _cells(column: Any) -> list[Any]:
    """The values of a column; whatever stands for a missing text or whole number is null."""
    missing = column.dtype in ("str", "Int64", "boolean")
    if column.dtype == "str":
        places, texts = pd.factorize(column)
        return [list(texts), places.tolist()]
    return [None if missing and pd.isna(cell) else _encoded(cell) for cell in column.tolist()]


def _written(kind: type) -> list[Field[Any]]:
    return [entry for entry in fields(kind) if not entry.metadata.get("behind")]


@cache
def _annotations(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decoded(value: Any, kind: Any) -> Any:
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        for each in inside:
            with suppress(*_MISFITS):
                return _decoded(value, each)
        raise Unreadable(f"{type(value).__name__} where {kind} was expected")
    if origin is Literal:
        return inside[_place(value, inside)]
    if origin is np.ndarray:
        return _array(value, get_args(inside[1])[0])
    if origin is tuple:
        kinds = [inside[0]] * len(value) if inside[-1] is Ellipsis else inside
        return tuple(_decoded(each, kind) for each, kind in zip(_of(value, list), kinds, strict=True))
    if origin is list:
        return [_decoded(each, inside[0]) for each in _of(value, list)]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_decoded(key, inside[0]): _decoded(each, inside[1]) for key, each in _of(value, list)}
    if kind is float:
        return _number(value) if isinstance(value, dict) else _of(value, float, int)
    if kind is pd.DataFrame:
        return _table(_of(value, dict))
    if is_dataclass(kind):
        return _object(_of(value, dict), kind)
    return _of(value, kind)


def _of(value: Any, *kinds: type) -> Any:
    """The value, if it is of exactly such a type: to Python, True is a whole number."""
    if type(value) not in kinds:
        raise Unreadable(f"{type(value).__name__} where {kinds[0].__name__} was expected")
    return value


def _place(value: Any, options: tuple[Any, ...]) -> int:
    """Where a value stands among the options."""
    return [(type(option), option) for option in options].index((type(value), value))


def _number(value: dict[str, Any]) -> float:
    return float(("nan", "inf", "-inf")[_place(value["float"], ("nan", "inf", "-inf"))])


def _scalar(value: Any) -> Any:
    """What a cell of a table may hold."""
    if isinstance(value, dict):
        return _number(value) if "float" in value else _array(value, np.generic)
    return _of(value, str, bool, int, float, NoneType)


def _array(value: Any, scalar: type) -> Any:
    """An array of this kind of numpy number."""
    given = _of(value, dict)
    name, shape = _DTYPES[_place(given["array"], _DTYPES)], tuple(_of(each, int) for each in given["shape"])
    if not issubclass(np.dtype(name).type, scalar) or min(shape, default=0) < 0:
        raise Unreadable(f"an array of {name}, shape {shape}")
    kinds = (int,) if "int" in name else (bool,) if name == "bool" else (float, dict)
    flat = [_number(each) if type(each) is dict else each for each in given["values"] if _of(each, *kinds) is not None]
    return np.array(flat, dtype=name).reshape(shape)


def _table(value: dict[str, Any]) -> pd.DataFrame:
    rows, index = _of(value["rows"], int), value["index"]

    def series(column: Any) -> tuple[str, Any]:
        name, dtype, cells = _of(column, list)
        if dtype == "str":
            texts, places = [_of(each, str) for each in cells[0]], [_of(each, int) for each in cells[1]]
            cells = [None if place == -1 else texts[place] for place in places]
        if len(_of(cells, list)) != rows:
            raise Unreadable("columns of unequal length")
        given = [_scalar(cell) for cell in cells]
        return _of(name, str), pd.Series(given, dtype=_COLUMNS[_place(dtype, _COLUMNS)])

    found = dict(series(column) for column in _of(value["columns"], list))
    frame = pd.DataFrame(found, index=pd.RangeIndex(rows), columns=list(found))
    if index is not None:
        frame.index = pd.Index(series(index[1])[1], name=_of(index[0], str, NoneType))
    frame.columns.name = _of(value["over"], str, NoneType)
    return frame


def _object(value: dict[str, Any], kind: Any) -> Any:
    written, annotations = _written(kind), _annotations(kind)
    if value.keys() != {entry.name for entry in written}:
        raise Unreadable(f"{kind.__name__} with other fields")
    given = {entry.name: _decoded(value[entry.name], annotations[entry.name]) for entry in written}
    behind = {entry.name: NotRead for entry in fields(kind) if entry.metadata.get("behind")}
    return kind(**given, **behind)
