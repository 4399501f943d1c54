"""The protocol over every run of a cache: one row per run, then cells over seeds, then what many tests are worth."""

from engine.sweep.cells import by_cell, effect_intervals, single_models, stability
from engine.sweep.chance import (
    P_COLUMNS,
    chance_range,
    look_first,
    multiplicity,
    sorted_pvalues,
    uniform_order_statistics,
)
from engine.sweep.diagnosing import DEFAULT_FEATURE, diagnose

__all__ = [
    "DEFAULT_FEATURE",
    "P_COLUMNS",
    "by_cell",
    "chance_range",
    "diagnose",
    "effect_intervals",
    "look_first",
    "multiplicity",
    "single_models",
    "sorted_pvalues",
    "stability",
    "uniform_order_statistics",
]
