"""One pass over a test set: logits and the routing profile (or block norms), batch by batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cache_builder.datasets import Split, to_input
from cache_builder.routing import capture_block_norms, capture_entropies, routing_layers

EVALUATION_BATCH = 250


@dataclass(frozen=True, eq=False)
class Outputs:
    """logits (n, K) and one value per sample and captured layer (n, L), both float32."""

    logits: NDArray[np.float32]
    captured: NDArray[np.float32]
    names: tuple[str, ...]
    is_routing: bool

    def accuracy(self, labels: NDArray[np.int64]) -> float:
        return float((self.logits.argmax(axis=1) == labels).mean())


@torch.inference_mode()
def evaluate(
    model: nn.Module, split: Split, moments: tuple[Tensor, Tensor], image_size: int, device: torch.device
) -> Outputs:
    """Run the model once over a split in evaluation mode; nothing but the outputs grows with n.

    A model with routing is captured as entropies, any other as the token-mean norm of each block's output.
    """
    was_training = model.training
    model.eval()
    try:
        return _evaluate(model, split, moments, image_size, device)
    finally:
        model.train(was_training)


def _evaluate(
    model: nn.Module, split: Split, moments: tuple[Tensor, Tensor], image_size: int, device: torch.device
) -> Outputs:
    is_routing = bool(routing_layers(model))
    with (capture_entropies if is_routing else capture_block_norms)(model) as capture:
        names = tuple(capture.names)
        logits: NDArray[np.float32] | None = None
        captured = np.empty((len(split.labels), len(names)), dtype=np.float32)
        for start in range(0, len(split.labels), EVALUATION_BATCH):
            rows = slice(start, start + EVALUATION_BATCH)
            images = torch.from_numpy(np.ascontiguousarray(split.images[rows])).to(device)
            batch = model(to_input(images, moments, image_size)).float().cpu().numpy()
            if logits is None:
                logits = np.empty((len(split.labels), batch.shape[1]), dtype=np.float32)
            logits[rows] = batch
            captured[rows] = capture.take().float().cpu().numpy()
    assert logits is not None, "a split has at least one sample"
    return Outputs(logits, captured, names, is_routing)
