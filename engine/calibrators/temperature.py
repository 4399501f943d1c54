"""No calibration, one temperature, one per predicted class, and a mixture with the softmax it started from."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from engine.calibrators.base import Calibrator, Fitted, span
from engine.calibrators.likelihood import MAX_ITERATIONS, minimise_common_nll, minimise_nll
from engine.calibrators.samples import Samples, softmax_of_gaps
from engine.core.labels import counted
from engine.core.types import BoolArray, FloatArray

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
    def summary(self) -> str:
        return "nothing: the softmax as it is"


class NoCalibration(Calibrator):
    """softmax(z)."""

    name = "none"
    label = "No calibration"
    reference = "softmax of the logits"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedIdentity:
        return FittedIdentity(**self.about(samples))


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedTemperature(Fitted):
    """One temperature T: softmax(z / T)."""

    temperature: float
    n_iterations: int

    def transform(self, samples: Samples) -> FloatArray:
        return softmax_of_gaps(samples.gaps, 1 / self.temperature)

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
            **self.about(samples),
            converged=found,
            note="" if found else NOT_REACHED if best.exists[0] else NO_MINIMUM,
            temperature=float(1 / best.beta[0]),
            n_iterations=best.n_iterations,
        )


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
            **self.about(samples),
            converged=scaling.converged or not shared.any(),
            note=scaling.note if shared.any() else "",
            temperature=np.where(shared, scaling.temperature, 1 / best.beta),
            shared=shared,
        )


_LARGEST_UNIFORM_WEIGHT = 1 - 1e-6
"""A purely uniform mixture would lose the argmax."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedEnsemble(Fitted):
    """w1 softmax(z / T) + w2 softmax(z) + w3 / K."""

    temperature: float
    weights: tuple[float, float, float]

    def transform(self, samples: Samples) -> FloatArray:
        scaled, plain, uniform = self.weights
        mixture = scaled * softmax_of_gaps(samples.gaps, 1 / self.temperature)
        mixture += plain * samples.probabilities
        mixture += uniform / samples.n_classes
        return mixture

    @property
    def summary(self) -> str:
        scaled, plain, uniform = self.weights
        return (
            f"temperature {self.temperature:.3f}; weights {scaled:.2f} on the scaled softmax, {plain:.2f} on the plain "
            f"one, {uniform:.2f} on uniform"
        )


class EnsembleTemperatureScaling(Calibrator):
    """min_w mean_i -log(w1 softmax(z_i / T)_y + w2 softmax(z_i)_y + w3 / K), w on the simplex, T from `ts`.

    Only the three probabilities of the true class enter, so the fit runs on an (n, 3) table; it is convex in w.
    """

    name = "ets"
    label = "Ensemble temperature scaling"
    reference = "Zhang et al. 2020"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedEnsemble:
        scaling = TemperatureScaling().fit_samples(samples)
        rows = np.arange(samples.n_samples)
        components = np.column_stack(
            [
                scaling.transform(samples)[rows, samples.known_labels],
                samples.probabilities[rows, samples.known_labels],
                np.full(samples.n_samples, 1 / samples.n_classes),
            ]
        )
        weights, converged, message = _mixture_weights(components)
        notes = [scaling.note] if scaling.note else []
        if not converged:
            notes.append(f"mixture weights: {message}")
        return FittedEnsemble(
            **self.about(samples),
            converged=scaling.converged and converged,
            note="; ".join(notes),
            temperature=scaling.temperature,
            weights=weights,
        )


def _mixture_weights(components: FloatArray) -> tuple[tuple[float, float, float], bool, str]:
    """Weights on the simplex of least -mean log(components @ w), started near (1, 0, 0)."""

    def loss(free: FloatArray) -> tuple[float, FloatArray]:
        mixture = np.maximum(components @ free, np.finfo(np.float64).tiny)
        return float(-np.log(mixture).mean()), -(components / mixture[:, np.newaxis]).mean(axis=0)

    # A component that gives the label probability 0 would make the start infinite, hence a little of everything.
    start = np.array([0.98, 0.01, 0.01])
    fit = minimize(
        loss,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0), (0.0, 1.0), (0.0, _LARGEST_UNIFORM_WEIGHT)],
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones_like(w)},
        options={"ftol": 1e-12, "maxiter": 200},
    )
    weights = np.clip(fit.x, 0.0, 1.0)
    first, second, third = (float(weight) for weight in weights / weights.sum())
    return (first, second, third), bool(fit.success), str(fit.message)
