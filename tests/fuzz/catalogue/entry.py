"""One public function with what its arguments are meant to be, and what several entries share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.core import contingency
from engine.core.types import RunData
from engine.gaps.settings import TestSettings
from tests.fuzz.strategies import (
    BINS,
    CONFIDENCE,
    CORRECT,
    LABELS,
    MATCHING,
    PROBABILITIES,
    QUANTILES,
    RHO,
    RUN,
    RUN_FIELDS,
    SEED,
    Kind,
    choice,
    whole,
)

EMPTY_BIN = "a bin without samples has no such number"
FEW = "too few samples in the group for it"
UNTESTABLE = "the data cannot move the statistic"
NO_INTERVAL = "no bootstrap asked for, or a metric without an interval"
NO_PROFILE = "the run has nothing to cut into tertiles"
CONSTANT = "the quantity does not vary, so it has no R squared"
FAR = "every kernel weight underflows there"
ONE_RUN = "one run has no spread"


@dataclass(frozen=True)
class Entry:
    """A function with its arguments (always given), settings (given or left out) and what is the same in every call.

    `covers` lists the public functions that the call exercises, `also` what else an error may name as the culprit.
    """

    name: str
    function: Callable[..., object]
    arguments: Mapping[str, Kind]
    settings: Mapping[str, Kind] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    covers: tuple[object, ...] = ()
    also: tuple[str, ...] = ()
    at_least: int = 0
    at_most: int = 300

    @property
    def named(self) -> set[str]:
        """What an error may call the culprit."""
        fields = RUN_FIELDS if RUN in self.arguments.values() else ()
        return {*self.arguments, *self.settings, *self.fixed, *fields, *self.also}


def as_run(arguments: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """The arguments with runs put together."""
    return {name: RunData("run", **value) if kinds.get(name) is RUN else value for name, value in arguments.items()}


PAIR = {"confidence": CONFIDENCE, "correct": CORRECT}
TRIPLE = {**PAIR, "rho": RHO}
PREDICTED = {"probabilities": PROBABILITIES, "labels": LABELS}
CUT = {"n_bins": BINS, "matching": MATCHING, "quantiles": QUANTILES}
SUPPORT = {"min_support": whole(1, 6)}
DRAWS = {"seed": SEED}
P_METHOD = choice("asymptotic", "permutation")
ACCURACIES = dict.fromkeys(
    ("mean_confidence", "accuracy", "accuracy_low", "accuracy_high", "accuracy_mid", "gap"), EMPTY_BIN
)


def on_counts(function: Callable[..., object]) -> Callable[..., object]:
    """A function of counts, given samples."""

    def call(confidence: Any, correct: Any, rho: Any, n_bins: Any = 15, **settings: Any) -> object:
        return function(contingency.tabulate(confidence, correct, rho, n_bins=n_bins), **settings)

    return call


def with_settings(function: Callable[..., object]) -> Callable[..., object]:
    """A function that takes `TestSettings`, given each of them by its name."""

    def call(*arguments: Any, **given: Any) -> object:
        chosen = {name: given.pop(name) for name in ("n_bins", "min_support", "quantiles") if name in given}
        return function(*arguments, settings=TestSettings(**chosen), **given)

    return call
