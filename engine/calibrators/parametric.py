"""Parameterised temperature scaling: a small network from the sorted logits to a temperature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from engine.calibrators.base import Calibrator, Fitted, span
from engine.calibrators.likelihood import nll_and_slopes
from engine.calibrators.samples import Samples, softmax_of_gaps
from engine.calibrators.temperature import TemperatureScaling
from engine.core import validation
from engine.core.types import FloatArray

N_INPUTS, N_HIDDEN = 10, 5
MAX_ITERATIONS = 80
_REACH = 2.0
"""The network may move log T by at most this much from the `ts` solution, also where it extrapolates."""
_PRIOR = 20.0
"""Weight decay, as the precision of a Gaussian prior on the weights (its share of the loss is 1 / n)."""


@dataclass(frozen=True, eq=False)
class Network:
    """inputs -> 5 -> 5 -> 1 with ReLU; log T = log T_ts + 2 tanh(output / 2)."""

    first: FloatArray
    first_bias: FloatArray
    second: FloatArray
    second_bias: FloatArray
    last: FloatArray
    last_bias: FloatArray

    @classmethod
    def initial(cls, n_inputs: int, rng: np.random.Generator) -> Network:
        """He initialisation, except for a last layer of zeros: the fit starts at the `ts` solution."""
        return cls(
            rng.normal(0, np.sqrt(2 / n_inputs), (n_inputs, N_HIDDEN)),
            np.zeros(N_HIDDEN),
            rng.normal(0, np.sqrt(2 / N_HIDDEN), (N_HIDDEN, N_HIDDEN)),
            np.zeros(N_HIDDEN),
            np.zeros(N_HIDDEN),
            np.zeros(1),
        )

    def parameters(self) -> tuple[FloatArray, ...]:
        return (self.first, self.first_bias, self.second, self.second_bias, self.last, self.last_bias)

    def flatten(self) -> FloatArray:
        return np.concatenate([part.ravel() for part in self.parameters()])

    def filled(self, values: FloatArray) -> Network:
        """A network of the same shape with these parameters."""
        ends = np.cumsum([part.size for part in self.parameters()])
        pieces = np.split(values, ends[:-1])
        return Network(*(piece.reshape(part.shape) for piece, part in zip(pieces, self.parameters(), strict=True)))

    def forward(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Both hidden layers and the (n,) change of log T."""
        hidden = np.maximum(inputs @ self.first + self.first_bias, 0)
        deeper = np.maximum(hidden @ self.second + self.second_bias, 0)
        change: FloatArray = _REACH * np.tanh((deeper @ self.last + self.last_bias[0]) / _REACH)
        return hidden, deeper, change

    def backward(
        self, inputs: FloatArray, hidden: FloatArray, deeper: FloatArray, change: FloatArray, by_change: FloatArray
    ) -> FloatArray:
        """Gradient of a loss in all parameters, from its (n,) gradient in the change of log T."""
        by_output = by_change * (1 - (change / _REACH) ** 2)
        by_deeper = np.multiply.outer(by_output, self.last) * (deeper > 0)
        by_hidden = (by_deeper @ self.second.T) * (hidden > 0)
        parts = (
            inputs.T @ by_hidden,
            by_hidden.sum(axis=0),
            hidden.T @ by_deeper,
            by_deeper.sum(axis=0),
            deeper.T @ by_output,
            by_output.sum(keepdims=True),
        )
        return np.concatenate([part.ravel() for part in parts])


def sorted_logits(samples: Samples) -> FloatArray:
    """(n, min(10, K)) the largest logits, in descending order."""
    n_inputs = min(N_INPUTS, samples.n_classes)
    largest = samples.logits
    if samples.n_classes > n_inputs:
        largest = np.partition(largest, samples.n_classes - n_inputs, axis=1)[:, -n_inputs:]
    return -np.sort(-largest, axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedParametric(Fitted):
    """softmax(z / T(z)) with T from the network on standardised sorted logits."""

    network: Network
    centre: FloatArray
    spread: FloatArray
    base_temperature: float
    temperature_range: tuple[float, float]
    n_iterations: int
    seed: int

    def temperature(self, samples: Samples) -> FloatArray:
        """(n,) temperature of each sample."""
        inputs = (sorted_logits(samples) - self.centre) / self.spread
        temperature: FloatArray = self.base_temperature * np.exp(self.network.forward(inputs)[2])
        return temperature

    def transform(self, samples: Samples) -> FloatArray:
        return softmax_of_gaps(samples.gaps, 1 / self.temperature(samples))

    @property
    def summary(self) -> str:
        return (
            f"temperatures {span(self.temperature_range)} on the calibration half, where one for all would be "
            f"{self.base_temperature:.3f}"
        )


@dataclass(frozen=True)
class ParametricTemperatureScaling(Calibrator):
    """T(z) from a 10-5-5-1 network on the sorted logits, by maximum likelihood; the argmax is kept.

    Differs from the reference: trained by L-BFGS on the NLL (as all methods here) rather than by Adam on a squared
    error, from the `ts` solution, with log T bounded around it and a weight decay that fades as 1 / n.
    """

    seed: int = 42

    name = "pts"
    label = "Parameterised temperature scaling"
    reference = "Tomani et al. 2022"
    keeps_argmax = True

    def fit_samples(self, samples: Samples) -> FittedParametric:
        validation.seed(self.seed)
        scaling = TemperatureScaling().fit_samples(samples)
        raw = sorted_logits(samples)
        centre, spread = raw.mean(axis=0), raw.std(axis=0)
        spread = np.where(np.ptp(raw, axis=0) > 0, spread, 1.0)
        inputs = (raw - centre) / spread
        network = Network.initial(inputs.shape[1], np.random.default_rng(self.seed))
        n_iterations, success, message = 0, scaling.converged, scaling.note
        if scaling.converged:
            network, n_iterations, success, message = _train(network, inputs, samples, scaling.temperature)
        temperature = scaling.temperature * np.exp(network.forward(inputs)[2])
        return FittedParametric(
            **self.about(samples),
            converged=success,
            note="" if success else message,
            network=network,
            centre=centre,
            spread=spread,
            base_temperature=scaling.temperature,
            temperature_range=(float(temperature.min()), float(temperature.max())),
            n_iterations=n_iterations,
            seed=self.seed,
        )


def _train(
    network: Network, inputs: FloatArray, samples: Samples, base_temperature: float
) -> tuple[Network, int, bool, str]:
    """Fitted network, iterations, convergence and the solver's message."""
    n = samples.n_samples
    gaps = samples.gaps / base_temperature
    label_gap = samples.label_gap / base_temperature
    scores = np.empty_like(gaps)

    def loss(values: FloatArray) -> tuple[float, FloatArray]:
        trial = network.filled(values)
        hidden, deeper, change = trial.forward(inputs)
        nll, slopes = nll_and_slopes(gaps, label_gap, np.exp(-change), scores)
        gradient = trial.backward(inputs, hidden, deeper, change, slopes / n)
        return nll + 0.5 * _PRIOR / n * float(values @ values), gradient + _PRIOR / n * values

    fit = minimize(
        loss,
        network.flatten(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_ITERATIONS, "maxcor": 20, "ftol": 1e-8, "gtol": 1e-5},
    )
    # A network stopped by the iteration limit is a fit like any other: the limit is part of the method.
    stopped = fit.status == 1
    return network.filled(fit.x), int(fit.nit), bool(fit.success) or stopped, str(fit.message)
