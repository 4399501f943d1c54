"""Reads the routing profile, or a hidden-state summary, out of one ordinary forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cache_builder.models.routed import Recorder, RoutedBlocks
from cache_builder.models.seams import stages
from engine.errors import InvalidInput


@dataclass(frozen=True)
class RoutingLayer:
    """One kept sub-layer: where it is, and how many sources T it mixes (always more than one)."""

    name: str
    n_sources: int


class Capture:
    """Hands out what the latest forward pass left behind, one (batch, L) matrix per pass."""

    def __init__(self, names: list[str], take: Callable[[], Tensor]) -> None:
        self.names = names
        self._take = take

    def take(self) -> Tensor:
        """(batch, L) values of the one forward pass since the last call."""
        values = self._take()
        if values.shape[1] != len(self.names):
            raise InvalidInput(
                "capture", f"one forward pass ({len(self.names)} values) per take()", f"{values.shape[1]} values"
            )
        return values


def _routed_stages(model: nn.Module) -> dict[str, RoutedBlocks]:
    return {path: module for path, module in model.named_modules() if isinstance(module, RoutedBlocks)}


def _prefix(stage: int, n_stages: int) -> str:
    """What the names of a stage's blocks start with; a model with one stage does not number it."""
    return f"stage {stage} " if n_stages > 1 else ""


def routing_layers(model: nn.Module) -> list[RoutingLayer]:
    """The sub-layers of the routing profile in depth order; those with a single source are left out."""
    found = _routed_stages(model)
    layers = []
    for number, stage in enumerate(found.values(), start=1):
        prefix = _prefix(number, len(found))
        for block in range(stage.depth):
            if stage.n_sources(block) > 1:
                layers += [
                    RoutingLayer(f"{prefix}block {block + 1} {part}", stage.n_sources(block))
                    for part in ("attention", "MLP")
                ]
    return layers


@contextmanager
def capture_entropies(model: nn.Module) -> Iterator[Capture]:
    """Every forward pass inside leaves H_1..H_L per sample: the token mean of entropy(alpha_l), over log T_l."""
    recorder = Recorder()
    capture = Capture([layer.name for layer in routing_layers(model)], recorder.take)
    routed = _routed_stages(model).values()
    for stage in routed:
        stage.recorder = recorder
    try:
        yield capture
    finally:
        for stage in routed:
            stage.recorder = None


def _without_blocks(model: nn.Module) -> InvalidInput:
    return InvalidInput(
        "backbone", "a model that lists its blocks, each with one state as its output", type(model).__name__
    )


def _block_paths(model: nn.Module) -> dict[str, str]:
    """Module path and readable name: blocks of a ViT or Swin, else the stages that timm lists in `feature_info`."""
    try:
        found = stages(model)
    except InvalidInput:
        listed = [str(stage["module"]) for stage in getattr(model, "feature_info", ())]
        there = {path for path, _ in model.named_modules()}
        if not listed or not there.issuperset(listed):
            raise _without_blocks(model) from None
        return {path: path for path in listed}
    paths: dict[str, str] = {}
    for number, (path, blocks) in enumerate(found.items(), start=1):
        prefix = _prefix(number, len(found))
        paths |= {f"{path}.{name}": f"{prefix}block {int(name) + 1}" for name, _ in blocks.named_children()}
    return paths


@contextmanager
def capture_block_norms(model: nn.Module) -> Iterator[Capture]:
    """For a model without routing: the token-mean L2 norm of each block's output, per sample.

    Channels are last in the outputs of transformers, and in four-dimensional ones of models that say so
    (`output_fmt`); in every other four-dimensional output they come second.
    """
    paths = _block_paths(model)
    channels_last = getattr(model, "output_fmt", "NCHW") == "NHWC"
    columns: list[Tensor] = []

    def summarise(_module: nn.Module, _inputs: object, output: object) -> None:
        if not isinstance(output, Tensor) or output.ndim < 3:
            raise _without_blocks(model)
        channel = -1 if output.ndim == 3 or channels_last else 1
        columns.append(torch.linalg.vector_norm(output, dim=channel).flatten(1).mean(dim=1))

    def take() -> Tensor:
        values = torch.stack(columns, dim=1) if columns else torch.empty(0, 0)
        columns.clear()
        return values

    handles = [model.get_submodule(path).register_forward_hook(summarise) for path in paths]
    try:
        yield Capture([f"{name} norm" for name in paths.values()], take)
    finally:
        for handle in handles:
            handle.remove()
