"""What strangers hand to a function: what it asks for with edge values, the same in odd dress, and anything at all.

A `Kind` is what an argument is meant to be. Given the size of the made-up run it draws valid values; `wrong` draws what
it must be able to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import DrawFn, SearchStrategy

from engine.features import FEATURES, SUMMARIES, CustomFeature

HUGE = (10**12, 10**18, 2**63, 10**30)
DTYPES = st.sampled_from(
    ["f8", "f4", "f2", ">f8", "i8", "i1", "u1", "u8", "?", "U3", "S2", "O", "c16", "M8[s]", "m8[s]"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(-3, 3),
    st.sampled_from(HUGE),
    st.text(max_size=5),
    st.sampled_from([np.float64(np.nan), np.int64(-1), -0.0, 0.5, 1e308, 5e-324, 1j, b"x", (), [], {}, object]),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
ANYTHING: SearchStrategy[Any] = st.one_of(
    ARRAYS,
    st.lists(SCALARS, max_size=6),
    st.lists(st.lists(st.floats(), max_size=3), max_size=4),
    SCALARS,
    hnp.arrays("f8", st.integers(0, 5)).map(lambda values: np.ma.masked_invalid(values)),
    st.lists(st.one_of(st.floats(), st.none()), max_size=5).map(pd.Series),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
WRONG_NUMBERS = st.one_of(st.sampled_from([-1, 0, -(10**12), *HUGE, 0.5, np.nan, np.inf, -np.inf, "7", True]), SCALARS)


@dataclass(frozen=True)
class Size:
    """Of a made-up run: samples, classes, layers."""

    n: int
    k: int
    layers: int


@dataclass(frozen=True)
class Kind:
    """`valid` draws what an argument asks for, `wrong` what it does not."""

    valid: Callable[[Size], SearchStrategy[Any]]
    wrong: SearchStrategy[Any] = ANYTHING
    dressed: bool = False
    """Whether the value is an array, which may come as a list, a Series, in another byte order, ..."""


@st.composite
def sizes(draw: DrawFn, at_least: int = 0, at_most: int = 300) -> Size:
    """Mostly small, where shrinking works; now and then as large as a small run."""
    most = draw(st.sampled_from([12, 12, 60, at_most]))
    return Size(draw(st.integers(at_least, max(at_least, most))), draw(st.integers(1, 5)), draw(st.integers(0, 4)))


UNIT_EDGES = [0.0, 1.0, 1 / 15, 2 / 15, 14 / 15, 1 / 3, 0.5, 1e-300, 5e-324, 1 - 2**-53, np.nextafter(0.1, 0)]
WILD_EDGES = [0.0, -0.0, 1e308, -1e308, 1.7976931348623157e308, 5e-324, -5e-324, 1.0, 1 + 2**-52, 1e-160, 2.0**53]


def _filled(shape: Callable[[Size], tuple[int, ...]], low: float, high: float, edges: Sequence[float]) -> Any:
    """Random numbers of a range, ties of a few values, a constant, or edge values among random ones."""

    def strategy(size: Size) -> SearchStrategy[np.ndarray]:
        return st.builds(
            _fill,
            st.just(shape(size)),
            st.sampled_from(["spread", "tied", "constant", "edges", "mixed"]),
            st.integers(0, 2**32 - 1),
            st.sampled_from(edges),
            st.just((low, high, tuple(edges))),
        )

    return strategy


def _fill(shape: tuple[int, ...], recipe: str, seed: int, edge: float, span: tuple[float, float, tuple]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low, high, edges = span
    spread = rng.uniform(low, high, shape)
    if recipe == "spread":
        return spread
    if recipe == "tied":
        return rng.choice(rng.uniform(low, high, 3), shape)
    if recipe == "constant":
        return np.full(shape, edge)
    chosen = rng.choice(np.array(edges), shape)
    return chosen if recipe == "edges" else np.where(rng.random(shape) < 0.2, chosen, spread)


def _integers(shape: Callable[[Size], tuple[int, ...]], top: Callable[[Size], int]) -> Any:
    def strategy(size: Size) -> SearchStrategy[np.ndarray]:
        return st.integers(0, 2**32 - 1).map(
            lambda seed: np.random.default_rng(seed).integers(0, max(top(size), 1), shape(size))
        )

    return strategy


def _outcomes(size: Size) -> SearchStrategy[np.ndarray]:
    rates = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
    return st.builds(lambda seed, rate: np.random.default_rng(seed).random(size.n) < rate, st.integers(0, 2**16), rates)


def _probabilities(size: Size) -> SearchStrategy[np.ndarray]:
    def make(seed: int, sharpness: float) -> np.ndarray:
        z = np.random.default_rng(seed).normal(size=(size.n, size.k)) * sharpness
        z = np.exp(z - z.max(axis=1, keepdims=True)) if z.size else z
        return z / z.sum(axis=1, keepdims=True) if z.size else z

    return st.builds(make, st.integers(0, 2**16), st.sampled_from([0.0, 1.0, 30.0, 1000.0]))


CONFIDENCE = Kind(_filled(lambda s: (s.n,), 0, 1, UNIT_EDGES), dressed=True)
CORRECT = Kind(_outcomes, dressed=True)
RHO = Kind(
    lambda s: st.one_of(
        _filled(lambda t: (t.n,), 0, 1, UNIT_EDGES)(s), _filled(lambda t: (t.n,), -5, 5, WILD_EDGES)(s)
    ),
    dressed=True,
)
VALUES = RHO
PROFILE = Kind(_filled(lambda s: (s.n, s.layers), 0, 1, UNIT_EDGES), dressed=True)
WILD_PROFILE = Kind(_filled(lambda s: (s.n, s.layers), -5, 5, WILD_EDGES), dressed=True)
LOGITS = Kind(
    lambda s: st.one_of(
        _filled(lambda t: (t.n, t.k), -5, 5, [0.0, 1.0, 50.0, -50.0, 1e-12])(s),
        _filled(lambda t: (t.n, t.k), -800, 800, WILD_EDGES)(s),
    ),
    dressed=True,
)
LABELS = Kind(_integers(lambda s: (s.n,), lambda s: s.k), dressed=True)
PROBABILITIES = Kind(_probabilities, dressed=True)
P_VALUES = CONFIDENCE


def regressors(n_columns: int | None = None) -> Kind:
    """(n, m) regressors of a kernel, m at most 3."""

    def strategy(size: Size) -> SearchStrategy[np.ndarray]:
        width = n_columns or 1 + size.layers % 3
        return st.one_of(
            _filled(lambda t: (t.n, width), 0, 1, UNIT_EDGES)(size),
            _filled(lambda t: (t.n, width), -5, 5, WILD_EDGES)(size),
        )

    return Kind(strategy, dressed=True)


def whole(low: int, high: int) -> Kind:
    """A count that is small enough to wait for; wrong ones are negative, fractional, text or absurdly large."""
    return Kind(lambda _: st.integers(low, high), WRONG_NUMBERS)


def number(*values: float) -> Kind:
    return Kind(lambda _: st.sampled_from(values), WRONG_NUMBERS)


def choice(*names: str) -> Kind:
    return Kind(lambda _: st.sampled_from(names), st.one_of(st.text(max_size=6), SCALARS, ARRAYS))


SEED = Kind(lambda _: st.one_of(st.integers(0, 5), st.sampled_from([2**32, 2**64])), WRONG_NUMBERS)
FRACTION = number(0.05, 0.5, 0.95, 1e-9, 1 - 1e-9, 5e-324)
FLAG = Kind(lambda _: st.booleans(), st.booleans())
BINS = whole(1, 40)
SOME_BINS = Kind(lambda _: st.one_of(st.none(), st.integers(1, 40)), WRONG_NUMBERS)
MATCHING = choice("equal_width", "equal_mass")
QUANTILES = Kind(
    lambda _: st.sampled_from([(1 / 3, 2 / 3), (0.5, 0.5), (0.01, 0.99), [0.2, 0.4], (5e-324, 1 - 2**-53)]),
    st.one_of(st.tuples(WRONG_NUMBERS, WRONG_NUMBERS), ANYTHING),
)
TEXT = Kind(lambda _: st.text(max_size=8), st.text(max_size=8))

_SUMMARY = st.sampled_from(list(SUMMARIES))


def custom_features(size: Size) -> SearchStrategy[CustomFeature]:
    layers = st.lists(st.integers(1, max(size.layers, 1)), min_size=1, max_size=4).map(tuple)
    return st.builds(CustomFeature, layers, _SUMMARY, st.booleans())


FEATURE = Kind(
    lambda s: st.one_of(st.sampled_from([*FEATURES, "score"]), custom_features(s)),
    st.one_of(
        SCALARS,
        ARRAYS,
        st.builds(CustomFeature, st.sampled_from([(1, 99), (10**12,)]), _SUMMARY, st.booleans()),
    ),
)


@st.composite
def runs(draw: DrawFn, size: Size, faulty: bool = False) -> dict[str, Any]:
    """Fields of a `RunData` as a caller may put it together, with or without each optional part."""
    columns: dict[str, Any] = {
        "confidence": draw(CONFIDENCE.valid(size)),
        "correct": draw(CORRECT.valid(size)),
        "entropies": draw(PROFILE.valid(size)),
    }
    if draw(st.booleans()):
        columns |= {"logits": draw(LOGITS.valid(size)), "labels": draw(LABELS.valid(size))}
    if draw(st.booleans()):
        columns["predictions"] = draw(LABELS.valid(size))
    if draw(st.booleans()):
        columns["extra"] = {"score": draw(RHO.valid(size))}
    if faulty:
        name = draw(st.sampled_from(list(columns)))
        columns[name] = {"score": draw(ANYTHING)} if name == "extra" else spoilt(draw, columns[name])
    return columns


RUN_FIELDS = ("run", "run_id", "confidence", "correct", "entropies", "logits", "labels", "predictions", "extra")
RUN = Kind(lambda s: runs(s), st.nothing())

ODD = st.sampled_from([np.nan, np.inf, -np.inf, -1e-9, 1 + 1e-9, 2.0, -1.0, 1e308])


def spoilt(draw: DrawFn, values: Any) -> Any:
    """An array with a fault: one odd value, a wrong length or shape, or something else altogether."""
    fault = draw(st.sampled_from(["odd value", "odd value", "length", "shape", "dtype", "anything"]))
    if isinstance(values, np.ndarray) and values.size:
        if fault == "odd value":
            spoilt_ = values.astype("f8")
            spoilt_.flat[draw(st.integers(0, values.size - 1))] = draw(ODD)
            return spoilt_
        if fault == "length":
            return values[:-1]
        if fault == "shape":
            return values[..., None]
        if fault == "dtype":
            return draw(st.sampled_from([values.astype("c16"), values.astype("U8"), values.astype(object)]))
    return draw(ANYTHING)


def dressed(draw: DrawFn, values: np.ndarray) -> Any:
    """The same values as a list, a Series, read-only, in another memory order, byte order or precision."""
    dress = draw(
        st.sampled_from(["list", "series", "frozen", "fortran", "strided", "swapped", "half", "single", "int"])
    )
    if dress == "list":
        return values.tolist()
    if dress == "series" and values.ndim == 1:
        return pd.Series(values, index=np.arange(values.size)[::-1])
    if dress == "fortran":
        return np.asfortranarray(values)
    if dress == "strided":
        return np.repeat(values, 2, axis=0)[::2]
    if dress == "swapped":
        return values.astype(values.dtype.newbyteorder(">"))
    if dress in ("half", "single") and values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype("f2" if dress == "half" else "f4")
    if dress == "int":
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(values).astype("i8")
    frozen = values.copy()
    frozen.flags.writeable = False
    return frozen


@dataclass(frozen=True)
class Call:
    """Arguments by name, for a falsifying example to print."""

    arguments: dict[str, Any]

    def __repr__(self) -> str:
        with np.printoptions(floatmode="unique", threshold=60):
            return ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())


@st.composite
def calls(
    draw: DrawFn,
    arguments: dict[str, Kind],
    settings: dict[str, Kind],
    fixed: dict[str, Any],
    at_least: int,
    at_most: int,
) -> Call:
    """Arguments of one call: as asked for, in odd dress, with one fault, with wrong settings, or anything at all."""
    size = draw(sizes(at_least, at_most))
    manner = draw(st.sampled_from(["plain", "dressed", "one fault", "one fault", "setting", "anything"]))
    values = {name: draw(kind.valid(size)) for name, kind in arguments.items() if kind is not RUN}
    values |= {
        name: draw(runs(size, faulty=manner == "one fault" and draw(st.booleans())))
        for name, kind in arguments.items()
        if kind is RUN
    }
    values |= fixed
    chosen = [name for name in settings if draw(st.booleans())]
    values |= {name: draw(settings[name].valid(size)) for name in chosen}
    plain = [name for name, kind in arguments.items() if kind is not RUN]
    if manner == "dressed":
        values |= {name: dressed(draw, values[name]) for name, kind in arguments.items() if kind.dressed}
    elif manner == "one fault" and plain:
        name = draw(st.sampled_from(plain))
        values[name] = spoilt(draw, values[name]) if arguments[name].dressed else draw(arguments[name].wrong)
    elif manner == "setting" and settings:
        name = draw(st.sampled_from(list(settings)))
        values[name] = draw(settings[name].wrong)
    elif manner == "anything":
        values |= {name: draw(arguments[name].wrong) for name in plain}
    return Call({name: values[name] for name in (*arguments, *values) if name in values})
