"""For any model without routing: one number per block and sample out of an ordinary forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from cache_builder.capture import Capture
from cache_builder.models.routed import at_least_single
from cache_builder.models.seams import stage_prefix, stages
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


def _tensors(output: object) -> Iterator[Tensor]:
    """Every tensor in what a block returns: some return pairs, a list of resolutions, or names with states."""
    match output:
        case Tensor():
            yield output
        case tuple() | list():
            for part in output:
                yield from _tensors(part)
        case dict():
            yield from _tensors(list(output.values()))


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
    states = [state for state in _tensors(output) if state.is_floating_point() and state.ndim > 1 and state.numel()]
    whole = [state for state in states if len(state) == batch] or [s for s in states if len(s) % batch == 0]
    if not whole:
        return None
    axes = [_channel_axis(state, channels_last) for state in whole]
    norms = [
        torch.linalg.vector_norm(at_least_single(state), dim=axis) for state, axis in zip(whole, axes, strict=True)
    ]
    return torch.stack([norm.reshape(batch, -1).mean(dim=1) for norm in norms]).mean(dim=0)


@contextmanager
def capture_block_norms(model: nn.Module) -> Iterator[Capture]:
    """Every forward pass inside leaves the mean norm of each block's output, per sample (`mean_norm`).

    Blocks that a pass does not call are left out of its values and names; of one that is called twice the last output
    counts.
    """
    channels_last = getattr(model, "output_fmt", "NCHW") == "NHWC"
    columns: dict[str, Tensor] = {}
    passes: list[int] = []  # number of samples of each pass that was not taken yet

    def begin(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        passes.append(len(inputs[0]))

    def take() -> tuple[list[str], Tensor]:
        if len(passes) != 1:
            raise InvalidInput("capture", "one forward pass per take()", f"{len(passes)} passes")
        if not columns:
            raise InvalidInput("backbone", "a model with blocks that return a state per sample", type(model).__name__)
        taken = list(columns), torch.stack(list(columns.values()), dim=1)
        passes.clear()
        columns.clear()
        return taken

    def watch(path: str, name: str) -> torch.utils.hooks.RemovableHandle:
        def summarise(_module: nn.Module, _inputs: object, output: object) -> None:
            norm = mean_norm(output, passes[-1], channels_last=channels_last)
            if norm is not None:
                columns[f"{name} norm"] = norm

        return model.get_submodule(path).register_forward_hook(summarise)

    with ExitStack() as hooks:
        hooks.callback(model.register_forward_pre_hook(begin).remove)
        for path, name in block_paths(model).items():
            hooks.callback(watch(path, name).remove)
        yield Capture(take)
