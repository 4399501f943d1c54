"""Attention-Residual versions of timm's vision transformers."""

from cache_builder.models.registry import BACKBONES, VARIANTS, create_model

__all__ = ["BACKBONES", "VARIANTS", "create_model"]
