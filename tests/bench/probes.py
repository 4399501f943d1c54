"""An audit's networks beside training them one at a time, in torch and in scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from engine.core.types import BoolArray, FloatArray
from engine.probes import audit
from engine.probes.networks import Batch, Recipe, initial_weights, train
from tests.bench.data import samples
from tests.bench.runner import Case, Work, installed

N_SAMPLES, N_LAYERS, N_INITS, N_SHUFFLES = 10_000, 16, 5, 20
N_BESIDE_SCIKIT_LEARN = 7


def _run() -> tuple[FloatArray, FloatArray, BoolArray]:
    confidence, correct, _ = samples(N_SAMPLES)
    return confidence, np.random.default_rng(1).random((N_SAMPLES, N_LAYERS)), correct


def _training_half() -> tuple[FloatArray, FloatArray]:
    """Standardised (c, H) and target of half the samples."""
    confidence, profile, correct = _run()
    half = slice(0, N_SAMPLES // 2)
    inputs = np.column_stack([confidence, profile])[half]
    return (inputs - inputs.mean(axis=0)) / inputs.std(axis=0), np.abs(confidence - correct)[half]


def train_singly(inputs: FloatArray, target: FloatArray, recipe: Recipe, seed: int) -> object:
    """One network by autograd, in the same arithmetic (float64) as the audit."""
    import torch

    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(inputs.shape[1], recipe.hidden), torch.nn.ReLU(), torch.nn.Linear(recipe.hidden, 1)
    ).double()
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    rows, y = torch.from_numpy(inputs), torch.from_numpy(target)
    for _ in range(recipe.epochs):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(network(rows).squeeze(1), y).backward()
        optimiser.step()
    return network


def _audit() -> tuple[Work, Mapping[str, Work]]:
    run = _run()
    inputs, target = _training_half()

    def singly() -> None:
        for network in range(N_INITS):
            train_singly(inputs[:, :1], target, Recipe(), network)
        for network in range(2 * N_INITS + N_SHUFFLES):
            train_singly(inputs, target, Recipe(), network)

    return lambda: audit(*run, n_inits=N_INITS, n_shuffles=N_SHUFFLES), {"torch, one network at a time": singly}


def _scikit_learn() -> tuple[Work, Mapping[str, Work]]:
    inputs, target = _training_half()
    recipe = Recipe()
    rngs = [np.random.default_rng(network) for network in range(N_BESIDE_SCIKIT_LEARN)]
    starts = [initial_weights(inputs.shape[1], recipe.hidden, rng) for rng in rngs]
    batch = Batch(
        private=np.tile(inputs[:, 0], (N_BESIDE_SCIKIT_LEARN, 1)),
        shared=inputs[:, 1:],
        targets=np.tile(target, (N_BESIDE_SCIKIT_LEARN, 1)),
        starts=starts,
        held_out=inputs[:1],
    )

    def regressors() -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 200 epochs are the recipe, converged or not
            for network in range(N_BESIDE_SCIKIT_LEARN):
                MLPRegressor(
                    hidden_layer_sizes=(recipe.hidden,), alpha=recipe.weight_decay, learning_rate_init=recipe.lr,
                    batch_size=len(inputs), max_iter=recipe.epochs, n_iter_no_change=recipe.epochs, tol=0,
                    random_state=network,
                ).fit(inputs, target)  # fmt: skip

    peers: dict[str, Work] = {"scikit-learn MLPRegressor": regressors} if installed("sklearn") else {}
    return lambda: train([batch], recipe), peers


CASES: tuple[Case, ...] = (
    Case("probe audit: 35 networks, 5,000 x 17 rows", _audit, target=5, limit_seconds=5, repeats=3),
    Case(f"probe networks: {N_BESIDE_SCIKIT_LEARN} of them", _scikit_learn, repeats=3),
)
