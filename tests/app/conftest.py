"""What the tests of pages share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.store import Layer, RunRecord
from tests.app.driver import published


@pytest.fixture(autouse=True)
def _long_work_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest runs a script once, so long work is waited for instead of looked at again and again.

    Nor is it given up meanwhile: a job that nobody looks at ends after `PATIENCE`, which a busy machine can exceed.
    """
    monkeypatch.setattr("app.shell.long_work.FIRST_LOOK", 500.0)
    monkeypatch.setattr("app.compute.jobs.PATIENCE", 1000.0)


@pytest.fixture(autouse=True)
def _main_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest puts the script it runs in the place of `__main__`, which a process spawned later would import."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def planted(tmp_path: Path, make_run: Callable[..., RunRecord]) -> Path:
    """Names in ids, labels, layers, columns, settings and provenance."""
    base = make_run("jqdoe-net-s0", suite="jqdoe sweep", backbone="vit of zorblab", dataset="dice on gpu17")
    first = replace(
        make_run("jqdoe-net-s0", suite="jqdoe sweep", logits=False, backbone="vit of zorblab", dataset="dice on gpu17"),
        layers=[Layer(f"gpu17 layer {k}", 2) for k in range(base.n_layers)],
        extra={"score by jqdoe": np.linspace(0, 1, base.n_samples)},
        config={
            "data_root": "/scratch/jqdoe/secretset", "checkpoint": "final_model_jqdoe.pt", "lr": 0.1,
            "logger": {"host_name": "gpu17.zorblab.edu", "url": "https://track.zorblab.edu/jqdoe/1"},
            "out": "C:\\Users\\Jane Q Doe\\runs\\a b.csv", "share": "\\\\nas\\vol\\x", "ip": "10.17.3.4:22",
        },
        provenance={
            "source": "import of outputs_of_jqdoe.csv", "commit": "0123456789abcdef", "user": "jqdoe",
            "device": "cpu: on wombat-9000", "institution": "Quux University", "contact": "jane.doe@zorblab.edu",
            "notes": ["read from /home/jqdoe/My Files/outputs_of.csv, on wombat-9000"], "versions": {"numpy": "2.0"},
            "machine": ["wombat-9000"], "host": "zorblab",
        },
    )  # fmt: skip
    second = make_run("clean-s0", provenance={"source": "cache_builder train"}, config={"lr": 0.2})
    return published([first, second], tmp_path / "of jqdoe")
