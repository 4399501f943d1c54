"""The models of `cache_builder.models`, which hand their weights over themselves."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from cache_builder.models.routed import Recorder, RoutedBlocks
from cache_builder.models.seams import stage_prefix
from cache_builder.taps.capture import Capture, Place, Tap
from engine.core.errors import InvalidInput


def _routed(model: nn.Module) -> list[RoutedBlocks]:
    return [module for module in model.modules() if isinstance(module, RoutedBlocks)]


def routing_places(model: nn.Module) -> tuple[Place, ...]:
    """The sub-layers of the routing profile in depth order; those with a single source are left out."""
    found = _routed(model)
    places = []
    for number, stage in enumerate(found, start=1):
        prefix = stage_prefix(number, len(found))
        for block in range(stage.depth):
            if stage.n_sources(block) > 1:
                places += [
                    Place(f"{prefix}block {block + 1} {part}", stage.n_sources(block)) for part in stage.sublayers
                ]
    return tuple(places)


@dataclass(frozen=True)
class RoutedTap(Tap):
    """H_1..H_L of our own models: reduced by their `Recorder`, many sub-layers at once, which costs the least."""

    name: ClassVar[str] = "routed"

    def attach(self, model: nn.Module, capture: Capture, undo: ExitStack) -> None:
        recorder, places = Recorder(), routing_places(model)
        for module in _routed(model):
            undo.callback(setattr, module, "recorder", module.recorder)
            module.recorder = recorder

        def finish(_output: object) -> None:
            values = recorder.take()
            if values.shape[1] != len(places):
                raise InvalidInput("model", f"{len(places)} routing layers in one pass", f"{values.shape[1]}")
            if places:
                capture.add_values(places, values)

        capture.finish = finish
