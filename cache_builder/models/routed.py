"""Attention-Residual mixing: a stack of transformer blocks whose sub-layers read a mixture of earlier states.

A sub-layer of block i (1-based) has T = 1 + floor((i - 1) / k) sources: the states at the start of the earlier
chunks of k blocks, and the running state. Its input is sum_t alpha_t V_t with, per token,

    alpha = softmax_t( w . RMSNorm_g(V_t) ) = softmax_t( (V_t . (w * g)) / rms(V_t) )

and its output is added to the running state, x <- x + f(LN(mix)). No normalised copy of a state is ever made, a
chunk's first state is scored once for all later sub-layers, and a block with T = 1 is the plain block itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn

SMALLEST_NORM = 1e-12  # keeps the score of an all-zero state finite

SubLayer = Callable[[nn.Module, Tensor], Tensor]
"""f(LN(.)) of one block, without the residual connection."""


class Recorder:
    """Collects the entropy of alpha over sources, one number per token, from every mixing sub-layer.

    The token means are taken once per forward pass and not once per sub-layer: on a small model the fixed cost of each
    tensor operation is most of the cost of capturing. What is kept until then is a D-th of one state per sub-layer.
    """

    def __init__(self) -> None:
        self.entropies: list[Tensor] = []  # (batch * tokens,) each
        self.maxima: list[float] = []  # log T, the largest entropy possible
        self.batch = 0

    def add(self, alpha: Tensor, batch: int) -> None:
        """Take alpha (T, batch * tokens) and keep only its entropy per token."""
        self.entropies.append(torch.special.entr(alpha).sum(dim=0))
        self.maxima.append(math.log(len(alpha)))
        self.batch = batch

    def take(self) -> Tensor:
        """(batch, L) normalised entropies H_l in [0, 1] since the last call."""
        if not self.entropies:
            return torch.empty(0, 0)
        stages = groupby(self.entropies, key=len)  # a stage's sub-layers see equally many tokens
        means = [
            torch.stack(list(stage)).view(-1, self.batch, size // self.batch).mean(dim=2) for size, stage in stages
        ]
        profile = torch.cat(means).T / means[0].new_tensor(self.maxima)
        self.entropies.clear()
        self.maxima.clear()
        return profile.clamp_(max=1.0)  # rounding may exceed 1 by one unit in the last place


def mixture(sources: list[Tensor], alpha: Tensor) -> Tensor:
    """sum_t alpha_t V_t for T sources (..., D) and alpha (T, tokens of all samples)."""
    weights = alpha.view(len(sources), *sources[0].shape[:-1], 1).unbind()
    if len(sources) == 2:
        return torch.lerp(sources[0], sources[1], weights[1])
    mixed = sources[0] * weights[0]
    # In place only where nothing is recorded for a gradient: a third of the memory traffic is saved.
    add = torch.addcmul if mixed.requires_grad else Tensor.addcmul_
    for source, weight in zip(sources[1:], weights[1:], strict=True):
        mixed = add(mixed, source, weight)
    return mixed


def scores(state: Tensor, scaled_queries: Tensor) -> Tensor:
    """(V . q) / ||V|| for one state (..., D) and rows q = sqrt(D) (w * g), which is (V . (w * g)) / rms(V).

    (M, tokens of all samples) for M rows, (tokens of all samples,) for a single vector.
    """
    flat = state.reshape(-1, state.shape[-1])
    norm = torch.linalg.vector_norm(flat, dim=-1).clamp_min(SMALLEST_NORM)
    return (flat @ scaled_queries if scaled_queries.ndim == 1 else scaled_queries @ flat.T) / norm


@dataclass(frozen=True, eq=False)
class Source:
    """A state at the start of a chunk, with its score for each sub-layer from `first_row` on."""

    state: Tensor
    scores: Tensor
    first_row: int

    def score(self, row: int) -> Tensor:
        return self.scores[row - self.first_row]


class RoutedBlocks(nn.Module):
    """Takes the place of a stage's `nn.Sequential` of blocks and keeps its parameter names.

    Every sub-layer (attention and MLP of each block, in that order) owns one row of `queries` and one of
    `norm_weights`, whether or not it has more than one source.
    """

    def __init__(self, blocks: nn.Sequential, dim: int, chunk: int, attention: SubLayer, mlp: SubLayer) -> None:
        super().__init__()
        for name, block in blocks.named_children():
            self.add_module(name, block)
        self.depth = len(blocks)
        self.chunk = chunk
        self.sublayers = (attention, mlp)
        self.queries = nn.Parameter(torch.zeros(2 * self.depth, dim))
        self.norm_weights = nn.Parameter(torch.ones(2 * self.depth, dim))
        self.recorder: Recorder | None = None

    def __iter__(self) -> Iterator[nn.Module]:
        raise TypeError(
            "the blocks of an Attention-Residual stage cannot be run one by one (gradient checkpointing and "
            "forward_intermediates do that); call the model itself"
        )

    def n_sources(self, block: int) -> int:
        """T of both sub-layers of a block, counted from 0."""
        return 1 + block // self.chunk

    def forward(self, state: Tensor) -> Tensor:
        scaled_queries = self.queries * self.norm_weights * math.sqrt(self.queries.shape[1])
        earlier: list[Source] = []
        start: Source | None = None
        for index, block in enumerate(self.children()):
            if index % self.chunk == 0 and self.chunk < self.depth:
                if start is not None:
                    earlier.append(start)
                first_row = max(2 * index, 2 * self.chunk)  # the first chunk has one source: nothing to score
                start = Source(state, scores(state, scaled_queries[first_row:]), first_row)
            if not earlier:
                state = block(state)
                continue
            for row, sublayer in enumerate(self.sublayers, start=2 * index):
                if start is not None and state is start.state:
                    running = start.score(row)
                else:
                    running = scores(state, scaled_queries[row])
                logits = torch.stack([*(source.score(row) for source in earlier), running])
                alpha = torch.softmax(logits, dim=0)
                if self.recorder is not None:
                    self.recorder.add(alpha, batch=len(state))
                state = state + sublayer(block, mixture([*(source.state for source in earlier), state], alpha))
        return state
