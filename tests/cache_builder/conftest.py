"""Shared by the tests of this folder: runs so small that a whole one takes a fraction of a second."""

import pytest
import torch

from cache_builder.config import RunConfig
from cache_builder.datasets import load_dataset

# Several test processes with several threads each would spend their time waiting for one another.
torch.set_num_threads(1)

TINY = {
    "suite": "tiny", "backbone": "micro_vit", "dataset": "digits", "variant": "full_ar", "seed": 0, "epochs": 4,
    "image_size": 16, "batch_size": 32, "learning_rate": 2e-3, "warmup_epochs": 1, "entropy_stride": 1,
    "ensemble_last": 2, "limit_train": 96, "limit_test": 60,
}  # fmt: skip


@pytest.fixture(scope="session")
def tiny_config():
    """Makes a tiny run's config, with changes."""
    return lambda **changes: RunConfig.from_mapping({**TINY, **changes})


@pytest.fixture(scope="session")
def digits():
    return load_dataset("digits", ".")
