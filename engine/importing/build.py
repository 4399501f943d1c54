"""From columns and their roles to a run record."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.core import validation
from engine.core.errors import InvalidInput, UnknownName
from engine.core.rounding import find_rounding
from engine.core.types import FloatArray
from engine.importing.mapping import ColumnMapping, check_consecutive
from engine.importing.readers import Columns
from engine.store import RunRecord

ROUNDING = 1e-6
SUM_TOLERANCE = 1e-2
"""Half-precision probabilities of a thousand classes add up to 1 this well."""
SMALLEST = 1e-37
"""Probabilities below this (zeros, mostly) are raised to it, so that their logarithm exists in single precision."""


@dataclass(frozen=True)
class RunIdentity:
    """What the run is called and where it belongs."""

    run_id: str
    suite: str = "imported"
    backbone: str = "unknown"
    dataset: str = "unknown"
    variant: str = "imported"
    seed: int | None = None
    block_size: int | None = None


def build_record(
    columns: Columns,
    mapping: ColumnMapping,
    identity: RunIdentity,
    provenance: Mapping[str, Any] | None = None,
    epochs: pd.DataFrame | None = None,
) -> RunRecord:
    """A run from logits, from probabilities (kept as their logarithms), or from confidence and correctness.

    The mapping and what was done to the values are added to the provenance. `epochs` are entropies during training, as
    `RunRecord` has them.
    """
    notes: list[str] = []
    fields: dict[str, Any] = {}
    if mapping.logits and mapping.probabilities:
        raise InvalidInput("mapping", "logits or probabilities", "both")
    if mapping.logits or mapping.probabilities:
        if mapping.label is None:
            raise InvalidInput("label", "a column of class numbers beside the logits or probabilities", "none")
        for role in ("confidence", "correct", "prediction"):
            if getattr(mapping, role) is not None:
                raise InvalidInput(role, "no column: it is derived from the logits or probabilities", "one")
        fields["labels"] = _vector(columns, mapping.label, "label")
        if mapping.logits:
            fields["logits"] = _class_matrix(columns, mapping.logits, "logits")
        else:
            fields["logits"] = _log_probabilities(_class_matrix(columns, mapping.probabilities, "probabilities"), notes)
    else:
        if mapping.confidence is None:
            raise InvalidInput(
                "mapping", "logits, probabilities or a confidence column", f"columns {', '.join(list(columns)[:20])}"
            )
        fields["confidence"] = _confidence(_vector(columns, mapping.confidence, "confidence"), notes)
        for role, argument in (("correct", "correct"), ("predictions", "prediction"), ("labels", "label")):
            chosen = getattr(mapping, argument)
            if chosen is not None:
                fields[role] = _vector(columns, chosen, argument)
    if mapping.cluster is not None:
        fields["clusters"] = validation.vector("cluster", _vector(columns, mapping.cluster, "cluster"))
    if mapping.profile:
        fields["entropies"] = _matrix(columns, mapping.profile, "profile")
    return RunRecord(
        **asdict(identity),
        **fields,
        extra={name: _vector(columns, name, "extra") for name in mapping.extra},
        epochs=epochs,  # type: ignore[arg-type]
        provenance=dict(provenance or {}) | {"mapping": asdict(mapping), "notes": notes},
    )


def _column(columns: Columns, name: str, argument: str) -> NDArray[Any]:
    if name not in columns:
        raise UnknownName(argument, name, columns)
    return columns[name]


def _vector(columns: Columns, name: str, argument: str) -> NDArray[Any]:
    values = _column(columns, name, argument)
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise InvalidInput(argument, "one value per row", f"{name!r} of shape {values.shape}")
    return values


def _matrix(columns: Columns, names: tuple[str, ...], argument: str) -> NDArray[Any]:
    if len(names) == 1:
        values = _column(columns, names[0], argument)
        return values if values.ndim == 2 else values[:, None]
    vectors = [_vector(columns, name, argument) for name in names]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1:
        raise InvalidInput(argument, "columns of one length", f"lengths {', '.join(map(str, sorted(lengths)))}")
    return np.column_stack(vectors)


def _class_matrix(columns: Columns, names: tuple[str, ...], argument: str) -> NDArray[Any]:
    check_consecutive(names, argument)
    return _matrix(columns, names, argument)


def _confidence(values: NDArray[Any], notes: list[str]) -> FloatArray:
    """Single-precision softmax may pass 1 by rounding; so much is clipped."""
    confidence = validation.vector("confidence", values).astype(np.float64)
    above = (confidence > 1) & (confidence <= 1 + ROUNDING)
    if above.any():
        notes.append(f"{int(above.sum())} confidences above 1 by rounding were set to 1")
        confidence[above] = 1
    _note_rounding(confidence, notes)
    return confidence


def _note_rounding(confidence: FloatArray, notes: list[str]) -> None:
    """Of the numbers as the file has them: rounded probabilities no longer look so once their sum is made 1."""
    rounding = find_rounding(confidence)
    if rounding is not None:
        notes.append(rounding.sentence.removesuffix("."))


def _log_probabilities(values: NDArray[Any], notes: list[str]) -> FloatArray:
    probabilities = validation.matrix("probabilities", values)
    low, high = float(probabilities.min()), float(probabilities.max())
    if low < 0 or high > 1 + ROUNDING:
        raise InvalidInput("probabilities", "values in [0, 1] (are these logits?)", f"values from {low:g} to {high:g}")
    sums = probabilities.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        raise InvalidInput("probabilities", "rows that add up to 1", f"{sums[worst]:g} in row {worst}")
    _note_rounding(np.minimum(probabilities.max(axis=1), 1), notes)
    notes.append("probabilities are kept as their logarithms in place of logits")
    raised = int((probabilities < SMALLEST).sum())
    if raised:
        notes.append(f"{raised} probabilities below {SMALLEST:g} were raised to it")
    logarithms: FloatArray = np.log(np.maximum(probabilities, SMALLEST))
    return logarithms
