"""Two-layer ReLU regressors, many at a time: the numbers of training each alone, in a fraction of the time.

One network is yhat = v . relu(W x) + a, where x ends in a constant 1 so that W holds the biases; Adam minimises the
mean of (yhat - y)^2, over all n rows at every step. With r = yhat - y and m_ij = 1[W_j x_i > 0],

    G_j = sum_i r_i m_ij x_i      dW_j = (2/n) v_j G_j      dv_j = (2/n) W_j . G_j      da = (2/n) sum_i r_i

(relu(z) = m z, so the gradient of v needs no pass of its own over the rows). Three things make it quick:

* Permuting the profile against confidence and target is permuting confidence and target against the profile, and a
  full-batch step does not see the order of rows. So the networks of a batch share all columns but one *private*
  column and the target, and a block of them is one matrix product: its inputs are [shared columns, 1, the private
  column of each], and a network's weights on the others' private columns stay zero.
* One buffer (hidden units x rows) holds the activations and then, in place, the masked residuals.
* Blocks are dealt to threads, and a thread takes its own from the first epoch to the last, waiting for nobody.

Arithmetic is float64. Adam turns the faint gradient of a nearly dead unit into a step of full size, so the one row that
wakes the unit decides where it goes. In float32 two orders of summation therefore end up to 1e-2 apart in R^2, in about
one network of five; in float64 they agree to 1e-12.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.core.types import FloatArray, Progress

if TYPE_CHECKING:
    import torch

BLOCK_SIZES = (3, 12)
ROWS_PER_BLOCK = 15_000
"""Rows of a block, over all its networks. Measured: on large data three networks are best (more spend more on weights
that stay zero, fewer make thin matrix products); on small data calls cost more than arithmetic."""

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Recipe:
    """How a network is built and trained: hidden units, full-batch epochs, and Adam's step and L2 penalty."""

    hidden: int = 16
    epochs: int = 200
    lr: float = 1e-2
    weight_decay: float = 1e-4


@dataclass(frozen=True, eq=False)
class Start:
    """Initial W (hidden, width), its biases (hidden,), v (hidden,) and a of one network."""

    inner: FloatArray
    inner_bias: FloatArray
    outer: FloatArray
    outer_bias: float


@dataclass(frozen=True, eq=False)
class Batch:
    """k networks whose inputs are a private column, then s shared columns.

    Attributes
    ----------
    private : (k, n) the first input of each network, in the row order of `shared`.
    shared : (n, s) columns that every network sees; s may be 0.
    targets : (k, n), in the same row order.
    starts : k initial weights of width 1 + s.
    held_out : (m, 1 + s) inputs to predict from after the last epoch, the private column first.
    """

    private: FloatArray
    shared: FloatArray
    targets: FloatArray
    starts: Sequence[Start]
    held_out: FloatArray


@dataclass(frozen=True, eq=False)
class Trained:
    """(k, m) predictions for the held-out rows, and (k, epochs) training losses, each taken before its step."""

    predictions: FloatArray
    losses: FloatArray


def initial_weights(width: int, hidden: int, rng: np.random.Generator) -> Start:
    """Uniform on +-1/sqrt(fan-in), as `torch.nn.Linear`; drawn by numpy, so that no release of torch changes them."""
    inner, outer = 1 / np.sqrt(width), 1 / np.sqrt(hidden)
    return Start(
        inner=rng.uniform(-inner, inner, (hidden, width)),
        inner_bias=rng.uniform(-inner, inner, hidden),
        outer=rng.uniform(-outer, outer, hidden),
        outer_bias=float(rng.uniform(-outer, outer)),
    )


