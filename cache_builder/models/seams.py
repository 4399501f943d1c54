"""Where Attention-Residual mixing enters a timm model: the stacks of blocks, and the two sub-layers of a block."""

from __future__ import annotations

from torch import Tensor, nn

from cache_builder.models.routed import RoutedBlocks
from cache_builder.models.timm_import import load_timm
from engine.errors import InvalidInput

load_timm()

from timm.models.swin_transformer import SwinTransformer, SwinTransformerBlock  # noqa: E402
from timm.models.vision_transformer import Block, VisionTransformer  # noqa: E402


def vit_attention(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path1(block.ls1(block.attn(block.norm1(mixed))))  # type: ignore[operator]


def vit_mlp(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path2(block.ls2(block.mlp(block.norm2(mixed))))  # type: ignore[operator]


def swin_attention(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path1(block._attn(block.norm1(mixed)))  # type: ignore[operator]


def swin_mlp(block: nn.Module, mixed: Tensor) -> Tensor:
    return block.drop_path2(block.mlp(block.norm2(mixed)))  # type: ignore[operator]


def stages(model: nn.Module) -> dict[str, nn.Module]:
    """The stacks of blocks of a model by module path: one for a ViT or DeiT, one per stage for a Swin."""
    if isinstance(model, VisionTransformer):
        paths = ["blocks"]
    elif isinstance(model, SwinTransformer):
        paths = [f"layers.{number}.blocks" for number in range(model.num_layers)]
    else:
        raise InvalidInput("model", "a timm VisionTransformer or SwinTransformer", type(model).__name__)
    return {path: model.get_submodule(path) for path in paths}


def insert_routing(model: nn.Module, chunk: int | None) -> None:
    """Replace every stack of blocks by a `RoutedBlocks` with chunks of `chunk` blocks."""
    if chunk is None or chunk < 1:
        raise InvalidInput("block_size", "a whole number of at least 1 (the paper uses 2, 4 or 6)", repr(chunk))
    for path, blocks in stages(model).items():
        first = next(blocks.children())
        dim: int
        if type(first) is Block:
            dim, attention, mlp = model.embed_dim, vit_attention, vit_mlp  # type: ignore[assignment]
        elif type(first) is SwinTransformerBlock:
            dim, attention, mlp = first.dim, swin_attention, swin_mlp
        else:
            raise InvalidInput(
                "name", "a model whose blocks are timm's plain Block or SwinTransformerBlock", type(first).__name__
            )
        assert isinstance(blocks, nn.Sequential)
        routed = RoutedBlocks(blocks, dim, chunk, attention, mlp).train(model.training)
        model.get_submodule(path.rpartition(".")[0]).register_module("blocks", routed)


def token_grid(model: nn.Module, tokens: Tensor) -> Tensor:
    """The patch tokens of `forward_features` as (batch, rows, columns, D), prefix tokens left out."""
    if isinstance(model, SwinTransformer):
        return tokens
    rows, columns = model.patch_embed.grid_size  # type: ignore[union-attr, misc]
    patches = tokens[:, model.num_prefix_tokens :]
    return patches.reshape(len(tokens), int(rows), int(columns), -1)
