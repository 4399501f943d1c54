"""Several GPUs in one machine: which worker gets which, without a GPU at hand."""

from dataclasses import replace
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
import torch

from cache_builder import sweep as sweeping
from cache_builder import workers
from cache_builder.devices import parse_gpus, pick_device, spread
from cache_builder.one_run import Outcome, Places
from cache_builder.progress import quiet
from engine.core.errors import InvalidInput


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("device", "n_workers", "gpus", "expected"),
    [
        ("auto", 3, None, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda", 5, None, ["cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:0"]),
        ("auto", 4, [0, 3], ["cuda:0", "cuda:3", "cuda:0", "cuda:3"]),
        ("cuda:1", 2, None, ["cuda:1", "cuda:1"]),
        ("cpu", 2, None, ["cpu", "cpu"]),
    ],
)
def test_workers_take_the_gpus_in_turn(device, n_workers, gpus, expected):
    assert spread(device, n_workers, gpus) == expected


def test_without_a_gpu_every_worker_computes_on_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert spread("auto", 2) == ["auto", "auto"]


@pytest.mark.usefixtures("four_gpus")
def test_gpus_are_read_and_mistakes_named():
    assert parse_gpus("0,2, 3") == [0, 2, 3]
    for wrong in ("0,4", "", "0,0", "one", "-1"):
        with pytest.raises(InvalidInput, match="--gpus"):
            parse_gpus(wrong)
    with pytest.raises(InvalidInput, match="--device"):
        pick_device("cuda:4")


@pytest.mark.usefixtures("four_gpus")
def test_the_runs_of_a_sweep_spread_over_the_gpus(tmp_path, tiny_config, monkeypatch):
    seen = []

    class Stub(workers.Worker):
        """Says at once that its run is trained, and remembers where."""

        def __init__(self, device):
            self.device = device
            self.pipe, self.theirs = Pipe()
            self.process = SimpleNamespace(
                is_alive=lambda: True, terminate=lambda: None, join=lambda _seconds: None, kill=lambda: None
            )

        def give(self, config, places):
            super().give(config, places)
            received, sent_to = self.theirs.recv()
            seen.append((received.run_id, sent_to.device))
            self.theirs.send(Outcome(received.run_id, "trained"))

    monkeypatch.setattr(workers, "Worker", Stub)
    places = Places(tmp_path, tmp_path / "runs", tmp_path / "shards")
    configs = [tiny_config(seed=seed) for seed in range(6)]
    outcomes = sweeping.sweep(configs, places, workers=3, gpus=[0, 2, 3], progress=quiet)
    assert {outcome.run_id for outcome in outcomes} == {config.run_id for config in configs}
    assert [device for _, device in seen[:3]] == ["cuda:0", "cuda:2", "cuda:3"]
    assert {device for _, device in seen} == {"cuda:0", "cuda:2", "cuda:3"}

    attempted = []
    monkeypatch.setattr(
        sweeping, "attempt", lambda config, at, _report: attempted.append(at) or Outcome(config.run_id, "trained")
    )
    sweeping.sweep(configs[:1], places, gpus=[2], progress=quiet)
    assert attempted == [replace(places, device="cuda:2")]
