"""Attention as routing: the entropy of every attention map over the tokens attended to."""

import inspect
import math
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from cache_builder.models.routed import as_it_is, at_least_single
from cache_builder.taps.capture import Capture, Place, Tap
from cache_builder.taps.softmax import ATTENTION, SOFTMAXES, Watching, softmax_axis

_LARGEST_MAP = 2**19
"""Numbers of attention maps held at once, 2 MB: parts of a batch that stay in the processor's cache."""
_MULTIHEAD: Any = functional.multi_head_attention_forward
_WANTED = {"need_weights": True, "average_attn_weights": False, "training": False}


def _entropies(query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """(batch, queries) entropy of softmax(scale Q K^T + mask) over log of the keys, meaned over heads.

    With log p = log_softmax, H = -sum exp(log p) log p. A query that may attend to nothing has H = 0.
    """
    batch, heads, n_queries, width = query.shape
    n_keys = key.shape[2]
    rows, columns = query.reshape(-1, n_queries, width), key.reshape(-1, n_keys, width).transpose(1, 2)
    products = query.new_empty(batch * heads, n_queries, n_keys)
    scores = torch.baddbmm(products, rows, columns, beta=0, alpha=scale).view(batch, heads, n_queries, n_keys)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    logarithms = torch.log_softmax(scores, dim=-1)
    if mask is not None:
        logarithms.nan_to_num_(0.0).clamp_min_(-1e4)  # exp of it is 0, and 0 times it too
    # The scores' memory is taken again: what a map costs beside a small model is its way through the caches.
    torch.exp(logarithms, out=scores)
    return scores.mul_(logarithms).sum(dim=-1).mean(dim=1).mul_(-1 / math.log(n_keys))


def attention_entropies(
    query: Tensor, key: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    """(batch, queries) of what `scaled_dot_product_attention` computes for (batch, heads, queries, D), in float32."""
    query, key = at_least_single(query.detach()), at_least_single(key.detach())
    if key.shape[1] != query.shape[1]:  # grouped queries: several heads share their keys
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    batch, heads, n_queries, width = query.shape
    if is_causal:
        attn_mask = torch.ones(n_queries, key.shape[2], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None:
        attn_mask = attn_mask.detach().expand(
            batch, *attn_mask.shape[-3:] if attn_mask.ndim > 2 else (1, *attn_mask.shape)
        )
    at_once = max(1, _LARGEST_MAP // (heads * n_queries * key.shape[2]))
    with as_it_is(query.device):
        parts = [
            _entropies(
                query[start : start + at_once],
                key[start : start + at_once],
                None if attn_mask is None else attn_mask[start : start + at_once],
                width**-0.5 if scale is None else scale,
            )
            for start in range(0, batch, at_once)
        ]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class AttentionTap(Tap):
    """Entropy of every attention map over the tokens attended to, divided by the log of their number, meaned over heads
    and tokens.

    Fused attention stays on: its map is computed a second time from the same queries and keys, so the pass is the same
    to the last bit. Plain attention is seen as a softmax of rank 4; `nn.MultiheadAttention` is asked for its weights.
    Kernels that torch does not know (flash-attn, flex) are not seen: load such a model with `sdpa` or `eager`
    attention. inside : a pattern for the paths of modules, as in `SoftmaxTap`.
    """

    inside: str | None = None
    name: ClassVar[str] = "attention"

    def attach(self, model: nn.Module, capture: Capture, _undo: ExitStack) -> None:
        def fits(path: str, shape: tuple[int, ...], last: bool = True) -> bool:
            fitting = len(shape) == 4 and last and (self.inside is None or fnmatchcase(path, self.inside))
            if not fitting and not capture.places:
                capture.saw(f"softmax of shape {shape}", path)
            return fitting

        def softmax(path: str, alpha: Tensor, _logits: Tensor, dim: int | None = None, *_: Any, **__: Any) -> None:
            if fits(path, tuple(alpha.shape), softmax_axis(alpha.ndim, dim) == alpha.ndim - 1):
                capture.add(path, alpha, heads=1)

        def fused(
            path: str, _result: object, query: Tensor, key: Tensor, _value: Tensor, attn_mask: Tensor | None = None,
            _dropout: float = 0.0, is_causal: bool = False, scale: float | None = None, **_: Any,
        ) -> None:  # fmt: skip
            n_keys = key.shape[-2]
            if fits(path, (*query.shape[:-1], n_keys)):
                if n_keys == 1:
                    capture.add(path, query.new_ones(len(query), 1))
                else:
                    entropies = attention_entropies(query, key, attn_mask, is_causal, scale)
                    capture.add_values((Place(capture.unique(path), n_keys),), entropies)

        def multihead(path: str, _result: object, *arguments: Any, **keywords: Any) -> None:
            bound = inspect.signature(_MULTIHEAD).bind(*arguments, **keywords).arguments
            weights = _MULTIHEAD(**{**bound, **_WANTED})[1]
            if fits(path, tuple(weights.shape)):
                capture.add(path, weights, heads=1)

        capture.mode = Watching(model, {**dict.fromkeys(SOFTMAXES, softmax), ATTENTION: fused, _MULTIHEAD: multihead})
