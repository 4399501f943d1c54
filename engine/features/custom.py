"""Routing scalars that a viewer builds: a summary of chosen layers, optionally times confidence.

Sums over layers run layer by layer in float64, in depth order. Floating-point addition is not associative: a fixed
order gives the same doubles, and so the same tertiles, whatever the memory layout of a profile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.core import validation
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import FloatArray, RunData


def layer_mean(profile: FloatArray) -> FloatArray:
    """(n,) mean over layers, summed in depth order."""
    total = profile[:, 0].astype(np.float64)
    for layer in range(1, profile.shape[1]):
        total = total + profile[:, layer]
    return total / profile.shape[1]


def layer_std(profile: FloatArray) -> FloatArray:
    """(n,) population standard deviation over layers, two passes in depth order."""
    centre = layer_mean(profile)
    total = np.zeros_like(centre)
    for layer in range(profile.shape[1]):
        deviation = profile[:, layer] - centre
        total = total + deviation * deviation
    return np.sqrt(total / profile.shape[1])


def layer_depths(layers: Sequence[int]) -> FloatArray:
    """(L,) depth of chosen layers, in the order of their numbers: from 0 (the first) to 1 (the last), minus the mean.

    Layers 1, 2 and 10 lie at depths 0, 1/9 and 1.
    """
    if len(layers) < 2:
        raise InvalidInput("layers", "at least two layers for a slope", f"{len(layers)}")
    depth = (np.asarray(layers, dtype=np.float64) - layers[0]) / (layers[-1] - layers[0])
    centred: FloatArray = depth - depth.mean()
    return centred


def layer_slope(profile: FloatArray, layers: Sequence[int]) -> FloatArray:
    """(n,) least-squares slope of H_l on depth (`layer_depths`): sum_l d_l H_l / sum_l d_l^2, summed in depth order."""
    depth = layer_depths(layers)
    total = np.zeros(profile.shape[0])
    for layer in range(profile.shape[1]):
        total = total + depth[layer] * profile[:, layer]
    return total / float(depth @ depth)


SUMMARIES: dict[str, Callable[[FloatArray, Sequence[int]], FloatArray]] = {
    "mean": lambda profile, _: layer_mean(profile),
    "std": lambda profile, _: layer_std(profile),
    "max": lambda profile, _: profile.max(axis=1),
    "min": lambda profile, _: profile.min(axis=1),
    "range": lambda profile, _: profile.max(axis=1) - profile.min(axis=1),
    "first": lambda profile, _: profile[:, 0],
    "last": lambda profile, _: profile[:, -1],
    "slope": layer_slope,
}
"""Of (n, L) entropies of layers with these numbers."""

_SUMMARY_WORDS = {
    "mean": "mean routing entropy of",
    "std": "spread of routing entropy over",
    "max": "largest routing entropy of",
    "min": "smallest routing entropy of",
    "range": "range of routing entropy over",
    "slope": "slope of routing entropy over",
}
"""Of several layers; `first` and `last` are one layer each."""


@dataclass(frozen=True)
class CustomFeature:
    """A scalar of one's own: a summary of chosen layers, optionally times confidence.

    `layers` are numbered from 1 to L, as in H_1..H_L and in the cache's `layers` table.
    """

    layers: tuple[int, ...]
    summary: str = "std"
    times_confidence: bool = False

    def __post_init__(self) -> None:
        validation.choice("summary", self.summary, SUMMARIES)
        object.__setattr__(self, "layers", _layer_numbers(self.layers))

    @property
    def name(self) -> str:
        """A compact name, such as `std(H1,H4)*c`."""
        listed = ",".join(f"H{layer}" for layer in self.layers)
        return f"{self.summary}({listed})" + ("*c" if self.times_confidence else "")

    @property
    def label(self) -> str:
        """The same in words, such as `spread of routing entropy over layers 1 to 4, times confidence`."""
        layers = sorted(set(self.layers))
        if self.summary in ("first", "last"):
            layers = [layers[0] if self.summary == "first" else layers[-1]]
        if len(layers) == 1 and self.summary not in ("std", "range", "slope"):
            words = f"routing entropy of layer {layers[0]}"
        else:
            words = f"{_SUMMARY_WORDS[self.summary]} layer{'s' if len(layers) > 1 else ''} {_listed(layers)}"
        return f"{words}, times confidence" if self.times_confidence else words


def _listed(layers: Sequence[int]) -> str:
    """`1 to 4, 7`: runs of three and more are drawn together."""
    parts: list[list[int]] = []
    for layer in layers:
        if parts and layer == parts[-1][-1] + 1:
            parts[-1].append(layer)
        else:
            parts.append([layer])
    texts = [f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts]
    return ", ".join(texts)


def _layer_numbers(layers: object) -> tuple[int, ...]:
    """One or more whole numbers from 1."""
    if isinstance(layers, np.ndarray) and layers.ndim == 1:
        layers = layers.tolist()
    if not isinstance(layers, (tuple, list, range)) or len(layers) == 0:
        raise InvalidInput("layers", "one or more layer numbers, from 1", validation.shown(layers))
    return tuple(validation.whole("layers", layer, 1) for layer in layers)


def check_layers(layers: Sequence[int], n_layers: int) -> tuple[int, ...]:
    """Distinct layer numbers of an L-layer profile, in depth order."""
    if validation.whole("n_layers", n_layers, 0) == 0:
        raise MissingData("routing profile", "a custom feature", "choose a run with routing layers")
    chosen = tuple(sorted(set(_layer_numbers(layers))))
    if chosen[-1] > n_layers:
        raise MissingData(f"layer {chosen[-1]}", "this custom feature", f"it has layers 1 to {n_layers}")
    return chosen


def custom(run: RunData, layers: Sequence[int], summary: str = "std", times_confidence: bool = False) -> FloatArray:
    """(n,) a summary (`SUMMARIES`) over chosen layers, numbered from 1, optionally times confidence."""
    chosen = check_layers(layers, run.n_layers)
    validation.choice("summary", summary, SUMMARIES)
    profile = validation.matrix("entropies", run.entropies[:, [layer - 1 for layer in chosen]])
    values = SUMMARIES[summary](profile, chosen)
    return values * validation.confidence(run.confidence) if times_confidence else values
