"""The models of `cache_builder.models`, which hand their weights over themselves."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from cache_builder.models.routed import Recorder, Routed
from cache_builder.taps.capture import Capture, Place, Tap
from engine.core.errors import InvalidInput


def _routed(model: nn.Module) -> list[Routed]:
    return [module for module in model.modules() if isinstance(module, Routed)]


def routing_places(model: nn.Module) -> tuple[Place, ...]:
    """The places of the routing profile in the order of a forward pass; those with a single source are left out."""
    return tuple(Place(name, n_sources) for module in _routed(model) for name, n_sources in module.places())


@dataclass(frozen=True)
class RoutedTap(Tap):
    """H_1..H_L of our own models: reduced by their `Recorder`, many sub-layers at once, which costs the least."""

    name: ClassVar[str] = "routed"

    def attach(self, model: nn.Module, capture: Capture, undo: ExitStack) -> None:
        recorder, places = Recorder(), routing_places(model)
        for module in _routed(model):
            undo.callback(setattr, module, "recorder", module.recorder)
            module.recorder = recorder

        def finish(output: object) -> None:
            values = recorder.take()
            if output is not None and values.shape[1] != len(places):
                raise InvalidInput("model", f"{len(places)} routing layers in one pass", f"{values.shape[1]}")
            if places:
                capture.add_values(places, values)

        capture.finish = finish
