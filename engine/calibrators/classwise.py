"""One temperature per predicted class."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.calibrators.base import Calibrator, Fitted, span
from engine.calibrators.likelihood import minimise_nll
from engine.calibrators.samples import Samples, softmax_of_gaps
from engine.calibrators.temperature import TemperatureScaling
from engine.core.labels import counted
from engine.core.types import BoolArray, FloatArray

MIN_SAMPLES = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedClasswise(Fitted):
    """softmax(z / T_k) where k is the predicted class.

    `shared` marks classes that use the common temperature of `ts`.
    """

    temperature: FloatArray
    shared: BoolArray

    def transform(self, samples: Samples) -> FloatArray:
        return softmax_of_gaps(samples.gaps, 1 / self.temperature[samples.top])

    @property
    def learned(self) -> Mapping[str, object]:
        return {"temperature by predicted class": self.temperature, "classes at the common one": int(self.shared.sum())}

    @property
    def summary(self) -> str:
        found = f"temperatures {span(self.temperature)} over {counted(self.n_classes, 'predicted class')}"
        shared = int(self.shared.sum())
        return f"{found}; {shared} of them at the common one" if shared else found


class ClasswiseTemperatureScaling(Calibrator):
    """min_{T_k} of the NLL over the samples predicted as k, each k by itself; the argmax is kept.

    A class predicted fewer than 20 times, or whose likelihood has no finite optimum, takes the temperature of `ts`.
    """

    name = "cts"
    label = "Classwise temperature scaling"
    reference = "Guo et al. 2017, one temperature per predicted class"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedClasswise:
        scaling = TemperatureScaling().fit_samples(samples)
        best = minimise_nll(samples.gaps, samples.label_gap, samples.top, samples.n_classes, 1 / scaling.temperature)
        predicted = np.bincount(samples.top, minlength=samples.n_classes)
        shared = (predicted < MIN_SAMPLES) | ~best.found
        return FittedClasswise(
            name=self.name,
            n_samples=samples.n_samples,
            n_classes=samples.n_classes,
            converged=scaling.converged or not shared.any(),
            note=scaling.note if shared.any() else "",
            temperature=np.where(shared, scaling.temperature, 1 / best.beta),
            shared=shared,
        )
