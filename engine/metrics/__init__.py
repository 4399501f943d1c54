"""Calibration metrics, reliability tables and what routing looks like across depth, samples and training."""

from engine.core.binning import tertiles
from engine.metrics.calibration import (
    PROBABILITY_FLOOR,
    adaptive_ece,
    brier,
    classwise_ece,
    ece,
    mce,
    nll,
    reliability_table,
    smooth_ece,
    worst_tertile_ece,
)
