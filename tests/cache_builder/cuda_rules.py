"""CUDA autocast's casting rules applied to CPU tensors, so that mixed precision can be tested without a GPU.

The lists are torch's own (aten/src/ATen/autocast_mode.h): operations that run in half precision, those that run in
float32, and those that promote their inputs to the widest. All others take what comes, and some of these, such as
`lerp`, then raise on mixed types, here as there. In-place operations are never cast.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

LOWER = {
    "conv1d", "conv2d", "conv3d", "prelu", "addmm", "addmv", "addr", "matmul", "einsum", "mm", "mv", "linear", "addbmm",
    "baddbmm", "bmm", "scaled_dot_product_attention", "__matmul__", "__rmatmul__", "chain_matmul", "multi_dot",
}  # fmt: skip
FULL = {
    "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "pow", "__pow__", "__rpow__", "softplus",
    "layer_norm", "group_norm", "norm", "cosine_similarity", "nll_loss", "cross_entropy", "kl_div", "l1_loss",
    "smooth_l1_loss", "mse_loss", "binary_cross_entropy_with_logits", "cdist", "logsumexp", "interpolate", "prod",
    "softmax", "log_softmax", "cumprod", "cumsum", "vector_norm", "linalg_vector_norm", "sum",
}  # fmt: skip
PROMOTED = {
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sample", "index_put", "tensordot",
    "scatter_add",
}  # fmt: skip


def _cast(values: Any, dtype: torch.dtype) -> Any:
    return tree_map(
        lambda value: value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value, values
    )


def _widest(values: Any) -> torch.dtype:
    found: list[torch.dtype] = []
    tree_map(lambda v: found.append(v.dtype) if isinstance(v, Tensor) and v.is_floating_point() else None, values)
    return torch.float32 if torch.float32 in found or not found else found[0]


class CudaRules(TorchFunctionMode):
    """Casts as CUDA autocast would, and counts what it cast to half precision."""

    depth_disabled = 0

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if not CudaRules.depth_disabled:
            dtype = None
            if name in LOWER:
                dtype = self.dtype
            elif name in FULL:
                dtype = torch.float32
            elif name in PROMOTED:
                dtype = _widest((args, kwargs))
            if dtype is not None:
                args, kwargs = _cast((args, kwargs), dtype)
        return func(*args, **kwargs)


class EmulatedAutocast:
    """Takes the place of `torch.autocast`: same arguments, CUDA's rules whatever the device."""

    @staticmethod
    def install(monkeypatch: Any) -> None:
        monkeypatch.setattr(torch, "autocast", EmulatedAutocast)
        monkeypatch.setattr(torch, "is_autocast_enabled", lambda _device_type: True)

    def __init__(self, _device_type: str, dtype: torch.dtype | None = None, enabled: bool = True, **_: object) -> None:
        self.dtype, self.enabled = dtype or torch.float16, enabled
        self.stack = ExitStack()

    def __enter__(self) -> None:
        if self.enabled:
            self.stack.enter_context(CudaRules(self.dtype))
        else:
            CudaRules.depth_disabled += 1

    def __exit__(self, *_: object) -> None:
        if not self.enabled:
            CudaRules.depth_disabled -= 1
        self.stack.close()
