"""Can a test detect an effect, and how often does it raise a false alarm? Each test on simulated data sets of a run."""

from engine.controls.negative import FalseAlarms, false_alarm_rate, raises_false_alarms
from engine.controls.positive import POWER_TARGET, PowerCurve, planted_outcome, power_curve
from engine.controls.simulation import accuracy_given_confidence, plant_gap

__all__ = [
    "POWER_TARGET",
    "FalseAlarms",
    "PowerCurve",
    "accuracy_given_confidence",
    "false_alarm_rate",
    "plant_gap",
    "planted_outcome",
    "power_curve",
    "raises_false_alarms",
]
