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
_LARGEST_SCORE = 16.0
"""Of attention, up to which exp needs no shift to keep its digits."""
_MULTIHEAD: Any = functional.multi_head_attention_forward
_WANTED = {"need_weights": True, "average_attn_weights": False, "training": False}


def _entropies(query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """(batch, queries) entropy of softmax(s) over log of the keys, s = scale Q K^T + mask, meaned over heads.

    H = log Z - sum_k e^s_k s_k / Z, Z = sum_k e^s_k. A query that may attend to nothing has H = 0.
    """
    batch, heads, n_queries, _ = query.shape
    n_keys = key.shape[2]
    # What a map costs beside a small model is its way through the caches: heads are read where they are, and the sums
    # are products with ones, which are quicker over few keys.
    scores = query.new_empty(heads, batch, n_queries, n_keys)
    for head, products in enumerate(scores):
        rows, columns = query[:, head], key[:, head].transpose(1, 2)
        torch.baddbmm(products, rows, columns, beta=0, alpha=scale, out=products)
    if mask is not None:
        mask = mask.transpose(0, 1)
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if mask is not None or float(scores.abs().max()) > _LARGEST_SCORE:
        largest = scores.amax(dim=-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
        scores = scores.sub_(largest).clamp_min_(-1e4)  # exp of it is 0, and 0 times it too
    ones = scores.new_ones(n_keys)
    weights = scores.exp()
    total = weights @ ones
    entropies = total.log() - (weights.mul_(scores) @ ones).div_(total)
    return entropies.nan_to_num_(0.0).mean(dim=0).mul_(1 / math.log(n_keys))


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
    Padding tokens, where the model is given an `attention_mask`, are neither meaned over nor counted as alternatives.
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
                capture.add(path, alpha, heads=1, over_tokens=True)

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
                    capture.add_values((Place(capture.unique(path), n_keys),), capture.among_real(entropies, n_keys))

        def multihead(path: str, _result: object, *arguments: Any, **keywords: Any) -> None:
            bound = inspect.signature(_MULTIHEAD).bind(*arguments, **keywords).arguments
            weights = _MULTIHEAD(**{**bound, **_WANTED})[1]
            if fits(path, tuple(weights.shape)):
                capture.add(path, weights, heads=1, over_tokens=True)

        capture.mode = Watching(model, {**dict.fromkeys(SOFTMAXES, softmax), ATTENTION: fused, _MULTIHEAD: multihead})
