"""Can a test detect an effect, and how often does it raise a false alarm? Each test on simulated data sets of a run."""

from engine.controls.negative import FalseAlarms, false_alarm_rate, raises_false_alarms
from engine.controls.positive import (
    POWER_TARGET,
    PositiveControl,
    PowerCurve,
    RealControl,
    planted_outcome,
    positive_control,
    power_curve,
    real_control,
)
from engine.controls.simulation import FITS, SCALES, SHAPES, SIMULATED, VERDICT, accuracy_given_confidence, plant_gap
