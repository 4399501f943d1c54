"""Every model by name: the paper's three backbones, micro versions of each, and any other timm ViT or Swin."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from cache_builder.models.attnres import AttentionResidualBlocks
from cache_builder.models.drloc import RelativeLocalisation
from cache_builder.models.routed import RoutedBlocks
from cache_builder.models.seams import insert_experts, insert_routing, stages
from cache_builder.models.stem import ConvStem
from cache_builder.models.timm_import import load_timm
from engine.core import validation
from engine.core.errors import InvalidInput, UnknownName

VARIANTS = ("baseline", "full_ar", "block_ar", "attnres", "moe", "drloc")
SIZED = ("block_ar", "attnres")
"""Variants with a block size: of transformer blocks in `block_ar`, of sub-layers in `attnres`."""

MICRO_VIT = {
    "patch_size": 8, "embed_dim": 64, "depth": 6, "num_heads": 2, "mlp_ratio": 2.0, "qkv_bias": False,
    "embed_layer": partial(ConvStem, channels=(32, 64, 64), strides=(2, 2, 1, 2)),
}  # fmt: skip
MICRO_SWIN = {
    "patch_size": 4, "embed_dim": 32, "depths": (2, 6), "num_heads": (1, 2), "mlp_ratio": 2.0, "window_size": 4,
    "drop_path_rate": 0.0, "embed_layer": partial(ConvStem, channels=(32, 64, 64), strides=(2, 2, 1, 1)),
}  # fmt: skip


def _micro(module: str, class_name: str, **settings: Any) -> nn.Module:
    # timm's pretrained_cfg has no meaning for these, so the class is built directly.
    return getattr(importlib.import_module(f"timm.models.{module}"), class_name)(**settings)


def _timm(timm_name: str, **settings: Any) -> nn.Module:
    return load_timm().create_model(timm_name, pretrained=False, **settings)


@dataclass(frozen=True)
class Backbone:
    """How to build one architecture, and the input it expects when nothing else is said.

    `takes_size` says whether the input size is decided when the model is built (transformers) or by the images
    (convolutions). `mean` and `std` are how timm's own weights want each channel scaled, in 0..1; empty for models
    that have none and are trained here.
    """

    build: Callable[..., nn.Module]
    image_size: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    takes_size: bool = True
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


BACKBONES: dict[str, Backbone] = {
    "vit_base": Backbone(partial(_timm, "vit_base_patch16_224"), 224, {"qkv_bias": False}),
    "deit_small": Backbone(partial(_timm, "deit_small_distilled_patch16_224"), 224, {"qkv_bias": False}),
    "swin_tiny": Backbone(partial(_timm, "swin_tiny_patch4_window7_224"), 224),
    "micro_vit": Backbone(partial(_micro, "vision_transformer", "VisionTransformer"), 32, MICRO_VIT),
    "micro_deit": Backbone(partial(_micro, "deit", "VisionTransformerDistilled"), 32, MICRO_VIT),
    "micro_swin": Backbone(partial(_micro, "swin_transformer", "SwinTransformer"), 32, MICRO_SWIN),
}


def backbone(name: str) -> Backbone:
    """A registered backbone, or any timm model by its timm name."""
    if name in BACKBONES:
        return BACKBONES[name]
    timm = load_timm()
    if not timm.is_model(name):
        raise UnknownName(
            "name", name, [*BACKBONES, "any timm VisionTransformer or SwinTransformer, such as deit_tiny_patch16_224"]
        )
    usual = timm.get_pretrained_cfg(name)
    return Backbone(
        partial(_timm, name),
        usual.input_size[-1],
        takes_size=usual.fixed_input_size,
        mean=tuple(usual.mean),
        std=tuple(usual.std),
    )


def create_model(
    name: str,
    *,
    variant: str = "baseline",
    block_size: int | None = None,
    n_experts: int = 4,
    top_k: int = 1,
    n_classes: int = 10,
    image_size: int | None = None,
    channels: int = 3,
) -> nn.Module:
    """Build a model with fresh weights from torch's current random state.

    `full_ar` mixes at chunks of one block, `block_ar` at chunks of `block_size`, and both keep the running sum;
    `attnres` is the published Attention Residuals, in blocks of `block_size` sub-layers. `moe` gives every block
    `n_experts` MLPs, of which each token takes `top_k`. `drloc` is the baseline with an auxiliary head `model.drloc`
    that only its training loss uses. Queries are zero and norm weights one at the start, so mixing begins uniform.
    What a variant adds is drawn last: all variants of a seed start from the same backbone weights.
    """
    validation.choice("variant", variant, VARIANTS)
    if variant not in SIZED and block_size is not None:
        raise InvalidInput(
            "block_size", f"None for variant {variant!r} (only {' and '.join(SIZED)} have one)", repr(block_size)
        )
    chosen = backbone(name)
    settings = {**chosen.settings, "num_classes": n_classes, "in_chans": channels}
    size = image_size or chosen.image_size
    if chosen.takes_size:
        settings["img_size"] = size
    try:
        model = chosen.build(**settings)
    except (AssertionError, ValueError) as error:  # what timm says of images that it cannot cut into patches
        raise InvalidInput(
            "image_size", f"a size that suits {name}, such as {chosen.image_size}", f"{size}: {error}"
        ) from error
    if variant in ("full_ar", "block_ar"):
        insert_routing(model, 1 if variant == "full_ar" else block_size, RoutedBlocks)
    elif variant == "attnres":
        insert_routing(model, block_size, AttentionResidualBlocks)
    elif variant == "moe":
        insert_experts(model, n_experts, top_k)
    elif variant == "drloc":
        stages(model)  # refuses models whose output is not a grid of tokens
        model.drloc = RelativeLocalisation(int(model.num_features))  # type: ignore[arg-type]
    return model
