"""Calibrators as the benchmark sets them up."""

from __future__ import annotations

from collections.abc import Sequence

from engine.calibrators import CALIBRATORS, Bandwidth, Calibrator, KernelCalibrator
from engine.calibrators.kernel_family import KernelConfidence, KernelConfidenceRouting
from engine.core import validation
from engine.core.errors import InvalidInput

REFERENCE = "none"
ROUTING = "nw_conf_routing"


def check_methods(methods: Sequence[str]) -> list[str]:
    """Known methods in the registry's order, with the uncalibrated reference among them."""
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise InvalidInput("methods", f"a list of some of: {', '.join(CALIBRATORS)}", validation.shown(methods))
    for name in methods:
        validation.choice("methods", name, CALIBRATORS)
    return [name for name in CALIBRATORS if name in methods or name == REFERENCE]


def make_kernel(feature_name: str, bandwidth: Bandwidth = 1.0) -> KernelCalibrator:
    """AR-CondCal on a feature; on confidence itself it is its own one-regressor control."""
    kind = KernelConfidence if feature_name == "confidence" else KernelConfidenceRouting
    return kind(bandwidth=bandwidth)


def make_calibrator(name: str, feature_name: str, bandwidth: Bandwidth = 1.0) -> Calibrator:
    """A calibrator of the registry, the kernel family at the bandwidth asked for."""
    if name == ROUTING:
        return make_kernel(feature_name, bandwidth)
    kind = CALIBRATORS[name]
    return kind(bandwidth=bandwidth) if issubclass(kind, KernelCalibrator) else kind()
