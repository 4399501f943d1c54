"""Synthetic runs and sweeps of realistic shape: most confidence near one, accuracy about 90 %."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax

from engine.core.types import BoolArray, FloatArray, IntArray, Progress
from engine.store import RunRecord, write_shard

N_LAYERS = 16
SEEDS_PER_CELL = 5
_BACKBONES = ("swin", "deit", "vit", "convnext", "mixer")
_DATASETS = ("cifar10", "cifar100", "svhn", "imagenette")
_VARIANTS = ("full_ar", "block_ar", "drloc")
_EPOCHS = 5


def samples(n: int = 10_000, seed: int = 0) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Confidence, correctness and an independent rho."""
    rng = np.random.default_rng(seed)
    confidence = 1 - 0.9 * rng.beta(0.5, 2.0, n)
    return confidence, rng.random(n) < confidence**1.1, rng.normal(size=n)


def predictions(n: int, n_classes: int, seed: int = 0) -> tuple[FloatArray, FloatArray, IntArray]:
    """Over-confident logits (true temperature 1.5), their softmax, and labels; most confidence above 14/15."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * 2
    logits[np.arange(n), rng.integers(0, n_classes, n)] += rng.normal(10, 3, n)
    cumulative = np.cumsum(softmax(logits / 1.5, axis=1), axis=1)
    labels = (rng.random((n, 1)) < cumulative).argmax(axis=1)
    return logits, softmax(logits, axis=1), labels


def synthetic_run(number: int, n: int, n_classes: int | None = 10) -> RunRecord:
    """The number-th run of a sweep: n samples, 16 layers, logits of n_classes classes (none: confidence alone).

    Its profile is independent of correctness, so a test finds something in about one run of twenty.
    """
    cell, seed = divmod(number, SEEDS_PER_CELL)
    variants, backbones = len(_VARIANTS), len(_BACKBONES)
    rng = np.random.default_rng(1_000_000 + number)
    # In single precision from the start: at 10^7 samples a double-precision draw would be the largest array of all.
    profile = rng.random((n, N_LAYERS), dtype=np.float32)
    profile *= np.float32(0.5)
    profile += np.float32(0.4)
    layers = np.arange(1, N_LAYERS + 1)
    epochs = pd.DataFrame({
        "epoch": np.repeat(np.arange(1, _EPOCHS + 1), N_LAYERS),
        "layer": np.tile(layers, _EPOCHS),
        "mean_entropy": rng.uniform(0.7, 0.9, _EPOCHS * N_LAYERS),
        "std_entropy": 0.1,
    })  # fmt: skip
    outputs: dict[str, np.ndarray] = {}
    if n_classes is None:
        outputs["confidence"], outputs["correct"], _ = samples(n, seed=number)
    else:
        outputs["logits"], _, outputs["labels"] = predictions(n, n_classes, seed=number)
    return RunRecord(
        run_id=f"run-{number:04d}",
        suite="scale" if cell < variants * backbones * len(_DATASETS) else f"scale-{cell}",
        backbone=_BACKBONES[cell // variants % backbones],
        dataset=_DATASETS[cell // (variants * backbones) % len(_DATASETS)],
        variant=_VARIANTS[cell % variants],
        seed=seed,
        epoch=_EPOCHS,
        entropies=profile,
        epochs=epochs,
        **outputs,
    )


def write_sweep(
    directory: Path, n_runs: int, n: int, *, n_classes: int | None = 10, progress: Progress | None = None
) -> None:
    """A shard per run."""
    for number in range(n_runs):
        if progress is not None:
            progress(number / n_runs, f"run {number + 1} of {n_runs}")
        write_shard(synthetic_run(number, n, n_classes), directory)
