"""What is wrong with a table under a mapping: every fault by column and row, not only the first."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.core.types import BoolArray
from engine.features import FEATURES
from engine.importing.build import ROUNDING, SUM_TOLERANCE
from engine.importing.mapping import ColumnMapping
from engine.importing.readers import Columns, Table
from engine.store.record import ENTROPY_SLACK

_LISTED = 5
ROLES = {
    "logits": "logits",
    "probabilities": "class probabilities",
    "label": "true class",
    "confidence": "confidence",
    "correct": "correct or not",
    "prediction": "predicted class",
    "profile": "routing entropy",
    "extra": "further feature",
    "cluster": "cluster",
}
UNUSED = "not used"
_MATRICES = (ROLES["logits"], ROLES["probabilities"], ROLES["profile"], UNUSED)
N_COLUMNS = 14
_SHOWN_VALUES = 4


@dataclass(frozen=True)
class Problem:
    """A rule that a column breaks: in which rows (the first few, counted from 1), how many, and what stands there."""

    column: str
    rows: tuple[int, ...]
    n_rows: int
    expected: str
    found: str

    @property
    def where(self) -> str:
        """`rows 4, 9 and 12 more`; empty where the whole column is meant."""
        if not self.rows:
            return ""
        listed = ", ".join(map(str, self.rows))
        more = self.n_rows - len(self.rows)
        return f"row{'s' if self.n_rows > 1 else ''} {listed}" + (f" and {more:,} more" if more else "")


def find_problems(columns: Columns, mapping: ColumnMapping) -> tuple[Problem, ...]:
    """Faults of all columns that the mapping uses; none of them does not vouch for the record, which checks itself."""
    return tuple(_roles(mapping)) or (*_lengths(columns, mapping), *_values(columns, mapping))


def _whole(column: str, expected: str, found: str) -> Problem:
    return Problem(column, (), 0, expected, found)


def _roles(mapping: ColumnMapping) -> Iterator[Problem]:
    """Roles that nobody fills."""
    if mapping.logits or mapping.probabilities:
        if mapping.label is None:
            yield _whole("label", "a column of true class numbers beside the outputs", "none chosen")
        return
    if mapping.confidence is None:
        yield _whole("confidence", "logits, probabilities or a column of top probabilities", "none chosen")
    if mapping.correct is None and (mapping.prediction is None or mapping.label is None):
        yield _whole("correct", "a column of 0 and 1, or predictions and labels to compare", "none chosen")


def _used(mapping: ColumnMapping) -> list[str]:
    outputs = mapping.logits or mapping.probabilities
    singles = [mapping.label] if outputs else [mapping.confidence, mapping.correct, mapping.prediction, mapping.label]
    singles.append(mapping.cluster)
    named = [*outputs, *(name for name in singles if name is not None), *mapping.profile, *mapping.extra]
    return list(dict.fromkeys(named))


def _lengths(columns: Columns, mapping: ColumnMapping) -> Iterator[Problem]:
    used = _used(mapping)
    n = len(columns[used[0]])
    if n == 0:
        yield _whole(used[0], "at least one row", "none")
    for name in used[1:]:
        if len(columns[name]) != n:
            yield _whole(name, f"{n:,} rows, as in {used[0]}", f"{len(columns[name]):,}")


def _values(columns: Columns, mapping: ColumnMapping) -> Iterator[Problem]:
    outputs = mapping.logits or mapping.probabilities
    n_classes = 0
    for name in outputs:
        n_classes += columns[name].shape[1] if columns[name].ndim == 2 else 1
        inside = None if mapping.logits else (0.0, 1.0 + ROUNDING)
        yield from _numbers(columns[name], name, inside, "a probability in [0, 1]")
    if mapping.probabilities:
        yield from _sums(columns, mapping.probabilities)
    if outputs and mapping.label is not None:
        yield from _classes(columns[mapping.label], mapping.label, n_classes)
    elif not outputs:
        yield from _outcomes(columns, mapping)
    for name in mapping.profile:
        bounds = (-ENTROPY_SLACK, 1 + ENTROPY_SLACK)
        yield from _numbers(columns[name], name, bounds, "a routing entropy in [0, 1], divided by log of the sources")
    for name in mapping.extra:
        if name in FEATURES:
            yield _whole(name, "another name: this one is a built-in feature's", "it")
        yield from _numbers(columns[name], name)
    if mapping.cluster is not None:
        yield from _numbers(columns[mapping.cluster], mapping.cluster)


def _outcomes(columns: Columns, mapping: ColumnMapping) -> Iterator[Problem]:
    if mapping.confidence is not None:
        values = columns[mapping.confidence]
        yield from _numbers(values, mapping.confidence, (0.0, 1.0 + ROUNDING), "a probability in [0, 1]")
    for name in (mapping.label, mapping.prediction):
        if name is not None:
            yield from _classes(columns[name], name, 2**31)
    if mapping.correct is not None:
        values = columns[mapping.correct]
        yield from _faults(mapping.correct, values, ~np.isin(values, (0, 1)), "0 or 1")
        if mapping.label is not None and mapping.prediction is not None and not _unequal(columns, mapping):
            contradicted = values != (columns[mapping.label] == columns[mapping.prediction])
            yield from _faults(mapping.correct, values, contradicted, "what prediction and label say")


def _unequal(columns: Columns, mapping: ColumnMapping) -> bool:
    shapes = {columns[name].shape for name in (mapping.correct, mapping.label, mapping.prediction) if name is not None}
    return len(shapes) > 1


def _numbers(
    values: NDArray[Any], name: str, inside: tuple[float, float] | None = None, expected: str = "a finite number"
) -> Iterator[Problem]:
    fine = np.isfinite(values)
    if inside is not None:
        fine &= (values >= inside[0]) & (values <= inside[1])
    else:
        fine &= np.abs(values) <= np.finfo(np.float32).max
    yield from _faults(name, values, ~fine, expected)


def _classes(values: NDArray[Any], name: str, n_classes: int) -> Iterator[Problem]:
    with np.errstate(invalid="ignore"):
        fine = np.isfinite(values) & (values >= 0) & (values < n_classes) & (values == np.floor(values))
    known = f"from 0 to {n_classes - 1}" if n_classes < 2**31 else "from 0"
    yield from _faults(name, values, ~fine, f"a whole class number {known}")


def _sums(columns: Columns, names: tuple[str, ...]) -> Iterator[Problem]:
    if len({len(columns[name]) for name in names}) > 1:
        return
    matrix = [columns[name] if columns[name].ndim == 2 else columns[name][:, None] for name in names]
    totals = sum(part.astype(np.float64).sum(axis=1) for part in matrix)
    label = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    with np.errstate(invalid="ignore"):
        off = np.abs(totals - 1) > SUM_TOLERANCE
    yield from _faults(label, np.asarray(totals), np.asarray(off), "probabilities that add up to 1")


def _faults(name: str, values: NDArray[Any], wrong: BoolArray, expected: str) -> Iterator[Problem]:
    """One problem for all rows in which a value is wrong; a matrix names the first wrong entry's position."""
    by_row = wrong.any(axis=1) if wrong.ndim == 2 else wrong
    rows = np.flatnonzero(by_row)
    if rows.size == 0:
        return
    first = values[rows[0]]
    column = name
    if wrong.ndim == 2:
        position = int(np.flatnonzero(wrong[rows[0]])[0])
        column, first = f"{name}, value {position + 1}", first[position]
    listed = tuple(int(row) + 1 for row in rows[:_LISTED])
    yield Problem(column, listed, int(rows.size), expected, "an empty cell or NaN" if first != first else f"{first:g}")


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
