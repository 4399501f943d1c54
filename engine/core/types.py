"""The per-sample table of one run, as every statistic receives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import InvalidInput, MissingData

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

CELL = ("suite", "backbone", "dataset", "variant", "block_size")
"""What the runs of one cell have in common; they differ in their seed."""

Progress = Callable[[float, str], None]
"""Called with the fraction done (0 to 1) and a short text; whoever passes it decides how to show it."""


def silent(share: float, text: str) -> None:
    """Progress that nobody follows."""


def part_of(progress: Progress | None, start: float, share: float, doing: str = "") -> Progress:
    """Progress of a piece of work that is `share` of the whole and begins at `start`; its texts follow `doing`."""
    report = progress or silent
    return lambda done, text: report(min(start + share * done, 1.0), f"{doing}{text}")


_DIMENSIONS = {"confidence": 1, "correct": 1, "entropies": 2, "logits": 2, "labels": 1, "predictions": 1, "clusters": 1}
_OPTIONAL = ("logits", "labels", "predictions", "clusters")

COLUMNS = frozenset({*_DIMENSIONS, "extra"})
"""What can be read of a run, one by one; confidence, correct and clusters are always read."""
WITHOUT_LOGITS = COLUMNS - {"logits"}
"""What browsing needs: the logits are most of the bytes."""


class NotRead:
    """Stands in a `RunData` for a column that was not read, where None says that the run has none."""


BEHIND: Mapping[str, bool] = {"behind": True}
"""Metadata of a result's field that it was summed up from and that nobody is shown: many times the size of the rest, it
is not stored with it, and `NotRead` stands in its place in a result that was read."""


def _described(column: object) -> str:
    if isinstance(column, np.ndarray):
        return f"{type(column).__name__} of shape {column.shape} and dtype {column.dtype}"
    return f"{type(column).__name__}"


@dataclass(frozen=True, eq=False, repr=False)
class RunData:
    """One run: n samples, K classes, L routing layers.

    Attributes
    ----------
    confidence : (n,) float64, the top softmax probability.
    correct : (n,) bool.
    entropies : (n, L) float64, the routing profile H_1..H_L; L is 0 for a model without routing.
    logits : (n, K) float64 or None.
    labels, predictions : (n,) int64 or None.
    extra : further per-sample columns by name (other people's uncertainty scores, for example).
    clusters : (n,) int64 or None, the number of what a sample shares with others (the sequence of a token), from 0.

    Any but confidence and correct may be `NotRead`; asking for it is then an error.
    """

    run_id: str
    confidence: FloatArray
    correct: BoolArray
    entropies: FloatArray
    logits: FloatArray | None = None
    labels: IntArray | None = None
    predictions: IntArray | None = None
    extra: Mapping[str, FloatArray] = field(default_factory=dict)
    clusters: IntArray | None = None

    def __post_init__(self) -> None:
        """Shapes and types only: values are checked by the functions that use them."""
        columns = {name: (vars(self)[name], n_dimensions) for name, n_dimensions in _DIMENSIONS.items()}
        extra = vars(self)["extra"]
        if isinstance(extra, Mapping):
            columns |= {f"extra[{name!r}]": (column, 1) for name, column in extra.items()}
        elif extra is not NotRead:
            raise InvalidInput("extra", "columns by name", type(extra).__name__)
        for name, (column, n_dimensions) in columns.items():
            if (column is None and name in _OPTIONAL) or column is NotRead:
                continue
            plain = isinstance(column, np.ndarray) and not isinstance(column, np.ma.MaskedArray)  # a memory map is
            if not plain or column.dtype.kind not in "fiub" or column.ndim != n_dimensions:
                kind = "a matrix (one row per sample)" if n_dimensions == 2 else "a vector"
                raise InvalidInput(name, f"{kind}, a numpy array of numbers", _described(column))
            if len(column) != self.n_samples:
                raise InvalidInput(name, f"{self.n_samples} rows, as in confidence", f"{len(column)} rows")

    if not TYPE_CHECKING:  # which would take any name for one of its attributes

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if value is NotRead:
                raise InvalidInput("columns", f"{name!r} among those that were read", "a run without it")
            return value

    def __repr__(self) -> str:
        return f"RunData({self.run_id!r}, {self.n_samples:,} samples)"

    @property
    def n_samples(self) -> int:
        return len(self.confidence)

    @property
    def n_layers(self) -> int:
        return int(self.entropies.shape[1])

    @cached_property
    def probs(self) -> FloatArray:
        """(n, K) softmax of the logits; raises `MissingData` for a run without logits."""
        if self.logits is None:
            raise MissingData("logits", "a class probability", "build or import the run with logits")
        from engine.core.validation import matrix  # which imports the array types from here

        logits = matrix("logits", self.logits)
        if logits.shape[1] == 0:
            raise InvalidInput("logits", "at least one class", f"shape {logits.shape}")
        shifted: FloatArray = logits - logits.max(axis=1, keepdims=True)
        np.exp(shifted, out=shifted)
        shifted /= shifted.sum(axis=1, keepdims=True)
        return shifted

    def replace(self, **changes: Any) -> RunData:
        """As `dataclasses.replace`, which would ask for columns that were not read."""
        return type(self)(**({entry.name: vars(self)[entry.name] for entry in fields(self)} | changes))

    def subset(self, rows: IntArray | BoolArray) -> RunData:
        """The same run restricted to some rows (an index array or a mask)."""
        columns = {name: vars(self)[name] for name in _DIMENSIONS}
        picked: dict[str, Any] = {
            name: column[rows] for name, column in columns.items() if isinstance(column, np.ndarray)
        }
        extra = vars(self)["extra"]
        if extra is not NotRead:
            picked["extra"] = {name: column[rows] for name, column in extra.items()}
        return self.replace(**picked)
