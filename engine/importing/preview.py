"""What was read from a file, for the person who sent it to look at."""

from __future__ import annotations

from dataclasses import fields
from itertools import groupby
from typing import Any

import pandas as pd

from engine.importing.mapping import ColumnMapping
from engine.importing.readers import Table

ROLES = {
    "logits": "logits",
    "probabilities": "class probabilities",
    "label": "true class",
    "confidence": "confidence",
    "correct": "correct or not",
    "prediction": "predicted class",
    "profile": "routing entropy",
    "extra": "further feature",
}
UNUSED = "not used"
_MATRICES = (ROLES["logits"], ROLES["probabilities"], ROLES["profile"], UNUSED)
N_COLUMNS = 14
_SHOWN_VALUES = 4


def first_rows(table: Table, n_rows: int = 5, n_columns: int = N_COLUMNS) -> pd.DataFrame:
    """The first rows of the first columns, as they were understood; a matrix shows its first values."""
    shown = dict(list(table.columns.items())[:n_columns])
    n = min(n_rows, max(len(values) for values in shown.values()))
    return pd.DataFrame({name: pd.Series([_cell(value) for value in values[:n]]) for name, values in shown.items()})


def understood(table: Table, mapping: ColumnMapping) -> pd.DataFrame:
    """One row per entry of the file: column, holds, role. Neighbours of one role and size, as H_1 to H_9, share one."""
    role_of: dict[str, str] = {}
    for entry in fields(mapping):
        names = getattr(mapping, entry.name) or ()
        role_of |= dict.fromkeys((names,) if isinstance(names, str) else names, ROLES[entry.name])
    rows: list[dict[str, str]] = []
    for (holds, role), members in groupby(
        table.columns, key=lambda name: (_size(table, name), role_of.get(name, UNUSED))
    ):
        names = list(members)
        if len(names) > 1 and role in _MATRICES:
            names = [f"{names[0]} to {names[-1]} ({len(names)} columns)"]
        rows += [{"column": name, "holds": holds, "role": role} for name in names]
    rows += [
        {"column": name, "holds": why.removeprefix("holds "), "role": UNUSED} for name, why in table.ignored.items()
    ]
    return pd.DataFrame(rows, columns=["column", "holds", "role"])


def _size(table: Table, name: str) -> str:
    values = table.columns[name]
    return f"{len(values):,} rows" + (f" of {values.shape[1]:,} values" if values.ndim == 2 else "")


def _cell(value: Any) -> Any:
    if getattr(value, "ndim", 0) == 0:
        return value.item() if hasattr(value, "item") else value
    listed = ", ".join(f"{entry:.4g}" for entry in value[:_SHOWN_VALUES])
    return f"{listed}, ... ({value.size})" if value.size > _SHOWN_VALUES else listed
