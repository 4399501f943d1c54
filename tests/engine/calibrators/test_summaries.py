"""What a fitted calibrator says about itself, on parameters set by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrators import CALIBRATORS, FittedKernel
from engine.calibrators.base import span
from engine.calibrators.binning import FittedBBQ, FittedHistogram, FittedIsotonic
from engine.calibrators.calibration_error import FittedLogitNorm
from engine.calibrators.margin_entropy import FittedMarginEntropy
from engine.calibrators.temperature import FittedClasswise, FittedEnsemble, FittedIdentity, FittedTemperature
from engine.calibrators.vector import FittedVector

SIZE = {"n_samples": 100, "n_classes": 3}


def kernel(scott: list[float], multiplier: list[float], axes: tuple[str, ...]) -> FittedKernel:
    return FittedKernel(
        name="nw_conf_routing", **SIZE, axes=axes, regressors=np.zeros((1, len(axes))), correct=np.zeros(1),
        scott=np.array(scott), multiplier=np.array(multiplier),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fitted", "expected"),
    [
        (FittedIdentity(name="none", **SIZE), "nothing: the softmax as it is"),
        (
            FittedTemperature(name="ts", **SIZE, temperature=0.8234, n_iterations=5),
            "temperature 0.823: sharper than the softmax",
        ),
        (
            FittedTemperature(name="sbece", **SIZE, temperature=1.5, n_iterations=5),
            "temperature 1.500: softer than the softmax",
        ),
        (
            FittedTemperature(name="ts", **SIZE, temperature=1.0, n_iterations=0),
            "temperature 1.000: the same as the softmax",
        ),
        (
            FittedEnsemble(name="ets", **SIZE, temperature=1.25, weights=(0.7, 0.2, 0.1)),
            "temperature 1.250; weights 0.70 on the scaled softmax, 0.20 on the plain one, 0.10 on uniform",
        ),
        (
            FittedVector(
                name="vs", **SIZE, scale=np.array([0.5, 1.5, 1.0]), bias=np.array([-0.25, 0.0, 0.5]),
                unseen=np.array([False, True, False]), n_iterations=9,
            ),
            "scales 0.50 to 1.50 and biases -0.25 to 0.50 over 3 classes; 1 class without a sample",
        ),
        (
            FittedClasswise(
                name="cts", **SIZE, temperature=np.array([0.9, 1.1, 1.0]), shared=np.array([True, False, True])
            ),
            "temperatures 0.90 to 1.10 over 3 predicted classes; 2 of them at the common one",
        ),
        (
            FittedHistogram(name="hb", **SIZE, accuracy=np.array([0.0, 0.4, 0.9]), count=np.array([0, 40, 60])),
            "accuracies 0.40 to 0.90 in 2 of 3 bins",
        ),
        (
            FittedBBQ(
                name="bbq", **SIZE, edges=np.array([0.5]), values=np.array([0.2, 0.8]), n_bins=np.array([1, 2, 3]),
                weight=np.array([0.1, 0.2, 0.7]),
            ),
            "3 binnings averaged; the one with 3 bins weighs most, 2.6 on average",  # 0.1 + 0.4 + 2.1
        ),
        (
            FittedIsotonic(
                name="isotonic", **SIZE, confidence=np.array([0.2, 0.4, 0.9]), value=np.array([0.1, 0.1, 0.8])
            ),
            "2 steps, calibrated confidence 0.10 to 0.80",
        ),
        (
            FittedLogitNorm(name="lc", **SIZE, factor=5.2345, calibration_ece=0.0172),
            "factor 5.23 on logits of unit length; ECE 0.0172 on the calibration half",
        ),
        (
            FittedMarginEntropy(
                name="rcmmc", **SIZE, margin_cuts=np.zeros(1), entropy_cuts=np.zeros(1),
                temperature=np.array([[1.2, 1.1], [0.7, 0.8]]), count=np.array([[60, 0], [20, 20]]), n_iterations=3,
            ),
            "temperatures 0.70 to 1.20 by margin and entropy; 3 of 4 cells hold samples",
        ),
        (
            kernel([0.05, 0.02], [1.0, 1.0], ("confidence", "feature")),
            "bandwidth 0.05 on confidence, 0.02 on the feature (1 x Scott's rule)",
        ),
        (
            kernel([0.05, 0.02], [2.0, 0.5], ("confidence", "entropy")),
            "bandwidth 0.1 on confidence, 0.01 on entropy (2 and 0.5 x Scott's rule)",
        ),
        (
            kernel([0.05, 0.0], [1.0, 1.0], ("confidence", "feature")),
            "bandwidth 0.05 on confidence, none on the feature, which does not vary (1 x Scott's rule)",
        ),
    ],
)  # fmt: skip
def test_summary_by_hand(fitted, expected: str):
    assert fitted.summary == expected


@pytest.mark.parametrize("name", list(CALIBRATORS))
def test_every_calibrator_says_what_it_learnt(name: str, network):
    data = network(600, n_classes=4)
    fitted = CALIBRATORS[name]().fit(data.logits, data.labels, data.feature)
    assert 10 < len(fitted.summary) < 160
    assert "array" not in fitted.summary
    assert "nan" not in fitted.summary


def test_parametric_temperatures_are_those_of_the_calibration_half(network):
    data = network(600, n_classes=4)
    data.logits[::3] *= 3.0  # a third over-confident, so that one temperature does not serve all
    fitted = CALIBRATORS["pts"]().fit(data.logits, data.labels)
    low, high = fitted.temperature_range
    assert high - low > 0.01
    assert fitted.summary == (
        f"temperatures {low:.2f} to {high:.2f} on the calibration half, where one for all would be "
        f"{fitted.base_temperature:.3f}"
    )


def test_cross_validated_bandwidth_is_named(network):
    data = network(600, n_classes=4)
    fitted = CALIBRATORS["nw_conf"](bandwidth="cv_nll").fit(data.logits, data.labels)
    assert fitted.summary.endswith(f"({fitted.multiplier[0]:g} x Scott's rule by cross-validation)")


def test_phrases():
    assert span([0.5]) == "0.50"
    assert span([-0.001, 0.7]) == "0.00 to 0.70"
