"""Lists of numbers in a database column, and matrices in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engine.core.types import FloatArray


def matrix_from_lists(column: Any, width: int) -> FloatArray:
    """(n, width) float64 of an Arrow column whose lists all have the same length."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    n = len(column)
    flat = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    values = np.concatenate(flat) if flat else np.empty(0)
    return values.reshape(n, width).astype(np.float64)


def lists_from_matrix(matrix: FloatArray) -> pa.Array:
    """An Arrow list column whose i-th entry is the i-th row."""
    n, width = matrix.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int64) if width else np.zeros(n + 1, dtype=np.int64)
    return pa.LargeListArray.from_arrays(offsets, np.ascontiguousarray(matrix).reshape(-1))
