"""The learning rate and the parameter groups it drives."""

from __future__ import annotations

import math

import torch
from torch import nn

NO_DECAY = ("pos_embed", "cls_token", "dist_token", "relative_position_bias_table", "queries", "norm_weights")


def cosine_with_warmup(step: int, n_steps: int, n_warmup: int) -> float:
    """Linear from 0 to 1 over the warm-up, then (1 + cos(pi * progress)) / 2 down to 0; `step` counts from 0."""
    if step < n_warmup:
        return (step + 1) / n_warmup
    return 0.5 * (1 + math.cos(math.pi * (step - n_warmup) / max(1, n_steps - n_warmup)))


def make_optimizer(
    model: nn.Module, learning_rate: float, weight_decay: float, query_learning_rate: float | None
) -> torch.optim.AdamW:
    """AdamW; biases, norms, embeddings, queries and norm weights are not decayed. Each group keeps its `base_rate`."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        leaf = name.rpartition(".")[2]
        decay = 0.0 if parameter.ndim <= 1 or leaf in NO_DECAY else weight_decay
        is_query = leaf == "queries" and query_learning_rate is not None
        rate = float(query_learning_rate) if is_query else learning_rate  # type: ignore[arg-type]
        groups.setdefault((rate, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": rate, "base_rate": rate, "weight_decay": decay}
            for (rate, decay), parameters in groups.items()
        ],
        fused=True,
    )


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["base_rate"] * factor
