"""What every benchmark starts from: a run cut into halves, and its calibrators."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.calibrators import CALIBRATORS, Bandwidth, Calibrator, KernelCalibrator, Samples
from engine.calibrators.kernel_family import KernelConfidence, KernelConfidenceRouting
from engine.core import validation
from engine.core.binning import SPLIT_SEED, split
from engine.core.errors import InvalidInput, MissingData
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import FloatArray, IntArray, RunData
from engine.features import CustomFeature, feature

TERTILE_FEATURE = "r_std"
MIN_SAMPLES = 40
"""Fewest samples of a run that can be halved, fitted and put in 15 bins."""


@dataclass(frozen=True, eq=False)
class Halves:
    """A run cut in two, checked once.

    Attributes
    ----------
    calibration, evaluation : the two halves, with the feature as rho where the run has it.
    tertile_rho : (n_eval,) the feature whose tertiles are judged, or None.
    tertile_feature : its name, or None.
    feature_note : why there is no feature, or empty.
    """

    calibration: Samples
    evaluation: Samples
    tertile_rho: FloatArray | None
    tertile_feature: str | None
    feature_name: str
    feature_note: str


def feature_name(name: str | CustomFeature) -> str:
    """How a feature is called in tables."""
    return name.name if isinstance(name, CustomFeature) else name


def check_run(run: RunData) -> tuple[FloatArray, IntArray]:
    """Logits and labels; raises `MissingData` or `InvalidInput` for a run that cannot be fitted and judged on."""
    if run.logits is None:
        raise MissingData("logits", "the calibration benchmark", "build or import the run with logits")
    if run.labels is None:
        raise MissingData("labels", "the calibration benchmark", "build or import the run with labels")
    if run.n_samples < MIN_SAMPLES:
        raise InvalidInput("run", f"at least {MIN_SAMPLES} samples to fit and judge on", f"{run.n_samples}")
    return run.logits, run.labels


def halve(run: RunData, rho: str | CustomFeature = TERTILE_FEATURE, seed: int = SPLIT_SEED) -> Halves:
    """Split a run for fitting and judging; raises `MissingData` for a run without logits or labels."""
    keep_blas_to_one_thread()
    logits, labels = check_run(run)
    calibration, evaluation = split(run.n_samples, seed)
    values, note = _feature_or_note(run, rho)
    tertile_feature: str | None = TERTILE_FEATURE
    tertile_values, _ = _feature_or_note(run, TERTILE_FEATURE)
    if tertile_values is None:
        tertile_values, tertile_feature = values, None if values is None else feature_name(rho)
    samples = Samples.checked(logits, labels, values)
    return Halves(
        pick(samples, calibration),
        pick(samples, evaluation),
        None if tertile_values is None else tertile_values[evaluation],
        tertile_feature,
        feature_name(rho),
        note,
    )


def _feature_or_note(run: RunData, name: str | CustomFeature) -> tuple[FloatArray | None, str]:
    try:
        return validation.vector("feature", feature(run, name)).astype(np.float64, copy=False), ""
    except MissingData as missing:
        return None, str(missing)


def pick(samples: Samples, rows: IntArray) -> Samples:
    """Some rows of checked samples."""
    return Samples(
        samples.logits[rows], samples.known_labels[rows], None if samples.feature is None else samples.feature[rows]
    )


REFERENCE = "none"
ROUTING = "nw_conf_routing"
CONTROLS = ("nw_conf", "nw_conf_entropy")
"""The matched controls of AR-CondCal."""


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
