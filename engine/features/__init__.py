"""Routing scalars rho(x): the registered ones, those built from chosen layers, and the search over candidates."""

from engine.features.custom import (
    SUMMARIES,
    CustomFeature,
    check_layers,
    custom,
    layer_depths,
    layer_mean,
    layer_slope,
    layer_std,
)
from engine.features.registry import FEATURES, Feature, available_features, columns_of, feature, predictive_entropy
