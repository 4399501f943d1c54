"""What can be compared between a published table and its counterpart: not the numbers, the pattern."""

from __future__ import annotations

import pandas as pd

from engine.core.labels import capital, counted
from engine.metrics.mechanism import spearman

FEWEST_ROWS = 5
_RAW = ("No calibration", "Raw (no calibration)")
_FAMILY = (
    ("Conf-only", "Conf + PredEntropy", "AR-CondCal"),
    ("NW (Conf only)", "NW (Conf + Pred. Ent.)", "NW (Conf + Routing): AR-CondCal"),
)
_PLACES = ("lowest", "middle", "highest")


def _values(frame: pd.DataFrame, column: str) -> pd.Series[float]:
    kept = frame[(frame["column"] == column) & frame["value"].notna() & ~frame["row"].isin(_RAW)]
    return kept.set_index("row")["value"].astype(float)


def _span(values: pd.Series[float]) -> str:
    digits = 0 if (values % 1 == 0).all() else 3 if values.abs().max() >= 0.1 else 4
    rows = counted(len(values), "row")
    if len(values) == 1 or values.min() == values.max():
        return f"{values.iloc[0]:.{digits}f} in {rows}"
    return f"{values.min():.{digits}f} to {values.max():.{digits}f} in {rows}"


def _place(values: pd.Series[float], family: tuple[str, ...]) -> str:
    """Where the last of a family of three stands among them; equal numbers share their place."""
    own, others = values[family[-1]], values[list(family[:-1])]
    lower, tied = int((others < own).sum()), int((others == own).sum())
    if tied == len(others):
        return "level with the rest"
    return f"tied for {'highest' if lower else 'lowest'}" if tied else _PLACES[lower]


def compare(paper: pd.DataFrame, cache: pd.DataFrame, column: str, own_column: str | None = None) -> str:
    """One sentence about a column of both: the order of common rows, AR-CondCal among its controls, or the ranges.

    own_column : the cache's column, where it is called otherwise. The uncalibrated row is left out. An order is
    compared by Spearman's correlation over at least five common rows.
    """
    published, own = _values(paper, column), _values(cache, own_column or column)
    if own.empty:
        return f"{column} is not available from this cache"
    if published.empty:
        return f"{column}: {_span(own)} here"
    common = [row for row in published.index if row in own.index]
    parts = []
    order = spearman(published[common], own[common]) if len(common) >= FEWEST_ROWS else None
    if order is not None:
        interval = f" (95 % interval {order.low:+.2f} to {order.high:+.2f})" if order.low is not None else ""
        parts.append(
            f"order of the {len(common)} common rows by {column}: rank correlation {order.value:+.2f}{interval}"
        )
    for family in _FAMILY:
        if set(family) <= set(common):
            parts.append(
                f"AR-CondCal is {_place(published, family)} of its kernel family in the paper and "
                f"{_place(own, family)} here"
            )
    if not parts:
        return f"{column}: {_span(published)} in the paper, {_span(own)} here"
    return capital("; ".join(parts))
