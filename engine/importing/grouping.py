"""Columns as a person would list them: ten numbered columns are one entry."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from engine.features import FEATURES
from engine.importing.mapping import ColumnMapping, column_number, column_stem
from engine.importing.readers import Columns

_IDENTIFIERS = frozenset({"id", "idx", "index", "sample", "sample_id", "image_id", "row", "unnamed: 0", "column_1"})
_MOST_EXTRA = 12


def column_groups(columns: Columns) -> dict[str, tuple[str, ...]]:
    """Choices by the text to show: runs of consecutively numbered columns first, then every column by itself."""
    numbered = [(column_stem(name), column_number(name), name) for name, v in columns.items() if v.ndim == 1]
    families = sorted(
        (stem, number, name) for stem, number, name in numbered if stem is not None and number is not None
    )
    groups: dict[str, tuple[str, ...]] = {}
    for _, members in groupby(enumerate(families), key=lambda entry: (entry[1][0], entry[1][1] - entry[0])):
        names = tuple(name for _, (_, _, name) in members)
        if len(names) > 1:
            groups[f"{names[0]} to {names[-1]} ({len(names)} columns)"] = names
    for name, values in columns.items():
        groups[f"{name} ({values.shape[1]} values each)" if values.ndim == 2 else name] = (name,)
    return groups


def with_extra(columns: Columns, mapping: ColumnMapping) -> ColumnMapping:
    """The mapping with the plain columns that are left over as further columns, a dozen at most, numbering aside."""
    used = {*mapping.logits, *mapping.probabilities, *mapping.profile}
    used |= {mapping.label, mapping.confidence, mapping.correct, mapping.prediction} - {None}  # type: ignore[arg-type]
    left = [
        name
        for name, values in columns.items()
        if values.ndim == 1 and name not in used and name.lower() not in _IDENTIFIERS and name not in FEATURES
    ]
    # Numbered leftovers are somebody's matrix under a name of their own, not a dozen scores.
    members = {name for names in column_groups(columns).values() if len(names) > 1 for name in names}
    return replace(mapping, extra=tuple(name for name in left if name not in members)[:_MOST_EXTRA])
