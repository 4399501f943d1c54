"""timm's vision transformers with routing: Attention Residuals of two kinds, and mixtures of experts."""

from cache_builder.models.registry import BACKBONES, VARIANTS, create_model
