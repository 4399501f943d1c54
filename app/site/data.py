"""What pages show, as data for the browser: figures of rounded numbers, tables by column, equal things once."""

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.export import Item, Steps, take_title
from app.shell.wording import typeset
from engine.core.labels import is_number, print_value

_DIGITS, _CELL_DIGITS = 5, 6
"""Significant ones of a number in a figure, which is below a pixel, and of one in a table."""


def rounded(value: float, digits: int = _DIGITS) -> float | int | None:
    """Whole numbers as they are, others shortened; what is no number, or has no end, is a gap."""
    if not np.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(f"{value:.{digits}g}")


def figure_data(figure: go.Figure) -> dict[str, Any]:
    """Data, layout and frames as Plotly takes them, arrays written out as lists of rounded numbers."""
    return _plain(json.loads(figure.to_json()))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if "bdata" not in value:
            return {name: _plain(part) for name, part in value.items()}
        array = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
        shape = str(value.get("shape", array.size)).split(",")
        return _plain(array.reshape([int(length) for length in shape]).tolist())
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return rounded(value) if isinstance(value, float) else value


def table_data(frame: pd.DataFrame, formats: Mapping[str, str]) -> list[dict[str, Any]]:
    """A column each: its name, its cells as pages print them, and where they differ the values to sort and save."""
    columns = []
    for position, name in enumerate(frame.columns):
        values = frame.iloc[:, position].tolist()
        raw = [_value(value) for value in values]
        cells = [typeset(print_value(value, formats.get(str(name), ""))) for value in values]
        column: dict[str, Any] = {"name": str(name), "cells": cells}
        columns.append(column if raw == cells else column | {"values": raw})
    return columns


def _value(value: Any) -> Any:
    if is_number(value):
        return rounded(float(value), _CELL_DIGITS)
    return None if value is None or value is pd.NA or value is pd.NaT else str(value)


def item_data(key: str, item: Item) -> dict[str, Any]:
    """One thing that a page shows; a figure and a table keep the key under which the page knows it."""
    content = item.content
    if isinstance(content, go.Figure):
        found = {"kind": "figure", "key": key, "finding": item.finding, "alt": item.alt, **figure_data(content)}
        if item.steps is not None:
            found["steps"] = {
                "label": item.steps.label,
                "at": [_step(item.steps, value) for value in item.steps.values],
            }
        return found
    if isinstance(content, pd.DataFrame):
        return {"kind": "table", "key": key, "columns": table_data(content, item.formats)}
    further = {"finding": typeset(item.finding), "of": item.of}
    return {"kind": item.kind, "text": typeset(str(content))} | {name: text for name, text in further.items() if text}


def _step(steps: Steps, value: float) -> dict[str, Any]:
    figure, said = steps.draw(value)
    return {"value": value, "finding": take_title(figure), "said": list(map(typeset, said)), **figure_data(figure)}


def cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """The same data with every text in it cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(name): cleaned(part, clean) for name, part in value.items()}
    return [cleaned(part, clean) for part in value] if isinstance(value, list) else value


class Shelf:
    """The views of one file: what several of them show is kept once."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._places: dict[str, int] = {}
        self._views: dict[str, list[int]] = {}

    def put(self, view: str, shown: Mapping[str, Item]) -> None:
        """The things that a view shows, in order."""
        texts = [_text(cleaned(item_data(key, item), self._clean)) for key, item in shown.items()]
        self._views[view] = [self._places.setdefault(text, len(self._places)) for text in texts]

    def script(self, name: str) -> str:
        """A script that hands the views over: a page from a disk may load scripts, but fetch nothing."""
        return script(name, f'{{"views":{_text(self._views)},"items":[{",".join(self._places)}]}}')


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


_ADDED = re.compile(r'routecal\.add\("([^"]*)","([^"]*)"\);\n')


def script(name: str, data: Any) -> str:
    """`routecal.add(name, data)` with the data, or the text of it, compressed: no name in it can end the script."""
    text = data if isinstance(data, str) else _text(data)
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'routecal.add("{name}","{packed}");\n'


def read_script(path: Path) -> Any:
    """The data of such a script, as a browser has them."""
    found = _ADDED.fullmatch(path.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{path.name} is none of a site's files")
    return json.loads(gzip.decompress(base64.b64decode(found[2])))


def names_left(site: Path, clean: Callable[[str], str]) -> list[str]:
    """Texts of a written site that would still be changed by being cleaned, each shortened."""
    texts = {text for path in sorted((site / "data").iterdir()) for text in _texts(read_script(path))}
    return [text[:80] for text in sorted(texts) if clean(text) != text]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from _texts(part)
