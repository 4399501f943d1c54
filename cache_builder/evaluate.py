"""One pass over a test set: logits and the routing profile (or block norms), batch by batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cache_builder.datasets import Images, to_input
from cache_builder.progress import UNDER_WAY, quiet
from cache_builder.taps import NormTap, RoutedTap, routing_places, tap
from engine.core.types import Progress

EVALUATION_BATCH = 250


@dataclass(frozen=True, eq=False)
class Outputs:
    """logits (n, K) and one value per sample and captured layer (n, L), both float32."""

    logits: NDArray[np.float32]
    captured: NDArray[np.float32]
    names: tuple[str, ...]
    is_routing: bool

    def as_plain(self) -> tuple[Tensor, Tensor, list[str], bool]:
        """What a checkpoint can hold."""
        return torch.from_numpy(self.logits), torch.from_numpy(self.captured), list(self.names), self.is_routing

    @staticmethod
    def from_plain(plain: tuple[Tensor, Tensor, list[str], bool]) -> Outputs:
        logits, captured, names, is_routing = plain
        return Outputs(logits.numpy(), captured.numpy(), tuple(names), is_routing)

    def accuracy(self, labels: NDArray[np.int64]) -> float:
        return float((self.logits.argmax(axis=1) == labels).mean())


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and afterwards in the one it was in."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    images: Images,
    moments: tuple[Tensor, Tensor],
    image_size: int,
    device: torch.device,
    progress: Progress = quiet,
) -> Outputs:
    """Run the model once over some images in evaluation mode; nothing but the outputs grows with n.

    A model with routing is captured as entropies, any other as the token-mean norm of each block's output.
    """
    how = RoutedTap() if routing_places(model) else NormTap()
    n_samples, done, started = len(images.labels), 0, time.perf_counter()
    logits, captured = np.empty((n_samples, 0), np.float32), np.empty((n_samples, 0), np.float32)
    with evaluating(model), tap(model, how) as capture:
        for pixels in images.batches(EVALUATION_BATCH):
            batch = model(to_input(torch.from_numpy(pixels).to(device), moments, image_size)).float().cpu().numpy()
            values = capture.take().float().cpu().numpy()
            if done == 0:  # the first pass shows how many classes and layers there are
                logits = np.empty((n_samples, batch.shape[1]), np.float32)
                captured = np.empty((n_samples, values.shape[1]), np.float32)
            rows = slice(done, done + len(batch))
            logits[rows], captured[rows] = batch, values
            done += len(batch)
            rate = done / (time.perf_counter() - started)
            end = UNDER_WAY if done < n_samples else ""
            progress(done / n_samples, f"{done:,} of {n_samples:,} images, {rate:,.0f} images per second{end}")
    return Outputs(logits, captured, tuple(capture.names), how.is_routing)
