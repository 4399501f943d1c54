"""Tables for a spreadsheet. No Streamlit in here."""

from __future__ import annotations

import re

import pandas as pd

_FORMULA = re.compile(r"[=+@\t\r\n]|-(?![\d.]+(e[+-]?\d+)?$)")
"""How a cell starts that a spreadsheet would compute; a negative number is none."""


def to_csv(frame: pd.DataFrame) -> str:
    """The table as CSV. Text may come from files and queries, so none of it reaches a spreadsheet as a formula."""
    safe = frame.map(_inert).rename(columns=_inert)
    return str(safe.to_csv(index=False))


def _inert(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
