"""The door: every public function passes its arguments through here once and trusts them afterwards."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.errors import InvalidInput, UnknownName
from engine.types import BoolArray, FloatArray, IntArray


def _numeric(name: str, value: ArrayLike, n_dimensions: int) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidInput(name, "an array without a mask (drop or fill the masked samples first)", "a masked array")
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged nested sequences
        raise InvalidInput(name, "a rectangular array of numbers", "rows of unequal length") from error
    if array.dtype.kind not in "fiub":
        raise InvalidInput(name, "real numbers", f"an array of dtype {array.dtype}")
    if array.ndim != n_dimensions:
        expected = "one dimension" if n_dimensions == 1 else f"{n_dimensions} dimensions"
        raise InvalidInput(name, expected, f"shape {array.shape}")
    return array


def vector(name: str, value: ArrayLike, length: int | None = None) -> FloatArray:
    """A finite, non-empty 1-D float array; float32 and float64 keep their type, all else becomes float64."""
    array = _numeric(name, value, 1)
    if array.dtype not in (np.float64, np.float32):
        array = array.astype(np.float64)
    if array.size == 0:
        raise InvalidInput(name, "at least one sample", "an empty array")
    if length is not None and array.size != length:
        raise InvalidInput(name, f"{length} samples, as in the other arrays", f"{array.size}")
    if not np.isfinite(array).all():
        where = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidInput(name, "finite numbers", f"{array[where]} at position {where}")
    return array


def matrix(name: str, value: ArrayLike, n_rows: int | None = None) -> FloatArray:
    """A finite 2-D float64 array with at least one row."""
    array = _numeric(name, value, 2).astype(np.float64, copy=False)
    if array.shape[0] == 0:
        raise InvalidInput(name, "at least one sample", f"shape {array.shape}")
    if n_rows is not None and array.shape[0] != n_rows:
        raise InvalidInput(name, f"{n_rows} rows, as in the other arrays", f"{array.shape[0]}")
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise InvalidInput(name, "finite numbers", f"{array[row, column]} at row {int(row)}, column {int(column)}")
    return array


def confidence(value: ArrayLike, length: int | None = None, name: str = "confidence") -> FloatArray:
    """Probabilities in [0, 1]."""
    array = value
    # NaN survives a minimum and fails its comparison, so two passes check a clean array for everything.
    if not (type(array) is np.ndarray and array.dtype == np.float64 and array.ndim == 1 and array.size):
        array = vector(name, value, length)
    low, high = array.min(), array.max()
    if not (low >= 0 and high <= 1):
        vector(name, array)
        raise InvalidInput(
            name, "values in [0, 1] (apply a softmax to logits first)", f"values from {low:g} to {high:g}"
        )
    if length is not None and array.size != length:
        raise InvalidInput(name, f"{length} samples, as in the other arrays", f"{array.size}")
    return array


def probabilities(value: ArrayLike, name: str = "probabilities") -> FloatArray:
    """(n, K) class probabilities: K >= 2, each in [0, 1], rows summing to one (within single precision)."""
    array = _numeric(name, value, 2)
    if array.dtype not in (np.float64, np.float32):
        array = array.astype(np.float64)
    if array.shape[0] == 0 or array.shape[1] < 2:
        raise InvalidInput(name, "at least one sample and two classes", f"shape {array.shape}")
    # NaN fails both comparisons, infinity one of them.
    if not (array.min() >= 0 and array.max() <= 1):
        raise InvalidInput(name, "finite values in [0, 1]", f"values from {array.min():g} to {array.max():g}")
    worst = float(np.abs(array @ np.ones(array.shape[1], dtype=array.dtype) - 1).max())
    if worst > 1e-3:
        raise InvalidInput(name, "rows that sum to one", f"a row whose sum is off by {worst:.3g}")
    return array


def correct(value: ArrayLike, length: int | None = None) -> BoolArray:
    """0/1 or boolean correctness, as booleans."""
    array = value
    if not (type(array) is np.ndarray and array.dtype == np.bool_ and array.ndim == 1 and array.size):
        array = vector("correct", value)
        binary = array.astype(np.bool_)
        if (binary != array).any():
            odd = array[binary != array][0]
            raise InvalidInput("correct", "only 0 and 1 (or booleans)", f"{odd:g}")
        array = binary
    if length is not None and array.size != length:
        raise InvalidInput("correct", f"{length} samples, as in confidence", f"{array.size}")
    return array


def labels(value: ArrayLike, n_classes: int, length: int | None = None) -> IntArray:
    """Whole class numbers in 0..n_classes-1."""
    array = vector("labels", value, length)
    whole = array.astype(np.int64)
    if (whole != array).any():
        raise InvalidInput("labels", "whole class numbers", f"{array[whole != array][0]:g}")
    if whole.min() < 0 or whole.max() >= n_classes:
        raise InvalidInput(
            "labels", f"class numbers 0 to {n_classes - 1}", f"values from {whole.min()} to {whole.max()}"
        )
    return whole


def samples(confidence_: ArrayLike, correct_: ArrayLike, rho: ArrayLike) -> tuple[FloatArray, BoolArray, FloatArray]:
    """The triple that all matched-confidence statistics take."""
    checked = confidence(confidence_)
    return checked, correct(correct_, checked.size), vector("rho", rho, checked.size)


def whole(name: str, value: object, minimum: int) -> int:
    """A whole number not below a minimum."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise InvalidInput(name, f"a whole number of at least {minimum}", repr(value))
    return int(value)


def fraction(name: str, value: object) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 < float(value) < 1:
        raise InvalidInput(name, "a number strictly between 0 and 1", repr(value))
    return float(value)


def choice(name: str, value: str, valid: Collection[str]) -> str:
    """One of a set of names."""
    if not isinstance(value, str) or value not in valid:
        raise UnknownName(name, value if isinstance(value, str) else repr(value), valid)
    return value
