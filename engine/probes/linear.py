"""Closed-form linear probes."""

from __future__ import annotations

import numpy as np

from engine.core.types import FloatArray

RIDGE_PENALTY = 1.0


def ridge_predictions(inputs: FloatArray, target: FloatArray, held_out: FloatArray, penalty: float) -> FloatArray:
    """(m,) predictions of b0 + x . b, with b minimising sum_i (y_i - b0 - x_i . b)^2 + penalty |b|^2 (b0 is free).

    Solved as least squares on the centred rows stacked on sqrt(penalty) I. Collinear and constant columns do no harm:
    without a penalty the shortest solution is taken.
    """
    centre, mean = inputs.mean(axis=0), target.mean()
    width = inputs.shape[1]
    rows = np.vstack([inputs - centre, np.sqrt(penalty) * np.eye(width)])
    coefficients = np.linalg.lstsq(rows, np.concatenate([target - mean, np.zeros(width)]))[0]
    predictions: FloatArray = mean + (held_out - centre) @ coefficients
    return predictions
