"""Weights to start from: a plain checkpoint fits under a routed model, whose queries and norm weights start fresh."""

from pathlib import Path
from typing import Any

from torch import nn

from cache_builder.checkpoint import read_weights
from cache_builder.models.timm_import import load_timm
from engine.core.errors import CacheError, UnknownName, first_line

FRESH = ("queries", "norm_weights")
"""Parameters of routing, which a plain checkpoint lacks."""


def _pretrained(name: str) -> dict[str, Any]:
    """timm's weights of that name, from its cache or the network."""
    timm = load_timm()
    if not timm.is_model(name):
        raise UnknownName(
            "init", name, ["the path of a checkpoint", "a timm name such as vit_base_patch16_224.augreg_in1k"]
        )
    try:
        return dict(timm.create_model(name, pretrained=True).state_dict())
    except (OSError, RuntimeError) as error:
        raise CacheError(
            f"init: timm cannot get {name} ({first_line(error)}); give the path of a checkpoint"
        ) from error


def start_from(model: nn.Module, init: str) -> list[str]:
    """Fill a model from a checkpoint or timm's weights; returns what starts fresh all the same.

    That may be routing, the auxiliary head of `drloc`, and classification heads for another number of classes.
    Anything else that is missing, left over or of another shape is an error.
    """
    weights = read_weights(Path(init)) if Path(init).is_file() else _pretrained(init)
    wanted = model.state_dict()
    heads = {name for name in {*wanted, *weights} if name.split(".")[0].startswith("head")}
    fresh = [
        name
        for name, value in wanted.items()
        if name.rpartition(".")[2] in FRESH
        or name.startswith("drloc.")
        or (name in heads and (name not in weights or weights[name].shape != value.shape))
    ]
    kept = {name: value for name, value in weights.items() if name not in heads or name in wanted}
    try:
        model.load_state_dict({**kept, **{name: wanted[name] for name in fresh}})
    except (RuntimeError, AttributeError) as error:
        raise CacheError(
            f"init: {Path(init).name} does not fit the model: {' '.join(str(error).split())[:300]}"
        ) from error
    return fresh
