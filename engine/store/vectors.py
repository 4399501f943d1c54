"""Lists of numbers in a database column, and matrices in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engine.core.types import FloatArray, RunData


def matrix_from_lists(column: Any, width: int | None = None) -> FloatArray:
    """(n, width) float64 of an Arrow column whose lists all have the same length."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    n = len(column)
    flat = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    values = np.concatenate(flat) if flat else np.empty(0)
    if width is None:
        width = values.size // n if n else 0
    return values.reshape(n, width).astype(np.float64)


def lists_from_matrix(matrix: FloatArray) -> pa.Array:
    """An Arrow list column whose i-th entry is the i-th row."""
    n, width = matrix.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int64) if width else np.zeros(n + 1, dtype=np.int64)
    return pa.LargeListArray.from_arrays(offsets, np.ascontiguousarray(matrix).reshape(-1))


def stand_in_run(
    *,
    logits: FloatArray | None = None,
    n_layers: int = 0,
    extra_names: tuple[str, ...] = (),
) -> RunData:
    """A run of the given shape with zeros for the rest, to put questions about features to `engine.features`."""
    n = 1 if logits is None else len(logits)
    zeros = np.zeros(n)
    return RunData(
        run_id="",
        confidence=zeros,
        correct=np.zeros(n, dtype=np.bool_),
        entropies=np.zeros((n, n_layers)),
        logits=logits,
        extra=dict.fromkeys(extra_names, zeros),
    )
