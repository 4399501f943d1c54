"""The Nadaraya-Watson family: AR-CondCal and its two matched controls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from engine.calibrators.base import FEATURE, LOGITS, Calibrator, Fitted
from engine.calibrators.samples import Samples, softmax_of_gaps
from engine.core import validation
from engine.core.errors import InvalidInput, UnknownName
from engine.core.types import FloatArray
from engine.kernel import BandwidthChoice, TemperatureSolution, cv_nll_bandwidth, nw_regress, scott_bandwidth
from engine.kernel.selection import KERNEL_DIMENSION
from engine.kernel.temperature import solve_gaps

CV_NLL = "cv_nll"
Bandwidth = float | tuple[float, ...] | Literal["cv_nll"]
"""A multiple of Scott's bandwidth, one multiple per axis, or the choice by cross-validated likelihood."""


@dataclass(frozen=True, eq=False)
class KernelPrediction:
    """What the regression wanted for each sample and what the temperatures made of it."""

    regression: FloatArray
    solution: TemperatureSolution
    probabilities: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedKernel(Fitted):
    """softmax(z / tau(x)) with tau such that the top probability is g(x), the kernel regression of t on the regressors.

    Attributes
    ----------
    axes : names of the regressors, of "confidence", "entropy", "feature".
    regressors, correct : (n, m) and (n,) the calibration samples.
    scott, multiplier, bandwidth : (m,) Scott's rule, the multiples in force and their product; 0 = axis ignored.
    choice : the cross-validation behind the multiplier, if there was one.
    """

    axes: tuple[str, ...]
    regressors: FloatArray
    correct: FloatArray
    scott: FloatArray
    multiplier: FloatArray
    choice: BandwidthChoice | None = None

    @property
    def bandwidth(self) -> FloatArray:
        return self.scott * self.multiplier

    def at(self, bandwidth: float | tuple[float, ...]) -> FittedKernel:
        """The same calibrator at another multiple of Scott's bandwidth: nothing else needs to be fitted again."""
        return replace(self, multiplier=check_multipliers(bandwidth, len(self.axes)), choice=None)

    def predict(self, samples: Samples) -> KernelPrediction:
        """Regression, temperatures and probabilities of checked samples."""
        wanted = nw_regress(self.regressors, self.correct, regressors_of(samples, self.axes), self.bandwidth)
        solution = solve_gaps(samples.gaps, wanted)
        return KernelPrediction(wanted, solution, softmax_of_gaps(samples.gaps, 1 / solution.temperature))

    def transform(self, samples: Samples) -> FloatArray:
        return self.predict(samples).probabilities

    @property
    def summary(self) -> str:
        names = ["the feature" if axis == "feature" else axis for axis in self.axes]
        widths = [
            f"{width:.3g} on {axis}" if width > 0 else f"none on {axis}, which does not vary"
            for axis, width in zip(names, self.bandwidth, strict=True)
        ]
        multiples = " and ".join(f"{multiple:g}" for multiple in dict.fromkeys(self.multiplier.tolist()))
        chosen = " by cross-validation" if self.choice is not None else ""
        return f"bandwidth {', '.join(widths)} ({multiples} x Scott's rule{chosen})"


def check_multipliers(bandwidth: float | tuple[float, ...], n_axes: int) -> FloatArray:
    """(m,) positive multiples; one number serves all axes, and of a pair the one-regressor kernel takes the first."""
    given = bandwidth if isinstance(bandwidth, (tuple, list, np.ndarray)) else [bandwidth]
    values = validation.vector("bandwidth", given).astype(np.float64)
    if (values <= 0).any():
        raise InvalidInput("bandwidth", "positive multiples of Scott's bandwidth, or 'cv_nll'", repr(bandwidth))
    if values.size == 1:
        return np.repeat(values, n_axes)
    if values.size != KERNEL_DIMENSION:
        raise InvalidInput("bandwidth", "one multiple, or two (confidence axis, second axis)", repr(bandwidth))
    return values[:n_axes]


def regressors_of(samples: Samples, axes: tuple[str, ...]) -> FloatArray:
    """(n, m) the named regressors."""
    columns = {"confidence": lambda: samples.confidence, "entropy": lambda: samples.entropy}
    chosen = [samples.feature if axis == "feature" else columns[axis]() for axis in axes]
    return np.column_stack([column for column in chosen if column is not None])


@dataclass(frozen=True)
class KernelCalibrator(Calibrator):
    """g(x) = sum_i K_h(x - x_i) t_i / sum_i K_h(x - x_i), then tau(x) with softmax(z / tau)_top = g(x).

    Gaussian product kernel; h_j = multiple * sigma_j n^(-1/6) for all three members, whatever their number of
    regressors (the paper holds the bandwidth fixed and changes only the feature). The argmax is kept.
    """

    bandwidth: Bandwidth = 1.0
    seed: int = 42

    keeps_argmax = True
    axes: ClassVar[tuple[str, ...]] = ("confidence",)

    def fit_samples(self, samples: Samples) -> FittedKernel:
        regressors = regressors_of(samples, self.axes)
        choice = None
        if isinstance(self.bandwidth, str):
            if self.bandwidth != CV_NLL:
                raise UnknownName("bandwidth", self.bandwidth, (CV_NLL,))
            choice = cv_nll_bandwidth(regressors, samples.logits, samples.known_labels, seed=self.seed)
            multiplier = np.repeat(choice.multiplier, len(self.axes))
        else:
            multiplier = check_multipliers(self.bandwidth, len(self.axes))
        scott = scott_bandwidth(regressors, dimension=KERNEL_DIMENSION)
        ignored = [axis for axis, width in zip(self.axes, scott, strict=True) if width == 0]
        return FittedKernel(
            **self.about(samples),
            needs_feature=FEATURE in self.needs,
            note=f"ignored for want of variance: {', '.join(ignored)}" if ignored else "",
            axes=self.axes,
            regressors=regressors,
            correct=samples.correct.astype(np.float64),
            scott=scott,
            multiplier=multiplier,
            choice=choice,
        )


class KernelConfidence(KernelCalibrator):
    name = "nw_conf"
    label = "Kernel on confidence"
    reference = "Nadaraya 1964, Watson 1964; matched control"


class KernelConfidenceEntropy(KernelCalibrator):
    name = "nw_conf_entropy"
    label = "Kernel on confidence and entropy"
    reference = "Nadaraya 1964, Watson 1964; matched control"
    axes = ("confidence", "entropy")


class KernelConfidenceRouting(KernelCalibrator):
    name = "nw_conf_routing"
    label = "AR-CondCal"
    reference = "the paper's probe: kernel on confidence and a routing feature"
    needs = (LOGITS, FEATURE)
    axes = ("confidence", "feature")
