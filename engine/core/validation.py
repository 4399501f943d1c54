"""The door: every public function passes its arguments through here once and trusts them afterwards."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.core.errors import InvalidInput, UnknownName
from engine.core.types import BoolArray, FloatArray, IntArray

LARGEST = float(np.finfo(np.float32).max)
"""Numbers beyond single precision cannot be kept in a cache, and their squares and sums would not be finite."""
MOST_BINS = 1_000_000
MOST_DRAWS = 1_000_000
MOST_SAMPLES = 100_000_000
MOST_CELLS = 100_000_000
"""More than anyone needs, and little enough to hold in memory: a slip of the finger is an error, not a dead machine."""

_WITHIN = "finite numbers (within single precision, 3.4e38)"


def shown(value: object) -> str:
    """A value in an error message: what it is, in one short line, whatever it is."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:99]}\u2026"


def real(name: str, value: ArrayLike) -> NDArray[Any]:
    """Real numbers of any shape."""
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidInput(name, "an array without a mask (drop or fill the masked samples first)", "a masked array")
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged nested sequences
        raise InvalidInput(name, "a rectangular array of numbers", "rows of unequal length") from error
    if array.dtype.kind not in "fiub":
        raise InvalidInput(name, "real numbers", f"an array of dtype {array.dtype}")
    return array


def _numeric(name: str, value: ArrayLike, n_dimensions: int) -> NDArray[Any]:
    array = real(name, value)
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
    # NaN fails both comparisons, infinity one of them.
    if not (array.min() >= -LARGEST and array.max() <= LARGEST):
        where = int(np.flatnonzero(~(np.abs(array) <= LARGEST))[0])
        raise InvalidInput(name, _WITHIN, f"{array[where]:g} at position {where}")
    return array


def matrix(name: str, value: ArrayLike, n_rows: int | None = None) -> FloatArray:
    """A finite 2-D float64 array with at least one row."""
    array = _numeric(name, value, 2).astype(np.float64, copy=False)
    if array.shape[0] == 0:
        raise InvalidInput(name, "at least one sample", f"shape {array.shape}")
    if n_rows is not None and array.shape[0] != n_rows:
        raise InvalidInput(name, f"{n_rows} rows, as in the other arrays", f"{array.shape[0]}")
    if array.size and not (array.min() >= -LARGEST and array.max() <= LARGEST):
        row, column = np.argwhere(~(np.abs(array) <= LARGEST))[0]
        raise InvalidInput(name, _WITHIN, f"{array[row, column]:g} at row {int(row)}, column {int(column)}")
    return array


def broadcast(name: str, value: ArrayLike, other_name: str, other: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Two arrays, or numbers, of finite numbers, of one shape or of shapes that numpy broadcasts to one."""
    first, second = (
        vector(each, np.ravel(real(each, given))).reshape(np.shape(given)).astype(np.float64)
        for each, given in ((name, value), (other_name, other))
    )
    try:
        np.broadcast_shapes(first.shape, second.shape)
    except ValueError as error:
        raise InvalidInput(name, f"the shape of {other_name}, {second.shape}", f"{first.shape}") from error
    return first, second


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
    with np.errstate(invalid="ignore"):  # a number that no integer can hold comes out changed and is refused as such
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


def clusters(value: ArrayLike, length: int) -> IntArray:
    """Numbers 0, 1, ... of the cluster that each sample belongs to, from any labels."""
    expected = f"one label, a number or a text, for each of {length} samples"
    try:
        array = np.asarray(value)
        index: IntArray = np.unique(array, return_inverse=True)[1]
    except (TypeError, ValueError) as error:  # ragged, or labels that cannot be told apart
        raise InvalidInput("clusters", expected, shown(value)) from error
    if array.shape != (length,):
        raise InvalidInput("clusters", expected, f"shape {array.shape}")
    return index


def whole(name: str, value: object, minimum: int, maximum: int | None = None) -> int:
    """A whole number not below a minimum, nor above a maximum if there is one."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise InvalidInput(name, f"a whole number of at least {minimum}", shown(value))
    if maximum is not None and value > maximum:
        raise InvalidInput(name, f"at most {maximum:,}", shown(value))
    return int(value)


def bins(value: object, name: str = "n_bins") -> int:
    """A number of bins or groups."""
    return whole(name, value, 1, MOST_BINS)


def bins_of_groups(value: object, n_groups: int) -> int:
    """A number of bins for each of several groups, whose product must fit in memory."""
    return whole("n_bins", value, 1, min(MOST_BINS, MOST_CELLS // n_groups))


def draws(name: str, value: object, minimum: int = 1, *, width: int = 1) -> int:
    """A number of permutations, resamples, simulations or other repetitions, each of `width` numbers in memory."""
    return whole(name, value, minimum, min(MOST_DRAWS, MOST_CELLS // max(width, 1)))


def seed(value: object) -> int:
    """A seed of `numpy.random.default_rng`."""
    return whole("seed", value, 0)


def fraction(name: str, value: object) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 < float(value) < 1:
        raise InvalidInput(name, "a number strictly between 0 and 1", shown(value))
    return float(value)


def number(name: str, value: object, low: float = 0.0, high: float = LARGEST) -> float:
    """A real number in [low, high]."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real or not low <= value <= high:  # type: ignore[operator]
        raise InvalidInput(name, f"a number from {low:g} to {high:g}", shown(value))
    return float(value)  # type: ignore[arg-type]


def names(name: str, value: object, length: int) -> tuple[str, ...]:
    """As many names as asked for."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise InvalidInput(name, "a list of names", shown(value))
    if len(value) != length:
        raise InvalidInput(name, f"{length} names, one each", f"{len(value)}")
    return tuple(value)


def choice(name: str, value: str, valid: Collection[str]) -> str:
    """One of a set of names."""
    if not isinstance(value, str) or value not in valid:
        raise UnknownName(name, value if isinstance(value, str) else shown(value), valid)
    return value