def train(batches: Sequence[Batch], recipe: Recipe, progress: Progress | None = None) -> list[Trained]:
    """Train every network of every batch on as many threads as torch may use; one `Trained` per batch.

    `progress` is called in the caller's thread; what it raises stops all threads and reaches the caller.
    """
    by_batch = [_blocks(batch, recipe) for batch in batches]
    blocks = [block for own in by_batch for block in own]
    stop = threading.Event()
    with _core_count() as n_cores, ThreadPoolExecutor(n_cores) as pool:
        mine, *others = (blocks[share::n_cores] for share in range(min(n_cores, len(blocks))))
        try:
            running = [pool.submit(_train_blocks, share, recipe.epochs, stop, None) for share in others]
            _train_blocks(mine, recipe.epochs, stop, progress)
            for share in running:
                share.result()
        finally:
            stop.set()
    return [
        Trained(
            np.concatenate([block.predict() for block in own]),
            np.concatenate([block.losses.view(recipe.epochs, -1).numpy().T for block in own]) / len(batch.shared),
        )
        for batch, own in zip(batches, by_batch, strict=True)
    ]


@contextmanager
def _core_count() -> Iterator[int]:
    """How many threads torch may use, put back at the end: `_train_blocks` sets it to one, and the setting is global.

    While another audit is under way the setting is not its usual self, hence the count of those under way.
    """
    import torch

    with _under_way.lock:
        if not _under_way.count:
            _under_way.n_cores = torch.get_num_threads()
        _under_way.count += 1
        n_cores = _under_way.n_cores
    try:
        yield n_cores
    finally:
        with _under_way.lock:
            _under_way.count -= 1
            torch.set_num_threads(n_cores)


@dataclass
class _UnderWay:
    """Audits being trained in this process, and torch's number of threads before the first of them."""

    lock: threading.Lock
    count: int = 0
    n_cores: int = 1


_under_way = _UnderWay(threading.Lock())


