"""Attention-Residual mixing: a stack of transformer blocks whose sub-layers read a mixture of earlier states.

A sub-layer of block i (1-based) has T = 1 + floor((i - 1) / k) sources: the states at the start of the earlier
chunks of k blocks, and the running state. Its input is sum_t alpha_t V_t with, per token,

    alpha = softmax_t( w . RMSNorm_g(V_t) ) = softmax_t( (V_t . (w * g)) / rms(V_t) )

and its output is added to the running state, x <- x + f(LN(mix)). No normalised copy of a state is ever made, a
chunk's first state is scored once for all later sub-layers, and a block with T = 1 is the plain block itself.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from engine.core.errors import InvalidInput

SMALLEST_NORM = 1e-12  # keeps the score of an all-zero state finite

SubLayer = Callable[[nn.Module, Tensor], Tensor]
"""f(LN(.)) of one block, without the residual connection."""


class Recorder:
    """Reduces alpha to H_l, the token mean of its entropy over sources divided by log T, for every mixing sub-layer.

    On a small model the fixed cost of each tensor operation is most of the cost of capturing, so the weights of
    successive sub-layers are reduced together; `LARGEST_WAIT` bounds how much alpha is ever held, whatever the model.
    """

    LARGEST_WAIT = 2**18  # numbers, 1 MB

    def __init__(self) -> None:
        self.waiting: list[Tensor] = []  # alpha, (T, batch * tokens) each, equally many tokens in all
        self.n_waiting = 0
        self.reduced: list[Tensor] = []  # H, (sub-layers, batch) each
        self.batch = 0

    def add(self, alpha: Tensor, batch: int) -> None:
        """Take the weights alpha (T, batch * tokens) of the next sub-layer."""
        if batch != self.batch and (self.waiting or self.reduced):
            raise InvalidInput("capture", "one forward pass per take()", f"batches of {self.batch} and {batch} samples")
        if self.waiting and (
            alpha.shape[1] != self.waiting[0].shape[1] or self.n_waiting + alpha.numel() > self.LARGEST_WAIT
        ):
            self._reduce()
        self.waiting.append(alpha)
        self.n_waiting += alpha.numel()
        self.batch = batch

    def _reduce(self) -> None:
        alpha = torch.cat(self.waiting)
        tokens = alpha.shape[1] // self.batch
        average = _average(tuple(map(len, self.waiting)), tokens, alpha.dtype, alpha.device)
        # alpha log alpha, and 0 at alpha = 0: a third of the time of `torch.special.entr`, which is minus this.
        products = alpha * alpha.clamp_min(torch.finfo(alpha.dtype).tiny).log()
        with as_it_is(alpha.device):  # a product in half precision would cost three digits
            per_token = average @ products
        self.reduced.append(per_token.view(len(self.waiting), self.batch, tokens).sum(dim=2))
        self.waiting.clear()
        self.n_waiting = 0

    def take(self) -> Tensor:
        """(batch, L) normalised entropies H_l in [0, 1] since the last call."""
        if not self.waiting:
            return torch.empty(0, 0)
        self._reduce()
        profile = torch.cat(self.reduced).T
        self.reduced.clear()
        return profile.clamp_(0.0, 1.0)  # rounding may leave [0, 1] by one unit in the last place


@lru_cache(maxsize=64)
def _average(n_sources: tuple[int, ...], tokens: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(L, sum_l T_l): row l weighs the T_l rows of its sub-layer by -1 / (log T_l * tokens), and all others by 0."""
    with torch.inference_mode(False):  # kept for later passes, which may record gradients
        owner = torch.arange(len(n_sources)).repeat_interleave(torch.tensor(n_sources))
        weights = torch.tensor([-1 / (math.log(sources) * tokens) for sources in n_sources], dtype=dtype)
        return (nn.functional.one_hot(owner).T * weights[:, None]).to(device)


def as_it_is(device: torch.device) -> AbstractContextManager[None]:
    """No mixed precision inside. A context costs as much as a small model's product, so there is none without need."""
    active = torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if active else nullcontext()


def at_least_single(values: Tensor) -> Tensor:
    """Half precision becomes float32; what is wider stays."""
    return values.float() if values.dtype.itemsize < torch.float32.itemsize else values


