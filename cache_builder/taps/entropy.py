"""From routing weights of any shape to one number per sample: H = token mean of entropy(alpha) / log T."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from cache_builder.models.routed import at_least_single
from engine.core.errors import InvalidInput


def normalised_entropy(alpha: Tensor, axis: int) -> Tensor:
    """-sum_t alpha_t log alpha_t / log T along one axis of T > 1 alternatives, which goes; float32 at least."""
    weights = at_least_single(alpha.detach())
    # alpha log alpha, and 0 at alpha = 0: a third of the time of `torch.special.entr`, which is minus this.
    products = weights.clamp_min(torch.finfo(weights.dtype).tiny).log_().mul_(weights)
    return products.sum(dim=axis).mul_(-1 / math.log(alpha.shape[axis]))


def sample_means(values: Tensor, n_samples: int, place: str) -> Tensor:
    """(n_samples,) means of values whose leading axes are the samples, alone or with their tokens behind them.

    The samples are the first axis, several leading axes (each token a sample), or a first axis in which the rows of
    one sample follow one another (batch * tokens). A later axis as long as the batch is taken for a misplaced batch.
    """
    shape, leading = tuple(values.shape), 1
    for length in shape:
        leading *= length
        if leading >= n_samples:
            break
    rows_follow = bool(shape) and shape[0] > n_samples and shape[0] % n_samples == 0
    if leading != n_samples and (not rows_follow or n_samples in shape[1:]):
        raise InvalidInput(
            "batch",
            f"{n_samples} samples along the first axis of what {place} weighs (put the batch first, or tap with "
            "ModuleTap and a `read` that does)",
            f"shape {shape} beside the alternatives",
        )
    return values.reshape(n_samples, -1).mean(dim=1).clamp_(0.0, 1.0)  # which rounding may leave by one unit


def alpha_to_entropy(
    alpha: Tensor,
    *,
    alternatives: int = -1,
    samples: int = 0,
    tokens: int | Sequence[int] | None = None,
    n_samples: int | None = None,
) -> Tensor:
    """(n,) H in [0, 1]: the mean over tokens of entropy(alpha) / log T, with T > 1 alternatives.

    alternatives, samples, tokens : axes of alpha; tokens are all others if not given, and may not leave one out.
    n_samples : where the samples' axis holds the tokens of one sample after the other, how many samples there are.
    """
    if not isinstance(alpha, Tensor) or not alpha.is_floating_point():
        raise InvalidInput("alpha", "a tensor of weights", type(alpha).__name__)
    others = () if tokens is None else (tokens,) if isinstance(tokens, int) else tuple(tokens)
    named: dict[str, tuple[int, ...]] = {"alternatives": (alternatives,), "samples": (samples,), "tokens": others}
    axes: list[int] = []
    for name, given in named.items():
        for axis in given:
            if isinstance(axis, bool) or not isinstance(axis, int) or not -alpha.ndim <= axis < alpha.ndim:
                raise InvalidInput(name, f"an axis of alpha, which has {alpha.ndim}", repr(axis))
            axes.append(axis % alpha.ndim)
    if len(set(axes)) != len(axes) or (tokens is not None and len(axes) != alpha.ndim):
        raise InvalidInput("tokens", f"every axis of alpha's shape {tuple(alpha.shape)} named once", f"axes {axes}")
    if alpha.shape[axes[0]] < 2:
        raise InvalidInput("alpha", "at least two alternatives", f"{alpha.shape[axes[0]]}")
    kept = normalised_entropy(alpha, axes[0]).movedim(axes[1] - (axes[1] > axes[0]), 0)
    return sample_means(kept, len(kept) if n_samples is None else n_samples, "alpha")


def choice_shares(chosen: Tensor, n_alternatives: int, n_samples: int) -> tuple[Tensor, Tensor]:
    """Of discrete choices (rows, k), tokens of one sample after the other: load entropy and switch rate, (n,) each.

    The load entropy is that of the shares in which a sample's tokens take each alternative, over log T. The switch rate
    is the share of neighbouring tokens that take different ones; 0 for a single token.
    """
    if chosen.numel() % n_samples or (
        chosen.numel() and not 0 <= int(chosen.min()) <= int(chosen.max()) < n_alternatives
    ):
        raise InvalidInput(
            "size", f"choices below {n_alternatives} for each of {n_samples} samples", f"shape {tuple(chosen.shape)}"
        )
    by_sample = chosen.reshape(n_samples, -1, chosen.shape[-1]).sort(dim=2).values
    counts = torch.zeros(n_samples, n_alternatives, device=chosen.device)
    flat = by_sample.reshape(n_samples, -1)
    counts.scatter_add_(1, flat, torch.ones_like(flat, dtype=counts.dtype))
    switched = (by_sample[:, 1:] != by_sample[:, :-1]).any(dim=2).to(counts.dtype)
    rate = switched.mean(dim=1) if switched.shape[1] else counts.new_zeros(n_samples)
    return normalised_entropy(counts / counts.sum(dim=1, keepdim=True), 1).clamp_(0.0, 1.0), rate
