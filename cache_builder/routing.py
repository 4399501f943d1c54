"""Reads the routing profile out of one ordinary forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

from cache_builder.capture import Capture
from cache_builder.models.routed import Recorder, RoutedBlocks
from cache_builder.models.seams import stage_prefix
from engine.core.errors import InvalidInput


@dataclass(frozen=True)
class RoutingLayer:
    """One kept sub-layer: where it is, and how many sources T it mixes (always more than one)."""

    name: str
    n_sources: int


def _routed_stages(model: nn.Module) -> dict[str, RoutedBlocks]:
    return {path: module for path, module in model.named_modules() if isinstance(module, RoutedBlocks)}


def routing_layers(model: nn.Module) -> list[RoutingLayer]:
    """The sub-layers of the routing profile in depth order; those with a single source are left out."""
    found = _routed_stages(model)
    layers = []
    for number, stage in enumerate(found.values(), start=1):
        prefix = stage_prefix(number, len(found))
        for block in range(stage.depth):
            if stage.n_sources(block) > 1:
                layers += [
                    RoutingLayer(f"{prefix}block {block + 1} {part}", stage.n_sources(block))
                    for part in stage.sublayers
                ]
    return layers


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

    routed = _routed_stages(model).values()
    for stage in routed:
        stage.recorder = recorder
    try:
        yield Capture(take)
    finally:
        for stage in routed:
            stage.recorder = None