def mixture(sources: list[Tensor], alpha: Tensor) -> Tensor:
    """sum_t alpha_t V_t for T sources (..., D) and alpha (T, tokens of all samples), in the last source's precision.

    Mixed precision leaves alpha in float32 and may leave states in half, which `lerp` does not take together.
    """
    dtype = sources[-1].dtype
    sources = [source.to(dtype) for source in sources]
    weights = alpha.to(dtype).view(len(sources), *sources[0].shape[:-1], 1).unbind()
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

    (M, tokens of all samples) for M rows, (tokens of all samples,) for a single vector; always in float32, since a
    product in half precision may overflow before it is divided by the norm.
    """
    with as_it_is(state.device):
        flat, rows = at_least_single(state.reshape(-1, state.shape[-1])), at_least_single(scaled_queries)
        norm = torch.linalg.vector_norm(flat, dim=-1).clamp_min(SMALLEST_NORM)
        return (flat @ rows if rows.ndim == 1 else rows @ flat.T) / norm


@dataclass(frozen=True, eq=False)
class Source:
    """A state at the start of a chunk, with its score for each sub-layer from `first_row` on."""

    state: Tensor
    scores: Tensor
    first_row: int

    def score(self, row: int) -> Tensor:
        return self.scores[row - self.first_row]


class Routed(nn.Module, ABC):
    """A module that weighs alternatives, and hands its weights alpha to a recorder while there is one."""

    recorder: Recorder | None = None

    @abstractmethod
    def places(self) -> list[tuple[str, int]]:
        """Where it weighs T > 1 alternatives, in the order of a forward pass: a name, and T."""


class RoutedBlocks(Routed):
    """Takes the place of a stage's `nn.Sequential` of blocks and keeps its parameter names.

    Every sub-layer (of each block in the order of `sublayers`, which names them: attention and MLP, say) owns one row
    of `queries` and one of `norm_weights`, whether or not it has more than one source.
    """

    mixes_output = False
    """Whether the stage's output is a mixture too, with a last row of its own."""

    def __init__(
        self, blocks: nn.Sequential, dim: int, chunk: int, sublayers: Mapping[str, SubLayer], prefix: str = ""
    ) -> None:
        super().__init__()
        for name, block in blocks.named_children():
            self.add_module(name, block)
        self.depth = len(blocks)
        self.chunk = chunk
        self.sublayers = sublayers
        self.rows = [f"{prefix}block {number} {part}" for number in range(1, self.depth + 1) for part in sublayers]
        self.rows += [f"{prefix}output"] * self.mixes_output
        self.queries = nn.Parameter(torch.zeros(len(self.rows), dim))
        self.norm_weights = nn.Parameter(torch.ones(len(self.rows), dim))

    def __iter__(self) -> Iterator[nn.Module]:
        raise TypeError(
            "the blocks of an Attention-Residual stage cannot be run one by one (gradient checkpointing and "
            "forward_intermediates do that); call the model itself"
        )

    def n_sources(self, row: int) -> int:
        """T of a sub-layer, counted from 0."""
        return 1 + row // len(self.sublayers) // self.chunk

    def places(self) -> list[tuple[str, int]]:
        counts = map(self.n_sources, range(len(self.rows)))
        return [(name, n_sources) for name, n_sources in zip(self.rows, counts, strict=True) if n_sources > 1]

    def scaled_queries(self) -> Tensor:
        """sqrt(D) (w * g) of every row, as `scores` takes them."""
        return self.queries * self.norm_weights * math.sqrt(self.queries.shape[1])

    def mixed(self, states: list[Tensor], logits: list[Tensor]) -> Tensor:
        """sum_t alpha_t V_t with alpha the softmax of one score per source and token, which is recorded."""
        alpha = torch.softmax(torch.stack(logits), dim=0)
        if self.recorder is not None:
            self.recorder.add(alpha, batch=len(states[0]))
        return mixture(states, alpha)

    def forward(self, state: Tensor) -> Tensor:
        scaled_queries = self.scaled_queries()
        earlier: list[Source] = []
        start: Source | None = None
        per_block = len(self.sublayers)
        for index, block in enumerate(self.children()):
            if index % self.chunk == 0 and self.chunk < self.depth:
                if start is not None:
                    earlier.append(start)
                first_row = per_block * max(index, self.chunk)  # the first chunk has one source: nothing to score
                start = Source(state, scores(state, scaled_queries[first_row:]), first_row)
            if not earlier:
                state = block(state)
                continue
            for row, sublayer in enumerate(self.sublayers.values(), start=per_block * index):
                if start is not None and state is start.state:
                    running = start.score(row)
                else:
                    running = scores(state, scaled_queries[row])
                states, logits = [source.state for source in earlier], [source.score(row) for source in earlier]
                state = state + sublayer(block, self.mixed([*states, state], [*logits, running]))
        return state
