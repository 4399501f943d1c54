"""Where routing enters a timm model: the stacks of blocks, the sub-layers of a block, and their MLPs."""

import torch
from torch import Tensor, nn

from cache_builder.models.moe import RoutedMlp
from cache_builder.models.routed import RoutedBlocks, SubLayer
from cache_builder.models.timm_import import load_timm
from engine.core import validation
from engine.core.errors import InvalidInput

load_timm()

from timm.models.swin_transformer import SwinTransformer, SwinTransformerBlock  # noqa: E402
from timm.models.vision_transformer import (  # noqa: E402
    Block,
    DiffParallelScalingBlock,
    ParallelScalingBlock,
    ParallelThingsBlock,
    ResPostBlock,
    VisionTransformer,
)


def _plain_attention(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path1(block.ls1(block.attn(block.norm1(mixed))))  # type: ignore[operator]


def _plain_mlp(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path2(block.ls2(block.mlp(block.norm2(mixed))))  # type: ignore[operator]


def _swin_attention(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path1(block._attn(block.norm1(mixed)))  # type: ignore[operator]


def _swin_mlp(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path2(block.mlp(block.norm2(mixed)))  # type: ignore[operator]


def _later_normed_attention(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path1(block.norm1(block.attn(mixed)))  # type: ignore[operator]


def _later_normed_mlp(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path2(block.norm2(block.mlp(mixed)))  # type: ignore[operator]


def _several_attentions(block: nn.Module, mixed: Tensor) -> Tensor:
    return torch.stack([attention(mixed) for attention in block.attns]).sum(dim=0)  # type: ignore[union-attr]


def _several_mlps(block: nn.Module, mixed: Tensor) -> Tensor:
    return torch.stack([mlp(mixed) for mlp in block.ffns]).sum(dim=0)  # type: ignore[union-attr]


def _both_at_once(block: nn.Module, mixed: Tensor) -> Tensor:
    """Attention and MLP of one projection, which timm adds to its input at once: the block without that input."""
    return block(mixed) - mixed


SUBLAYERS: dict[type[nn.Module], dict[str, SubLayer]] = {
    Block: {"attention": _plain_attention, "MLP": _plain_mlp},
    SwinTransformerBlock: {"attention": _swin_attention, "MLP": _swin_mlp},
    ResPostBlock: {"attention": _later_normed_attention, "MLP": _later_normed_mlp},
    ParallelThingsBlock: {"attention": _several_attentions, "MLP": _several_mlps},
    ParallelScalingBlock: {"attention and MLP": _both_at_once},
    DiffParallelScalingBlock: {"attention and MLP": _both_at_once},
}
"""f(LN(.)) of every residual connection in a block, by timm's kind of block."""


def stages(model: nn.Module) -> dict[str, nn.Module]:
    """The stacks of blocks of a model by module path: one for a ViT or DeiT, one per stage for a Swin."""
    if isinstance(model, VisionTransformer):
        paths = ["blocks"]
    elif isinstance(model, SwinTransformer):
        paths = [f"layers.{number}.blocks" for number in range(model.num_layers)]
    else:
        raise InvalidInput("model", "a timm VisionTransformer or SwinTransformer", type(model).__name__)
    return {path: model.get_submodule(path) for path in paths}


def stage_prefix(stage: int, n_stages: int) -> str:
    """What the names of a stage's blocks start with; a model with one stage does not number it."""
    return f"stage {stage} " if n_stages > 1 else ""


def insert_routing(model: nn.Module, chunk: int | None, kind: type[RoutedBlocks]) -> None:
    """Replace every stack of blocks by a `RoutedBlocks` of that kind, in chunks of `chunk`."""
    if chunk is None or chunk < 1:
        raise InvalidInput("block_size", "a whole number of at least 1 (the paper uses 2, 4 or 6)", repr(chunk))
    found = stages(model)
    for number, (path, blocks) in enumerate(found.items(), start=1):
        first = next(blocks.children())
        if type(first) not in SUBLAYERS:
            known = ", ".join(kind.__name__ for kind in SUBLAYERS)
            raise InvalidInput("name", f"a model made of timm's {known}", type(first).__name__)
        assert isinstance(blocks, nn.Sequential)
        routed = kind(blocks, _width(model, first), chunk, SUBLAYERS[type(first)], stage_prefix(number, len(found)))
        model.get_submodule(path.rpartition(".")[0]).register_module("blocks", routed.train(model.training))


def insert_experts(model: nn.Module, n_experts: int, top_k: int) -> None:
    """Replace the MLP of every block by a `RoutedMlp`."""
    validation.whole("n_experts", n_experts, 2)
    validation.whole("top_k", top_k, 1)
    if top_k > n_experts:
        raise InvalidInput("top_k", f"at most the {n_experts} experts", f"{top_k}")
    found = stages(model)
    for number, blocks in enumerate(found.values(), start=1):
        for index, block in enumerate(blocks.children(), start=1):
            mlp = getattr(block, "mlp", None)
            if not isinstance(mlp, nn.Module):
                raise InvalidInput("name", "a model whose blocks have an MLP each", type(block).__name__)
            place = f"{stage_prefix(number, len(found))}block {index} router"
            block.mlp = RoutedMlp(mlp, _width(model, block), n_experts, top_k, place).train(model.training)


def _width(model: nn.Module, block: nn.Module) -> int:
    return int(block.dim if isinstance(block, SwinTransformerBlock) else model.embed_dim)  # type: ignore[arg-type]


def token_grid(model: nn.Module, tokens: Tensor) -> Tensor:
    """The patch tokens of `forward_features` as (batch, rows, columns, D), prefix tokens left out."""
    if isinstance(model, SwinTransformer):
        return tokens
    rows, columns = model.patch_embed.grid_size  # type: ignore[union-attr, misc]
    patches = tokens[:, model.num_prefix_tokens :]
    return patches.reshape(len(tokens), int(rows), int(columns), -1)
