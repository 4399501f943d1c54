"""Made-up sweeps of any size: shards of realistic shape, in cells of five seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from engine.bench.data import predictions, samples
from engine.core.types import Progress
from engine.store import RunRecord, write_shard

N_LAYERS = 16
SEEDS_PER_CELL = 5
_BACKBONES = ("swin", "deit", "vit", "convnext", "mixer")
_DATASETS = ("cifar10", "cifar100", "svhn", "imagenette")
_VARIANTS = ("full_ar", "block_ar", "drloc")
_EPOCHS = 5


def made_up_run(number: int, n: int, n_classes: int | None = 10) -> RunRecord:
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
        **outputs,  # type: ignore[arg-type]
    )


def write_sweep(
    directory: Path, n_runs: int, n: int, *, n_classes: int | None = 10, progress: Progress | None = None
) -> None:
    """A shard per run."""
    for number in range(n_runs):
        if progress is not None:
            progress(number / n_runs, f"run {number + 1} of {n_runs}")
        write_shard(made_up_run(number, n, n_classes), directory)
