"""Reads the routing profile out of one ordinary forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

from cache_builder.capture import Capture
from cache_builder.models.routed import Recorder, Routed
from engine.core.errors import InvalidInput


@dataclass(frozen=True)
class RoutingLayer:
    """One kept place: where it is, and over how many alternatives T it routes (always more than one)."""

    name: str
    n_sources: int


def _routed(model: nn.Module) -> list[Routed]:
    return [module for module in model.modules() if isinstance(module, Routed)]


def routing_layers(model: nn.Module) -> list[RoutingLayer]:
    """The places of the routing profile in the order of a forward pass; those with a single source are left out."""
    return [RoutingLayer(name, n_sources) for module in _routed(model) for name, n_sources in module.places()]


@contextmanager
def capture_entropies(model: nn.Module) -> Iterator[Capture]:
    """Every forward pass inside leaves H_1..H_L per sample: the token mean of entropy(alpha_l), over log T_l."""
    recorder, names = Recorder(), [layer.name for layer in routing_layers(model)]

    def take() -> tuple[list[str], Tensor]:
        values = recorder.take()
        if values.shape[1] != len(names):
            raise InvalidInput(
                "capture", f"one forward pass ({len(names)} values) per take()", f"{values.shape[1]} values"
            )
        return names, values

    routed = _routed(model)
    for module in routed:
        module.recorder = recorder
    try:
        yield Capture(take)
    finally:
        for module in routed:
            module.recorder = None
