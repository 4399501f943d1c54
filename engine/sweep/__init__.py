"""The protocol over every run of a cache: one row per run, then cells over seeds, then what many tests are worth."""

from engine.sweep.diagnosing import DEFAULT_FEATURE, diagnose
from engine.sweep.summary import (
    P_COLUMNS,
    by_cell,
    chance_range,
    effect_intervals,
    look_first,
    multiplicity,
    pool_effects,
    score_correlation,
    single_models,
    sorted_pvalues,
)
