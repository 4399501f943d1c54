"""Sweeps: finished runs are skipped, kills lose nothing, and every way of running gives the same shards."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cache_builder import ray_sweep
from cache_builder.progress import quiet
from cache_builder.ray_sweep import MissingPackage, sweep_on_ray
from cache_builder.sweep import Overall, Places, is_finished, sweep
from engine.errors import CacheError
from engine.store import read_shard, shard_paths

ROOT = Path(__file__).resolve().parents[2]


def places(folder):
    return Places(data=folder, runs=folder / "runs", shards=folder / "shards", device="cpu")


@pytest.fixture
def configs(tiny_config):
    return [
        tiny_config(epochs=2),
        tiny_config(epochs=2, seed=1),
        tiny_config(epochs=2, backbone="micro_swin", variant="block_ar", block_size=2),
        tiny_config(epochs=2, backbone="micro_deit", variant="baseline"),
    ]


@pytest.fixture
def serial(tmp_path, configs):
    target = places(tmp_path / "serial")
    sweep(configs, target, progress=quiet)
    return {path.stem: read_shard(path) for path in shard_paths(target.shards)}


def assert_same_shards(folder, expected):
    found = {path.stem: read_shard(path) for path in shard_paths(folder)}
    assert found.keys() == expected.keys()
    for run_id, record in found.items():
        other = expected[run_id]
        assert np.array_equal(record.logits, other.logits)
        assert np.array_equal(record.entropies, other.entropies)
        assert record.extra.keys() == other.extra.keys()
        assert all(np.array_equal(record.extra[name], other.extra[name]) for name in record.extra)
        assert record.epochs.equals(other.epochs)
        assert record.config == other.config


def test_finished_runs_are_skipped_and_only_missing_ones_trained(tmp_path, configs):
    target = places(tmp_path)
    assert sweep(configs, target, progress=quiet) == [config.run_id for config in configs]
    assert sweep(configs, target, progress=quiet) == []
    (target.shards / f"{configs[1].run_id}.parquet").unlink()
    assert sweep(configs, target, progress=quiet) == [configs[1].run_id]


def test_a_shard_of_other_settings_is_an_error_not_a_skip(tmp_path, configs, tiny_config):
    target = places(tmp_path)
    sweep(configs[:1], target, progress=quiet)
    assert is_finished(configs[0], target.shards)
    with pytest.raises(CacheError, match="learning_rate"):
        sweep([tiny_config(epochs=2, learning_rate=1e-3)], target, progress=quiet)


def test_overall_progress_counts_runs_of_earlier_sittings():
    reports = []
    overall = Overall(4, 1, lambda fraction, text: reports.append((fraction, text)))
    overall.report("a", 0.5, "epoch 1/2")
    overall.report("a", 1.0, "epoch 2/2")
    overall.report("b", 0.5, "epoch 1/2")
    assert [fraction for fraction, _ in reports] == [1.5 / 4, 2 / 4, 2.5 / 4]
    assert reports[0][1].startswith("[1/4 runs")
    assert reports[2][1].startswith("[2/4 runs")


def test_two_processes_give_the_same_shards_as_one(tmp_path, configs, serial):
    target = places(tmp_path / "pool")
    reports = []
    trained = sweep(configs, target, workers=2, progress=lambda fraction, _text: reports.append(fraction))
    assert sorted(trained) == sorted(config.run_id for config in configs)
    assert reports[-1] == pytest.approx(1.0)
    assert_same_shards(target.shards, serial)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_two_ray_workers_give_the_same_shards_as_one_process(tmp_path, configs, serial):
    target = places(tmp_path / "ray")
    trained = sweep_on_ray(configs, target, address="local", workers=2, progress=quiet)
    assert sorted(trained) == sorted(config.run_id for config in configs)
    assert_same_shards(target.shards, serial)
    assert sweep_on_ray(configs, target, address="local", workers=2, progress=quiet) == []


def test_without_ray_the_error_names_the_package(tmp_path, configs, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackage, match="pip install ray"):
        ray_sweep.sweep_on_ray(configs, places(tmp_path), address="local", progress=quiet)


def test_twenty_kills_lose_only_the_run_in_progress(tmp_path, configs, serial):
    routed = configs[:3]  # each with an ensemble beside it
    settings = json.dumps([config.as_dict() for config in routed])
    script = Path(__file__).with_name("kill_sweep.py")
    finished = subprocess.run(
        [sys.executable, script, tmp_path / "killed", settings, "20"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert json.loads(finished.stdout) == {"kills": 20, "finished": 6}
    expected = {run_id: record for run_id, record in serial.items() if "baseline" not in run_id}
    assert_same_shards(tmp_path / "killed" / "shards", expected)
