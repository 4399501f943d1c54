"""Vector scaling: a scale and a bias per class."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from engine.calibrators.base import Calibrator, Fitted, span
from engine.calibrators.samples import Samples
from engine.calibrators.temperature import TemperatureScaling
from engine.core.labels import counted
from engine.core.types import BoolArray, FloatArray, IntArray

MAX_ITERATIONS = 500
_RIDGE = 1e-6
"""Weight of a pull towards the `ts` solution that keeps separable classes finite and does not show elsewhere."""
ONE_CLASS = "the calibration labels are all of one class, so every class has the common temperature and no bias"


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedVector(Fitted):
    """softmax(scale * z + bias), classwise."""

    scale: FloatArray
    bias: FloatArray
    unseen: BoolArray
    n_iterations: int

    def transform(self, samples: Samples) -> FloatArray:
        scores = samples.logits * self.scale
        scores += self.bias
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    @property
    def summary(self) -> str:
        found = f"scales {span(self.scale)} and biases {span(self.bias)} over {counted(self.n_classes, 'class')}"
        unseen = int(self.unseen.sum())
        return f"{found}; {counted(unseen, 'class')} without a sample" if unseen else found


class VectorScaling(Calibrator):
    """min over (a, b) of mean_i -log softmax(a * z_i + b)_{y_i}; may change the argmax.

    The loss is convex. It is minimised by L-BFGS from the `ts` solution, in coordinates where each class's logit has
    mean zero over the samples and the Hessian at the start is the identity, so that the first step is Newton's.
    The likelihood asks for an infinite negative bias of a class without a calibration sample. So the fit runs on the
    other classes, with biases that average to zero, and such a class keeps the common temperature and no bias. Where
    every calibration prediction is right the optimum lies at infinity, and the logits are left alone. Labels of one
    class leave nothing but the common temperature to fit.
    """

    name = "vs"
    label = "Vector scaling"
    reference = "Guo et al. 2017"
    keeps_argmax = False

    def fit_samples(self, samples: Samples) -> FittedVector:
        scaling = TemperatureScaling().fit_samples(samples)
        unseen = np.bincount(samples.known_labels, minlength=samples.n_classes) == 0
        seen = np.flatnonzero(~unseen)
        scale: FloatArray = np.full(samples.n_classes, 1 / scaling.temperature)
        bias: FloatArray = np.zeros(samples.n_classes)
        n_iterations, converged, message = 0, False, scaling.note or ONE_CLASS
        if seen.size > 1 and not samples.correct.all():
            labels = np.searchsorted(seen, samples.known_labels)
            stretch, bias[seen], n_iterations, converged, message = _minimise(
                samples.logits[:, seen] / scaling.temperature, labels
            )
            scale[seen] *= stretch
        return FittedVector(
            **self.about(samples),
            converged=converged,
            note="" if converged else message,
            scale=scale,
            bias=bias,
            unseen=unseen,
            n_iterations=n_iterations,
        )


def _minimise(logits: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray, int, bool, str]:
    """Scale and bias of logits at their common temperature, every class being present; iterations, convergence and the
    solver's message."""
    n, n_classes = logits.shape
    # Class by class in rows: every sum over samples then runs along contiguous memory.
    inputs = np.ascontiguousarray(logits.T)
    offset = inputs.mean(axis=1)
    inputs -= offset[:, np.newaxis]
    columns = np.arange(n)
    frequency = np.bincount(labels, minlength=n_classes) / n
    own_input = np.bincount(labels, inputs[labels, columns], n_classes) / n
    scores = np.empty_like(inputs)

    def probabilities(scale: FloatArray, bias: FloatArray) -> tuple[FloatArray, float]:
        np.multiply(inputs, scale[:, np.newaxis], out=scores)
        np.add(scores, (offset + bias)[:, np.newaxis], out=scores)
        highest = scores.max(axis=0)
        own = scores[labels, columns]
        np.subtract(scores, highest, out=scores)
        np.exp(scores, out=scores)
        total = scores.sum(axis=0)
        np.divide(scores, total, out=scores)
        return scores, float((np.log(total) + highest - own).mean())

    # Newton's metric at the start: coordinates v with change = L^-T v, where L L' is the Hessian of the loss there.
    first, _ = probabilities(np.ones(n_classes), np.zeros(n_classes))
    factor = np.linalg.cholesky(_hessian(first, inputs))

    def change_of(values: FloatArray) -> FloatArray:
        change: FloatArray = solve_triangular(factor, values, lower=True, trans="T", check_finite=False)
        return change

    def loss(values: FloatArray) -> tuple[float, FloatArray]:
        change = change_of(values)
        predicted, nll = probabilities(1 + change[:n_classes], change[n_classes:])
        gradient = np.concatenate(
            [np.einsum("ij,ij->i", predicted, inputs) / n - own_input, predicted.mean(axis=1) - frequency]
        )
        gradient += _RIDGE * change
        penalty = 0.5 * _RIDGE * float(change @ change)
        return nll + penalty, solve_triangular(factor, gradient, lower=True, check_finite=False)

    fit = minimize(
        loss,
        np.zeros(2 * n_classes),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_ITERATIONS, "maxcor": 20, "ftol": 1e-6, "gtol": 1e-5},
    )
    stretch, shift = np.split(change_of(fit.x), 2)
    # (1 + stretch) (z - offset) + offset + shift, written as scale z + bias
    return 1 + stretch, shift - stretch * offset, int(fit.nit), bool(fit.success), str(fit.message)


def _hessian(probabilities: FloatArray, inputs: FloatArray) -> FloatArray:
    """(2K, 2K) Hessian of the loss in (scale, bias): mean of diag(p) - p p' between the class scores."""
    n_classes, n = inputs.shape
    weighted = np.vstack([probabilities * inputs, probabilities])
    hessian = weighted @ weighted.T
    hessian *= -1 / n
    scales, biases = np.arange(n_classes), np.arange(n_classes) + n_classes
    mixed = weighted[:n_classes].mean(axis=1)
    hessian[scales, scales] += np.einsum("ij,ij->i", weighted[:n_classes], inputs) / n
    hessian[scales, biases] += mixed
    hessian[biases, scales] += mixed
    hessian[biases, biases] += probabilities.mean(axis=1)
    # The ridge is part of the loss; its relative share keeps the factorisation safe for logits of any size.
    hessian[np.diag_indices(2 * n_classes)] += _RIDGE * (1 + np.trace(hessian) / (2 * n_classes))
    return hessian
