"""Everything that one run holds, checked once on construction."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.core import limits, validation
from engine.core.errors import InvalidInput
from engine.core.types import BoolArray, FloatArray, IntArray, RunData
from engine.features import FEATURES
from engine.store import half

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
MARKUP = frozenset("<>&\"'`\\")
ENTROPY_SLACK = 1e-5
"""Float32 arithmetic may leave [0, 1] by a few units in the last place; so much is clipped, more is refused."""
EPOCH_COLUMNS = ("epoch", "layer", "mean_entropy", "std_entropy")
METRIC_COLUMNS = ("epoch", "name", "value")
MOST_INTEGER, MOST_BIGINT = 2**31 - 1, 2**63 - 1
"""The largest numbers that the cache's columns of these types hold; a record beyond them could never be published."""
_ROWS_AT_A_TIME = 8192
_FILLED_IN: Any = None
"""Default of a field that is never None once the record exists: it is derived, or empty, if not given."""

Float32Array = NDArray[np.float32]


@dataclass(frozen=True)
class Layer:
    """A routing layer of the profile: its name in the model and how many sources it mixes, where that is known."""

    name: str
    n_sources: int | None = None


def check_run_id(run_id: object) -> str:
    """A run id that is safe as a file name on any system."""
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise InvalidInput(
            "run_id", "1 to 120 letters, digits, dots, dashes or underscores, the first a letter or digit", repr(run_id)
        )
    return run_id


def check_name(argument: str, value: object) -> str:
    """A short printable name without markup that does not start like a spreadsheet formula."""
    plain = isinstance(value, str) and 0 < len(value) <= 120 and value.isprintable() and not MARKUP & set(value)
    if not plain or not (str(value)[0].isalnum() or str(value)[0] == "_"):
        raise InvalidInput(
            argument, "1 to 120 printable characters without markup, the first a letter, digit or _", repr(value)[:140]
        )
    return str(value)


def top_probability(logits: FloatArray) -> FloatArray:
    """(n,) float64 max_k softmax(z)_k = 1 / sum_k exp(z_k - max z), as `RunData.probs` computes it, in row blocks."""
    confidence = np.empty(len(logits))
    for start in range(0, len(logits), _ROWS_AT_A_TIME):
        block = logits[start : start + _ROWS_AT_A_TIME].astype(np.float64)
        block -= block.max(axis=1, keepdims=True)
        confidence[start : start + _ROWS_AT_A_TIME] = 1 / np.exp(block, out=block).sum(axis=1)
    return confidence


def _single(name: str, values: FloatArray) -> Float32Array:
    """float32, the precision in which the cache keeps profiles, logits and extra columns."""
    with np.errstate(over="ignore"):
        single = np.array(values, dtype=np.float32, order="C")
    if not np.isfinite(single).all():
        raise InvalidInput(name, "numbers within single precision (below 3.4e38)", f"{np.abs(values).max():g}")
    return single


def _classes(name: str, values: Any, n_classes: int | None, length: int) -> IntArray:
    """Class numbers, below 2^31 where nobody knows how many classes there are."""
    try:
        return validation.labels(values, n_classes if n_classes is not None else 2**31, length)
    except InvalidInput as error:
        raise InvalidInput(name, error.expected, error.got) from error


