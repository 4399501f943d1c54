"""Small runs of every kind a cache may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from engine.store import Layer, RunRecord


def build_record(
    run_id: str = "run", *, seed: int = 0, n: int = 60, classes: int = 4, n_layers: int = 3, **changes: Any
):
    rng = np.random.default_rng(abs(seed))
    fields: dict[str, Any] = {
        "run_id": run_id,
        "suite": "unit",
        "backbone": "vit_micro",
        "dataset": "digits",
        "variant": "full_ar",
        "seed": seed,
        "logits": rng.normal(size=(n, classes)) * 3,
        "labels": rng.integers(0, classes, n),
        "entropies": rng.beta(6, 2, size=(n, n_layers)),
        "layers": [Layer(f"blocks.{layer}.attn", layer + 2) for layer in range(n_layers)],
        "extra": {"margin": rng.normal(size=n), "distance": rng.exponential(size=n)},
        "epochs": pd.DataFrame(
            {"epoch": [0] * n_layers, "layer": range(1, n_layers + 1), "mean_entropy": 0.5, "std_entropy": 0.25}
        ),
        "epoch_metrics": pd.DataFrame({"epoch": [0, 1], "name": ["loss", "loss"], "value": [2.5, 1.25]}),
        "config": {"lr": 5e-4, "nested": {"a": [1, 2]}},
        "provenance": {"commit": "abc", "versions": {"numpy": "2"}, "device": "cpu", "seconds": 1.5, "source": "test"},
    }
    return RunRecord(**(fields | changes))


def without_logits(run_id: str = "plain", *, n: int = 60, **changes: Any) -> RunRecord:
    rng = np.random.default_rng(7)
    fields: dict[str, Any] = {
        "logits": None,
        "labels": None,
        "confidence": rng.uniform(size=n),
        "correct": rng.uniform(size=n) < 0.5,
        "entropies": None,
        "layers": (),
        "epochs": None,
    }
    return build_record(run_id, n=n, **(fields | changes))


@pytest.fixture(scope="session")
def make_record() -> Callable[..., RunRecord]:
    return build_record


@pytest.fixture(scope="session")
def make_plain_record() -> Callable[..., RunRecord]:
    return without_logits