def _blocks(batch: Batch, recipe: Recipe) -> list[_Block]:
    n_networks, n_rows = batch.private.shape
    size = int(np.clip(ROWS_PER_BLOCK // n_rows, *BLOCK_SIZES))
    return [_Block(batch, slice(first, first + size), recipe) for first in range(0, n_networks, size)]


def _train_blocks(blocks: list[_Block], epochs: int, stop: threading.Event, progress: Progress | None) -> None:
    """All epochs of some blocks, on one core."""
    import torch

    # A thread adopts torch's thread count when it first asks for it; asked later, that would undo the next line.
    torch.get_num_threads()
    torch.set_num_threads(1)
    buffer = torch.empty(max(block.buffer_size for block in blocks), dtype=torch.float64)
    with torch.no_grad():
        for epoch in range(epochs):
            if stop.is_set():
                return
            for block in blocks:
                block.step(epoch, buffer)
            if progress is not None:
                progress((epoch + 1) / epochs, f"epoch {epoch + 1} of {epochs}")


def _aligned(array: FloatArray) -> torch.Tensor:
    """A copy in torch's own memory: a matrix product may round otherwise where memory begins at another offset."""
    import torch

    return torch.from_numpy(array).clone(memory_format=torch.contiguous_format)


class _Block:
    """A few networks of a batch as one matrix product over [shared columns, 1, private column of each]."""

    def __init__(self, batch: Batch, networks: slice, recipe: Recipe) -> None:
        import torch

        private, starts = batch.private[networks], batch.starts[networks]
        self.recipe = recipe
        self.n_networks, self.n_rows = private.shape
        n_shared = batch.shared.shape[1]
        n_inputs, n_units = n_shared + 1 + self.n_networks, self.n_networks * recipe.hidden
        self.buffer_size = n_units * self.n_rows
        self.inputs = _aligned(np.vstack([batch.shared.T, np.ones(self.n_rows), private]))
        self.targets = _aligned(batch.targets[networks, np.newaxis])
        held_out, held_out_private = batch.held_out[:, 1:], batch.held_out[:, 0]
        self.held_out = _aligned(
            np.vstack([held_out.T, np.ones(len(held_out)), np.tile(held_out_private, (self.n_networks, 1))])
        )

        inner = np.zeros((self.n_networks, recipe.hidden, n_inputs))
        own = np.zeros_like(inner)
        own[:, :, : n_shared + 1] = 1
        for network, start in enumerate(starts):
            inner[network, :, :n_shared] = start.inner[:, 1:]
            inner[network, :, n_shared] = start.inner_bias
            inner[network, :, n_shared + 1 + network] = start.inner[:, 0]
            own[network, :, n_shared + 1 + network] = 1
        outer = np.concatenate([start.outer for start in starts])
        offset = np.array([start.outer_bias for start in starts])

        self.parameters = _aligned(np.concatenate([inner.ravel(), outer, offset]))
        self.gradient = torch.empty_like(self.parameters)
        sizes = [inner.size, outer.size, offset.size]
        self.inner, self.outer, self.offset = torch.split(self.parameters, sizes)
        self.d_inner, self.d_outer, self.d_offset = torch.split(self.gradient, sizes)
        self.inner, self.d_inner = self.inner.view(n_units, n_inputs), self.d_inner.view(n_units, n_inputs)
        self.first_moment = torch.zeros_like(self.parameters)
        self.second_moment = torch.zeros_like(self.parameters)

        # The factor 2/n of every gradient stands where it costs nothing: in the mask and in the vector that sums rows.
        self.own = _aligned(own.reshape(n_units, n_inputs).T * (2 / self.n_rows))
        self.summing = torch.full((self.n_rows,), 2 / self.n_rows, dtype=torch.float64)
        self.sums = torch.empty(n_inputs, n_units, dtype=torch.float64)
        self.losses = torch.empty(recipe.epochs, self.n_networks, 1, 1, dtype=torch.float64)

    def forward(self, inputs: torch.Tensor, activations: torch.Tensor) -> torch.Tensor:
        """(networks, 1, rows) outputs; relu(W x) stays in `activations` (networks, hidden, rows)."""
        import torch

        torch.mm(self.inner, inputs, out=activations.view(-1, inputs.shape[1]))
        activations.clamp_min_(0)
        return torch.baddbmm(self.offset.view(-1, 1, 1), self.outer.view(self.n_networks, 1, -1), activations)

    def step(self, epoch: int, buffer: torch.Tensor) -> None:
        """One pass over the rows and one step; the equations stand at the top of the module."""
        import torch

        activations = buffer[: self.buffer_size].view(self.n_networks, -1, self.n_rows)
        residuals = self.forward(self.inputs, activations).sub_(self.targets)
        torch.bmm(residuals, residuals.transpose(1, 2), out=self.losses[epoch])
        torch.mv(residuals.squeeze(1), self.summing, out=self.d_offset)

        masked = activations
        torch.ops.aten.threshold_backward.grad_input(residuals.expand_as(masked), activations, 0, grad_input=masked)
        torch.mm(self.inputs, masked.view(-1, self.n_rows).t(), out=self.sums)
        sums = self.sums.mul_(self.own).t()
        torch.linalg.vecdot(self.inner, sums, out=self.d_outer)
        torch.mul(self.outer.view(-1, 1), sums, out=self.d_inner)
        self._adam(epoch + 1)

    def _adam(self, t: int) -> None:
        """Kingma & Ba (2015), with the penalty's gradient added first, as `torch.optim.Adam` does."""
        first, second, gradient = self.first_moment, self.second_moment, self.gradient
        gradient.add_(self.parameters, alpha=self.recipe.weight_decay)
        first.lerp_(gradient, 1 - BETA_1)
        second.mul_(BETA_2).addcmul_(gradient, gradient, value=1 - BETA_2)
        scale = second.sqrt().div_((1 - BETA_2**t) ** 0.5).add_(EPSILON)
        self.parameters.addcdiv_(first, scale, value=-self.recipe.lr / (1 - BETA_1**t))

    def predict(self) -> FloatArray:
        """(networks, m) outputs for the held-out rows."""
        import torch

        activations = torch.empty(self.n_networks, self.recipe.hidden, self.held_out.shape[1], dtype=torch.float64)
        predictions: FloatArray = self.forward(self.held_out, activations).squeeze(1).numpy()
        return predictions
