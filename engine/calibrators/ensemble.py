"""Ensemble temperature scaling: a mixture of the scaled softmax, the softmax and the uniform distribution."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from engine.calibrators.base import Calibrator, Fitted
from engine.calibrators.samples import Samples, softmax_of_gaps
from engine.calibrators.temperature import TemperatureScaling
from engine.core.types import FloatArray

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
    def learned(self) -> Mapping[str, object]:
        names = ("weight of softmax(z / T)", "weight of softmax(z)", "weight of uniform")
        return {"temperature": self.temperature, **dict(zip(names, self.weights, strict=True))}

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
            name=self.name,
            n_samples=samples.n_samples,
            n_classes=samples.n_classes,
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