def _json(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy that is sure to survive a round trip through JSON in UTF-8, which knows no half characters."""
    try:
        text = json.dumps(dict(value), allow_nan=False, ensure_ascii=False).encode()
        copy = json.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidInput(name, "a mapping that JSON can hold (strings, finite numbers, lists)", str(error)) from error
    validation.whole(f"bytes of {name}", len(text), 0, limits.MOST_TEXT)
    return dict(copy)


def _checked_layer(layer: Layer) -> Layer:
    n_sources = layer.n_sources
    if n_sources is not None:
        n_sources = validation.whole("layers.n_sources", n_sources, 2, MOST_INTEGER)
    return Layer(check_name("layers", layer.name), n_sources)


def _frame(name: str, frame: pd.DataFrame | None, columns: tuple[str, ...]) -> pd.DataFrame:
    """The wanted columns with whole epochs and layers and finite values."""
    if frame is None:
        frame = pd.DataFrame({column: [] for column in columns})
    if not isinstance(frame, pd.DataFrame):
        raise InvalidInput(name, f"a table with columns {', '.join(columns)}", validation.shown(frame))
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise InvalidInput(name, f"columns {', '.join(columns)}", f"no {', '.join(missing)}")
    checked: dict[str, Any] = {}
    for column in columns:
        values = frame[column].to_numpy()
        if column == "name":
            checked[column] = pd.Series([check_name(f"{name}.name", value) for value in values], dtype="str")
        elif values.size == 0:
            checked[column] = np.empty(0, dtype=np.int64 if column in ("epoch", "layer") else np.float64)
        else:
            numbers = validation.vector(f"{name}.{column}", values).astype(np.float64)
            unfit = (numbers != np.floor(numbers)) | (np.abs(numbers) > MOST_INTEGER)
            if column in ("epoch", "layer") and unfit.any():
                raise InvalidInput(
                    f"{name}.{column}", f"whole numbers up to {MOST_INTEGER:,}", f"{numbers[unfit][0]:.12g}"
                )
            checked[column] = numbers.astype(np.int64) if column in ("epoch", "layer") else numbers
    return pd.DataFrame(checked)


@dataclass(frozen=True, eq=False, kw_only=True)
class RunRecord:
    """One run as a shard holds it: n samples, K classes, L routing layers.

    Give either `logits` and `labels`, from which confidence, predictions and correctness are derived, or `confidence`
    with `correct` (or with `labels` and `predictions`, from which correctness is derived).

    Attributes
    ----------
    logits : (n, K) float32 or None; confidence is derived from them in single precision. Of 50 classes and more they
        are kept rounded to half precision, and only then may the confidence before rounding be given beside them.
    confidence : (n,) float64.  correct : (n,) bool.  labels, predictions : (n,) int64 or None.
    entropies : (n, L) float32 routing profile in [0, 1]; L is 0 without one.
    layers : L names and numbers of sources; H_1, H_2, ... if not given.
    extra : further per-sample columns, float32.
    epochs : columns epoch, layer (from 1), mean_entropy, std_entropy.  epoch_metrics : columns epoch, name, value.
    clusters : (n,) any labels of what samples share (the sequence of a token), kept as 0, 1, ...; None without.
    config, provenance, capture (how the profile was read off the model) : what JSON can hold.
    created_at : UTC, without a time zone; now if not given.
    """

    run_id: str
    suite: str
    backbone: str
    dataset: str
    variant: str
    block_size: int | None = None
    seed: int | None = None
    epoch: int | None = None
    logits: FloatArray | None = None
    labels: IntArray | None = None
    predictions: IntArray | None = None
    confidence: FloatArray = _FILLED_IN
    correct: BoolArray = _FILLED_IN
    n_classes: int | None = None
    entropies: FloatArray = _FILLED_IN
    layers: Sequence[Layer] = ()
    extra: Mapping[str, FloatArray] = field(default_factory=dict)
    clusters: IntArray | None = None
    epochs: pd.DataFrame = _FILLED_IN
    epoch_metrics: pd.DataFrame = _FILLED_IN
    config: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    capture: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = _FILLED_IN

    def __post_init__(self) -> None:
        check_run_id(self.run_id)
        for name in ("suite", "backbone", "dataset", "variant"):
            check_name(name, getattr(self, name))
        for name, minimum, maximum in (
            ("block_size", 1, MOST_INTEGER),
            ("seed", 0, MOST_BIGINT),
            ("epoch", 0, MOST_INTEGER),
            ("n_classes", 2, limits.MOST_CLASSES),
        ):
            if getattr(self, name) is not None:
                self._set(name, validation.whole(name, getattr(self, name), minimum, maximum))
        if self.logits is not None:
            self._take_logits()
        else:
            self._take_confidence()
        validation.whole("number of samples", self.n_samples, 1, limits.MOST_SAMPLES)
        self._take_profile()
        validation.whole("number of layers", self.n_layers, 0, limits.MOST_LAYERS)
        self._take_extra()
        validation.whole("number of extra columns", len(self.extra), 0, limits.MOST_COLUMNS)
        self._set("epochs", _frame("epochs", self.epochs, EPOCH_COLUMNS))
        if not self.epochs["layer"].between(1, self.n_layers).all():
            raise InvalidInput("epochs.layer", f"layer numbers from 1 to {self.n_layers}", "others")
        self._set("epoch_metrics", _frame("epoch_metrics", self.epoch_metrics, METRIC_COLUMNS))
        if self.clusters is not None:
            self._set("clusters", validation.clusters(self.clusters, self.n_samples))
        for name in ("config", "provenance", "capture"):
            self._set(name, _json(name, getattr(self, name)))
        created: object = datetime.now(UTC) if self.created_at is None else self.created_at
        if not isinstance(created, datetime):
            raise InvalidInput("created_at", "a date with time", validation.shown(created))
        self._set("created_at", created.astimezone(UTC).replace(tzinfo=None) if created.tzinfo else created)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _take_logits(self) -> None:
        if self.labels is None:
            raise InvalidInput("labels", "class numbers beside the logits", "none")
        logits = _single("logits", validation.matrix("logits", self.logits))  # type: ignore[arg-type]
        n, n_classes = logits.shape
        for name in ("confidence", "correct", "predictions"):
            if getattr(self, name) is not None and not (name == "confidence" and half.is_half(logits)):
                raise InvalidInput(name, "nothing: it is derived from the logits and labels", "values")
        if n_classes < 2:
            raise InvalidInput("logits", "at least two classes", f"{n_classes}")
        if self.n_classes not in (None, n_classes):
            raise InvalidInput("n_classes", f"{n_classes}, the number of logit columns", f"{self.n_classes}")
        confidence, given = top_probability(logits), self.confidence
        if given is not None:
            given = validation.confidence(given, n).astype(np.float64)
            if (np.abs(np.log(np.maximum(given, 1e-12)) - np.log(confidence)) > half.log_slack(logits)).any():
                raise InvalidInput("confidence", "the top softmax probability of the logits, up to rounding", "others")
        self._set("logits", half.rounded(logits))
        self._set("n_classes", validation.whole("number of classes", n_classes, 2, limits.MOST_CLASSES))
        self._set("labels", _classes("labels", self.labels, n_classes, n))
        self._set("predictions", logits.argmax(axis=1).astype(np.int64))
        self._set("confidence", confidence if given is None else given)
        self._set("correct", self.predictions == self.labels)

    def _take_confidence(self) -> None:
        given: Any = self.confidence
        correct: Any = self.correct
        if given is None:
            raise InvalidInput("confidence", "confidence and correctness, or logits and labels", "neither")
        confidence = validation.confidence(given).astype(np.float64)
        n = confidence.size
        self._set("confidence", confidence)
        for name in ("labels", "predictions"):
            if getattr(self, name) is not None:
                self._set(name, _classes(name, getattr(self, name), self.n_classes, n))
        agree = None
        if self.labels is not None and self.predictions is not None:
            agree = self.predictions == self.labels
        if correct is None:
            if agree is None:
                raise InvalidInput("correct", "correctness, or labels and predictions to derive it from", "none")
            self._set("correct", agree)
        else:
            self._set("correct", validation.correct(correct, n).copy())
            if agree is not None and (agree != self.correct).any():
                row = int(np.flatnonzero(agree != self.correct)[0])
                raise InvalidInput("correct", "what labels and predictions say", f"a contradiction in row {row}")

    def _take_profile(self) -> None:
        if self.entropies is None or validation.real("entropies", self.entropies).size == 0:
            profile = np.empty((self.n_samples, 0), dtype=np.float32)
        else:
            profile = _single("entropies", validation.matrix("entropies", self.entropies, self.n_samples))
            low, high = float(profile.min()), float(profile.max())
            if low < -ENTROPY_SLACK or high > 1 + ENTROPY_SLACK:
                raise InvalidInput(
                    "entropies", "values in [0, 1] (divided by log of the sources)", f"values from {low:g} to {high:g}"
                )
            np.clip(profile, 0, 1, out=profile)
        self._set("entropies", profile)
        if not isinstance(self.layers, Sequence) or not all(isinstance(layer, Layer) for layer in self.layers):
            raise InvalidInput("layers", "a list of layers", validation.shown(self.layers))
        layers = tuple(self.layers) or tuple(Layer(f"H_{number}") for number in range(1, self.n_layers + 1))
        if len(layers) != self.n_layers:
            raise InvalidInput("layers", f"{self.n_layers} layers, as in entropies", f"{len(layers)}")
        self._set("layers", tuple(_checked_layer(layer) for layer in layers))

    def _take_extra(self) -> None:
        if not isinstance(self.extra, Mapping):
            raise InvalidInput("extra", "columns by name", validation.shown(self.extra))
        taken: dict[str, Float32Array] = {}
        for name, column in self.extra.items():
            check_name("extra", name)
            if name in FEATURES:
                raise InvalidInput("extra", "names other than the built-in features", repr(name))
            argument = f"extra[{name!r}]"
            taken[name] = _single(argument, validation.vector(argument, column, self.n_samples))
        self._set("extra", taken)

    @property
    def n_samples(self) -> int:
        return int(self.confidence.size)

    @property
    def n_layers(self) -> int:
        return int(self.entropies.shape[1])

    @property
    def has_logits(self) -> bool:
        return self.logits is not None

    @property
    def extra_names(self) -> tuple[str, ...]:
        return tuple(self.extra)

    @property
    def n_correct(self) -> int:
        return int(self.correct.sum())

    @cached_property
    def accuracy(self) -> float:
        return self.n_correct / self.n_samples

    def data(self) -> RunData:
        """What `Cache.load` gives for this run once it is published."""
        return RunData(
            run_id=self.run_id,
            confidence=self.confidence,
            correct=self.correct,
            entropies=self.entropies.astype(np.float64),
            logits=None if self.logits is None else self.logits.astype(np.float64),
            labels=self.labels,
            predictions=self.predictions,
            extra={name: column.astype(np.float64) for name, column in self.extra.items()},
            clusters=self.clusters,
        )
