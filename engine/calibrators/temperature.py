"""No calibration and one temperature for all samples."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.calibrators.base import Calibrator, Fitted
from engine.calibrators.likelihood import MAX_ITERATIONS, minimise_common_nll
from engine.calibrators.samples import Samples, softmax_of_gaps
from engine.core.types import FloatArray

NO_MINIMUM = (
    "the likelihood has no finite optimum (every calibration prediction is right, or the labels fit worse than a "
    "uniform guess), so the logits are left alone"
)
NOT_REACHED = f"the search for the optimum of the likelihood stopped after {MAX_ITERATIONS} steps"


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedIdentity(Fitted):
    """The softmax as it is."""

    def transform(self, samples: Samples) -> FloatArray:
        return samples.probabilities.copy()

    @property
    def learned(self) -> Mapping[str, object]:
        return {}

    @property
    def summary(self) -> str:
        return "nothing: the softmax as it is"


class NoCalibration(Calibrator):
    """softmax(z)."""

    name = "none"
    label = "No calibration"
    reference = "softmax of the logits"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedIdentity:
        return FittedIdentity(name=self.name, n_samples=samples.n_samples, n_classes=samples.n_classes)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedTemperature(Fitted):
    """One temperature T: softmax(z / T)."""

    temperature: float
    n_iterations: int

    def transform(self, samples: Samples) -> FloatArray:
        return softmax_of_gaps(samples.gaps, 1 / self.temperature)

    @property
    def learned(self) -> Mapping[str, object]:
        return {"temperature": self.temperature}

    @property
    def summary(self) -> str:
        change = "sharper than" if self.temperature < 1 else "softer than" if self.temperature > 1 else "the same as"
        return f"temperature {self.temperature:.3f}: {change} the softmax"


class TemperatureScaling(Calibrator):
    """One temperature by maximum likelihood: min_T mean_i -log softmax(z_i / T)_{y_i}.

    Without a finite optimum (see `engine.calibrators.likelihood`) T is 1 and `converged` is false; `note` says why.
    """

    name = "ts"
    label = "Temperature scaling"
    reference = "Guo et al. 2017"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedTemperature:
        best = minimise_common_nll(samples.gaps, samples.label_gap)
        found = bool(best.found[0])
        return FittedTemperature(
            name=self.name,
            n_samples=samples.n_samples,
            n_classes=samples.n_classes,
            converged=found,
            note="" if found else NOT_REACHED if best.exists[0] else NO_MINIMUM,
            temperature=float(1 / best.beta[0]),
            n_iterations=best.n_iterations,
        )
