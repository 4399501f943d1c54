"""Tables of a page as LaTeX, with the numbers as the page prints them. No Streamlit in here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number

import pandas as pd

from app.export import NOTHING, print_value
from engine.core.latex import MISSING, Block, bold, escape, render, underline
from engine.core.ranking import FIRST, SECOND

_MARKS = {FIRST: bold, SECOND: underline}


def to_latex(
    frame: pd.DataFrame,
    *,
    caption: str,
    label: str,
    formats: Mapping[str, str] | None = None,
    places: Mapping[str, Sequence[int]] | None = None,
) -> str:
    """A booktabs table; first and second places (by column and row) in bold and underlined, as the paper does."""
    columns = [_cells(frame[name], (formats or {}).get(name, ""), (places or {}).get(name, ())) for name in frame]
    rows = tuple(zip(*columns, strict=True))
    return render([escape(str(name)) for name in frame], [Block("", rows)], caption=caption, label=label)


def _cells(column: pd.Series, pattern: str, placed: Sequence[int]) -> list[str]:
    cells = [_cell(value, pattern) for value in column]
    for row, place in enumerate(placed):
        if place in _MARKS and cells[row] != MISSING:
            cells[row] = _MARKS[place](cells[row])
    return cells


def _cell(value: object, pattern: str) -> str:
    """Numbers in math mode, where a minus is a minus and no space follows the comma of thousands."""
    text = print_value(value, pattern)
    if text == NOTHING:
        return MISSING
    is_number = isinstance(value, Number) and not isinstance(value, bool)
    return f"${escape(text).replace(',', '{,}')}$" if is_number else escape(text)
