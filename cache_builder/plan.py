"""What a grid would take, without training: models are built on torch's `meta` device, where nothing has values."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from cache_builder.config import RunConfig
from cache_builder.datasets import dataset_facts
from cache_builder.taps import routing_places
from cache_builder.train import build_model, epoch_length, input_size, loss_of

STATE_BYTES = 16
"""Per parameter in float32: the weight, its gradient and AdamW's two moments."""


@dataclass(frozen=True)
class Planned:
    """One run. `activation_bytes` is what a forward pass of one batch keeps for the backward pass, in float32."""

    run_id: str
    parameters: int
    n_layers: int
    steps: int
    activation_bytes: int

    @property
    def gigabytes(self) -> float:
        return (STATE_BYTES * self.parameters + self.activation_bytes) / 2**30


@lru_cache(maxsize=64)
def _size(config: RunConfig, n_classes: int, channels: int) -> tuple[int, int, int]:
    """Parameters, routing layers, and the bytes of all tensors that one training step saves, each storage once."""
    with torch.device("meta"):
        model = build_model(config, n_classes, channels)
        side = input_size(config)
        images, labels = torch.empty(config.batch_size, channels, side, side), torch.empty(config.batch_size).long()
    weights = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            saved[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = loss_of(model, images, labels, config)  # kept, and with it everything saved, until the sum is taken
        n_bytes = sum(storage.nbytes() for storage in saved.values())
    assert loss.requires_grad
    return sum(parameter.numel() for parameter in model.parameters()), len(routing_places(model)), n_bytes


def plan(config: RunConfig, data: Path) -> Planned:
    """What one run would take."""
    facts = dataset_facts(config.dataset, data)
    n_train = facts.n_train - (config.validation or 0) - (config.held_out or 0)
    _, per_epoch = epoch_length(config, min(n_train, config.limit_train or n_train))
    alike = RunConfig.from_mapping({**config.as_dict(), "suite": "plan", "seed": 0, "dataset": "any", "init": None})
    parameters, n_layers, n_bytes = _size(alike, facts.n_classes, facts.channels)
    return Planned(config.run_id, parameters, n_layers, per_epoch * config.epochs, n_bytes)


def plan_table(runs: Sequence[Planned]) -> str:
    """One line per run, and the sum."""
    rows = [("run", "parameters", "routing layers", "steps", "memory")]
    for run in runs:
        size = f"{run.parameters / 1e6:.3f} M"
        rows.append((run.run_id, size, str(run.n_layers), f"{run.steps:,}", f"{run.gigabytes:.1f} GB"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    lines += [
        f"{len(runs)} runs, {sum(run.steps for run in runs):,} steps.",
        "Memory: weights, gradients, AdamW's moments and one batch's activations, in float32; "
        "mixed precision takes about half of the activations.",
    ]
    return "\n".join(lines)
