"""Made-up runs and caches that several tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from engine.store import Layer, RunRecord, publish, write_shard

N_LAYERS, N_CLASSES = 6, 5
settings.register_profile("no clock", deadline=None)  # a busy machine is no failure
settings.load_profile("no clock")

FAULTS = ("tests/faults/", *(f"tests/fuzz/test_{name}_fuzz.py" for name in ("address", "engine", "import", "store")))
"""What `make faults` runs and `make test` does not, besides single tests that are marked so: long, and far from what
somebody who changes the sources is likely to break."""
TOGETHER = ("tests/browser/", "tests/faults/")
"""Folders whose tests share servers that are slow to start: each goes to one worker."""
BY_FILE = ("tests/app/", "tests/engine/")
"""Folders in which the tests of a file share what is slow to compute."""
FIRST = (*TOGETHER, "tests/cache_builder/test_sweep.py", "tests/test_container.py", *BY_FILE)
"""What is long goes first, so that in the end no worker is left alone with it; single quick tests fill the gaps."""


class SharedTogether(LoadScopeScheduling):
    """What shares something slow to one worker, every other test by itself to whichever worker is free.

    Marks of xdist (`xdist_group`) have no effect here: it writes them into a private field that pytest 9 lacks.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(BY_FILE):
            return nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid)


@pytest.hookimpl(optionalhook=True)  # xdist may be switched off
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> SharedTogether:
    config.option.loadscopereorder = False  # it would begin with whatever has most tests, however quick
    return SharedTogether(config, log)


@pytest.hookimpl(tryfirst=True)  # before -m chooses among them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(FAULTS):
            item.add_marker("faults")
    items.sort(
        key=lambda item: next((place for place, path in enumerate(FIRST) if item.nodeid.startswith(path)), len(FIRST))
    )


def made_up_run(
    run_id: str, *, seed: int = 0, n: int = 1500, profile: bool = True, logits: bool = True, **identity: object
) -> RunRecord:
    """A run whose routing has nothing to do with correctness, with or without logits and profile."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, N_CLASSES)) * 2
    labels = (scores / 1.4 + rng.gumbel(size=scores.shape)).argmax(axis=1)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    outputs: dict[str, object] = {"logits": scores, "labels": labels}
    if not logits:
        outputs = {"confidence": chances.max(axis=1), "correct": chances.argmax(axis=1) == labels}
    if profile:
        outputs["entropies"] = np.clip(rng.beta(20, 2, (n, N_LAYERS)) - 0.05 * chances.max(axis=1, keepdims=True), 0, 1)
        outputs["layers"] = [Layer(f"block {layer // 2 + 2} layer", 2 + layer // 2) for layer in range(N_LAYERS)]
        grid = pd.MultiIndex.from_product([range(1, 5), range(1, N_LAYERS + 1)], names=["epoch", "layer"])
        outputs["epochs"] = pd.DataFrame(
            {"mean_entropy": rng.uniform(0.8, 1, len(grid)), "std_entropy": rng.uniform(0, 0.1, len(grid))}, index=grid
        ).reset_index()
    described = {"suite": "test", "backbone": "toy", "dataset": "dice", "variant": "full_ar", "seed": seed} | identity
    return RunRecord(run_id=run_id, **described, **outputs)


KINDS = {
    "full": made_up_run("full-s0"),
    "second": made_up_run("full-s1", seed=1),
    "ensemble": made_up_run("full-s0-last5", seed=0, suite="test-last5"),
    "no-logits": made_up_run("no-logits-s0", seed=2, logits=False, variant="block_ar", block_size=2),
    "no-profile": made_up_run("baseline-s0", seed=3, profile=False, variant="baseline"),
    "imported": made_up_run(
        "imported", seed=4, profile=False, logits=False, backbone="unknown", variant="imported", suite="imported"
    ),
}


@pytest.fixture(scope="session")
def cache_of_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published cache with a run of every kind that pages must cope with."""
    folder = tmp_path_factory.mktemp("kinds")
    for record in KINDS.values():
        write_shard(record, folder / "shards")
    publish(folder / "shards", folder / "cache.duckdb")
    return folder / "cache.duckdb"


@pytest.fixture(scope="session")
def empty_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    (folder / "shards").mkdir()
    publish(folder / "shards", folder / "cache.duckdb")
    return folder / "cache.duckdb"


@pytest.fixture(scope="session")
def make_run() -> Callable[..., RunRecord]:
    """`made_up_run`, for tests that need one more."""
    return made_up_run
