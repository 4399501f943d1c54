"""Tables as tidy frames: what every counterpart is made with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import RouteCalError

FRAME = ["row", "column", "value", "std", "n", "printed"]
ROUTED = ("block_ar", "full_ar")
Cells = Iterable[tuple[str, str, Any, Any, Any]]
"""(row, column, value or word, std, n)"""
NO_VIT = "no ViT run of this cache has routing and logits"


class NoCounterpart(RouteCalError):
    """The cache lacks what a published table shows; the message says what."""


def tidy(rows: Cells, reason: str) -> pd.DataFrame:
    """(row, column, value or word, std, n) as a frame; nothing at all is a reason."""
    known = list(rows)
    if not known:
        raise NoCounterpart(reason)
    frame = pd.DataFrame(known, columns=["row", "column", "value", "std", "n"])
    words = [value if isinstance(value, str) else "" for value in frame["value"]]
    return frame.assign(
        value=pd.to_numeric(frame["value"], errors="coerce").astype(float),
        std=pd.to_numeric(frame["std"], errors="coerce").astype(float),
        n=pd.to_numeric(frame["n"], errors="coerce").astype("Int64"),
        printed=words,
    )


def means(values: pd.Series[Any]) -> tuple[float, float, int]:
    """Mean, std (ddof 0; missing for a single run) and number."""
    known = values.astype(float).dropna()
    n = len(known)
    return (float(known.mean()) if n else np.nan), (float(known.std(ddof=0)) if n > 1 else np.nan), n


def by_run(rows: pd.DataFrame, name: str, columns: Mapping[str, str], reason: str) -> pd.DataFrame:
    """One row of a frame, a run, is one row of the table."""
    return tidy(
        (
            (str(row[name]), column, row[field], None, 1)
            for row in rows.to_dict("records")
            for column, field in columns.items()
        ),
        reason,
    )


def vit(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of routed ViT cells."""
    return rows[rows["backbone"].str.contains("vit", regex=False) & rows["variant"].isin(ROUTED)]
