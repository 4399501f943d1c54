"""For any model without routing: one number per block and sample out of an ordinary forward pass."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from cache_builder.models.routed import at_least_single
from cache_builder.models.seams import stage_prefix, stages
from cache_builder.taps.capture import Capture, Place, Tap, tensors
from engine.core.errors import InvalidInput


def _of_feature_info(model: nn.Module) -> dict[str, str]:
    """The stages that timm lists for most models; empty if one is no module of its own, or the head is all it lists."""
    listed = [str(stage["module"]) for stage in getattr(model, "feature_info", ()) if stage["module"]]
    there = {path for path, _ in model.named_modules()}
    return {path: path for path in listed} if len(listed) > 1 and there.issuperset(listed) else {}


def _of_containers(model: nn.Module, inside: str = "") -> dict[str, str]:
    """The members of lists and sequences that no other one holds. A list is never called, so its lists are opened."""
    paths: dict[str, str] = {}
    for name, child in model.named_children():
        path = f"{inside}{name}"
        held = isinstance(model, nn.Sequential | nn.ModuleList)
        if held and not isinstance(child, nn.ModuleList):
            paths |= {path: path} if any(child.children()) else {}  # a bare activation or convolution is no block
        else:
            paths |= _of_containers(child, f"{path}.")
    return paths


def block_paths(model: nn.Module) -> dict[str, str]:
    """Module path and readable name of what counts as a block, in the order of the model's own lists.

    The blocks of a ViT or Swin; else the stages that timm lists; else the members of the outermost lists of modules.
    """
    try:
        found = stages(model)
    except InvalidInput:
        return _of_feature_info(model) or _of_containers(model)
    paths: dict[str, str] = {}
    for number, (path, blocks) in enumerate(found.items(), start=1):
        prefix = stage_prefix(number, len(found))
        paths |= {f"{path}.{name}": f"{prefix}block {int(name) + 1}" for name, _ in blocks.named_children()}
    return paths


def _channel_axis(state: Tensor, channels_last: bool) -> int:
    """The axis that a norm is taken over: the last of tokens, and of an image the one that is neither row nor column.

    Images are square, so two equal sizes are rows and columns. Without such a pair the model's own word counts.
    """
    if state.ndim != 4:
        return -1
    _, second, third, fourth = state.shape
    if (second == third) != (third == fourth):
        return -1 if second == third else 1
    return -1 if channels_last else 1


def mean_norm(output: object, batch: int, *, channels_last: bool = False) -> Tensor | None:
    """(batch,) L2 norm over channels, meaned over positions, then over the states if a block returns several.

    States with a row per sample count; where there are none, those whose rows are the windows of one sample after the
    other. None if there is neither.
    """
    states = [state for state in tensors(output) if state.is_floating_point() and state.ndim > 1 and state.numel()]
    whole = [state for state in states if len(state) == batch] or [s for s in states if len(s) % batch == 0]
    if not whole:
        return None
    axes = [_channel_axis(state, channels_last) for state in whole]
    norms = [
        torch.linalg.vector_norm(at_least_single(state), dim=axis) for state, axis in zip(whole, axes, strict=True)
    ]
    return torch.stack([norm.reshape(batch, -1).mean(dim=1) for norm in norms]).mean(dim=0)


@dataclass(frozen=True)
class NormTap(Tap):
    """The mean norm of each block's output (`mean_norm`), for models without routing; extra columns of a run.

    Blocks that a pass does not call are left out of its values and names; of one that is called twice the last output
    counts.
    """

    name: ClassVar[str] = "norms"
    is_routing: ClassVar[bool] = False

    def attach(self, model: nn.Module, capture: Capture, undo: ExitStack) -> None:
        channels_last = getattr(model, "output_fmt", "NCHW") == "NHWC"
        for path, name in block_paths(model).items():

            def summarise(_module: nn.Module, _inputs: object, output: object, name: str = name) -> None:
                if capture.depth and capture.batch is not None:
                    norm = mean_norm(output, capture.batch, channels_last=channels_last)
                    if norm is not None:
                        capture.add_values((Place(f"{name} norm", None),), norm)

            undo.callback(model.get_submodule(path).register_forward_hook(summarise).remove)
