"""Routing scalars rho(x): the registered ones, those built from chosen layers, and the search over candidates."""

from engine.features.registry import (
    FEATURES,
    SUMMARIES,
    CustomFeature,
    Feature,
    available_features,
    check_layers,
    columns_of,
    custom,
    feature,
    layer_depths,
    layer_mean,
    layer_slope,
    layer_std,
    predictive_entropy,
)

__all__ = [
    "FEATURES",
    "SUMMARIES",
    "CustomFeature",
    "Feature",
    "available_features",
    "check_layers",
    "columns_of",
    "custom",
    "feature",
    "layer_depths",
    "layer_mean",
    "layer_slope",
    "layer_std",
    "predictive_entropy",
]
