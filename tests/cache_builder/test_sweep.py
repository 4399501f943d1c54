"""Sweeps: finished runs are skipped, kills lose nothing, and every way of running gives the same shards."""

import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cache_builder import one_run, ray_sweep
from cache_builder.checkpoint import claimed, load_checkpoint
from cache_builder.extract import extract_checkpoint
from cache_builder.one_run import Outcome, Places, is_finished
from cache_builder.progress import quiet
from cache_builder.ray_sweep import MissingPackage, sweep_on_ray
from cache_builder.sweep import Overall, sweep
from engine.core.errors import CacheError, InvalidInput
from engine.store import read_shard, shard_paths, write_shard

ROOT = Path(__file__).resolve().parents[2]


def trained(outcomes):
    return [outcome.run_id for outcome in outcomes if outcome.status == "trained"]


def failed(outcomes):
    return {outcome.run_id: outcome.reason for outcome in outcomes if outcome.status == "failed"}


def places(folder):
    return Places(data=folder, runs=folder / "runs", shards=folder / "shards", device="cpu")


@pytest.fixture(scope="module")
def configs(tiny_config):
    return [
        tiny_config(epochs=2),
        tiny_config(epochs=2, seed=1),
        tiny_config(epochs=2, backbone="micro_swin", variant="block_ar", block_size=2),
        tiny_config(epochs=2, backbone="micro_deit", variant="baseline"),
    ]


@pytest.fixture(scope="module")
def serial(tmp_path_factory, configs):
    target = places(tmp_path_factory.mktemp("serial"))
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
    assert trained(sweep(configs, target, progress=quiet)) == [config.run_id for config in configs]
    assert sweep(configs, target, progress=quiet) == []
    (target.shards / f"{configs[1].run_id}.parquet").unlink()
    assert trained(sweep(configs, target, progress=quiet)) == [configs[1].run_id]


def test_a_shard_of_other_settings_is_an_error_not_a_skip(tmp_path, configs, tiny_config):
    target = places(tmp_path)
    sweep(configs[:1], target, progress=quiet)
    assert is_finished(configs[0], target.shards)
    with pytest.raises(CacheError, match="learning_rate"):
        sweep([tiny_config(epochs=2, learning_rate=1e-3)], target, progress=quiet)


def test_a_shard_of_a_run_in_training_does_not_count_as_finished(tmp_path, configs, digits):
    target = places(tmp_path)

    def stop_after_the_first_epoch(fraction, _text):
        if fraction > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(configs[:1], target, progress=stop_after_the_first_epoch)
    state = load_checkpoint(target.runs / configs[0].run_id / "checkpoint.pt")
    write_shard(extract_checkpoint(state, digits, device="cpu"), target.shards)
    assert not is_finished(configs[0], target.shards)
    assert trained(sweep(configs[:1], target, progress=quiet)) == [configs[0].run_id]
    assert is_finished(configs[0], target.shards)


def test_a_run_finished_while_its_folder_was_waited_for_is_not_trained_again(tmp_path, configs, monkeypatch):
    target = places(tmp_path)
    sweep(configs[:1], target, progress=quiet)
    monkeypatch.setattr(one_run, "train", lambda *_arguments, **_options: pytest.fail("trained again"))
    outcome = one_run.attempt(configs[0], target, quiet)  # as a sweep does that had looked before
    assert (outcome.status, outcome.reason) == ("skipped", "finished elsewhere")


@pytest.fixture
def flawed(configs, tiny_config):
    """Two runs that fail, each in its own way, before two that do not."""
    diverging = tiny_config(epochs=2, seed=7, learning_rate=1e30)
    impossible = tiny_config(epochs=2, backbone="resnet10t")  # an InvalidInput, which does not survive pickling
    return [diverging, impossible, *configs[:2]]


def test_a_run_that_fails_does_not_stop_the_others(tmp_path, flawed):
    outcomes = sweep(flawed, places(tmp_path), progress=quiet)
    assert sorted(trained(outcomes)) == sorted(config.run_id for config in flawed[2:])
    reasons = failed(outcomes)
    assert reasons[flawed[0].run_id].startswith("the loss became nan")
    assert "VisionTransformer" in reasons[flawed[1].run_id]


@pytest.mark.faults
def test_neither_a_failing_run_nor_a_killed_worker_stops_the_other_worker(tmp_path, flawed):
    killed = []

    def kill_one(_fraction, _text):
        if not killed:
            killed.append(multiprocessing.active_children()[0])
            killed[0].kill()  # as the system does when memory runs out

    outcomes = sweep(flawed, places(tmp_path), workers=2, progress=kill_one)
    reasons = failed(outcomes)
    (victim,) = [run_id for run_id, reason in reasons.items() if reason.startswith("its process was killed (SIGKILL)")]
    assert reasons.keys() == {flawed[0].run_id, flawed[1].run_id, victim}
    assert sorted([*trained(outcomes), *reasons]) == sorted(config.run_id for config in flawed)


@pytest.mark.faults
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_stops_the_sweep_and_its_workers(tmp_path, configs, workers):
    def interrupt(_fraction, _text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(configs, places(tmp_path), workers=workers, progress=interrupt)
    assert multiprocessing.active_children() == []


def test_a_run_of_another_sweep_is_skipped(tmp_path, configs):
    target = places(tmp_path)
    with claimed(target.runs / configs[0].run_id):
        outcomes = sweep(configs[:2], target, progress=quiet)
    assert outcomes[0] == Outcome(configs[0].run_id, "skipped", "another process is training it")
    assert trained(outcomes) == [configs[1].run_id]


def test_a_device_that_is_not_there_is_refused_before_any_run(tmp_path, configs):
    with pytest.raises(InvalidInput, match="--device"):
        sweep(configs, replace(places(tmp_path), device="gpu"), progress=quiet)


def test_overall_progress_counts_runs_of_earlier_sittings():
    reports = []
    overall = Overall(4, 1, lambda fraction, text: reports.append((fraction, text)))
    overall.report("a", 0.5, "epoch 1/2")
    overall.report("a", 1.0, "epoch 2/2")
    overall.report("b", 0.5, "epoch 1/2")
    assert [fraction for fraction, _ in reports] == [1.5 / 4, 2 / 4, 2.5 / 4]
    assert reports[0][1].startswith("[1/4 runs")
    assert reports[2][1].startswith("[2/4 runs")


@pytest.mark.faults
def test_two_processes_give_the_same_shards_as_one(tmp_path, configs, serial):
    target = places(tmp_path / "pool")
    reports = []
    outcomes = sweep(configs, target, workers=2, progress=lambda fraction, _text: reports.append(fraction))
    assert sorted(trained(outcomes)) == sorted(config.run_id for config in configs)
    assert reports[-1] == pytest.approx(1.0)
    assert_same_shards(target.shards, serial)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
@pytest.mark.faults
def test_two_ray_workers_give_the_same_shards_as_one_process(tmp_path, configs, flawed, serial):
    target = places(tmp_path / "ray")
    outcomes = sweep_on_ray([*flawed[:2], *configs], target, address="local", workers=2, progress=quiet)
    assert sorted(trained(outcomes)) == sorted(config.run_id for config in configs)
    assert failed(outcomes).keys() == {config.run_id for config in flawed[:2]}
    assert_same_shards(target.shards, serial)
    assert sweep_on_ray(configs, target, address="local", workers=2, progress=quiet) == []


@pytest.mark.faults
def test_a_ray_task_that_is_lost_fails_its_run_only(tmp_path, configs, monkeypatch):
    class RayError(Exception):
        pass

    class Remote:
        def __init__(self, work):
            self.work = work

        def remote(self, config, *others):
            return lambda: self.work(config, *others)

    def get(reference):
        if reference is references[0]:
            raise RayError("the worker died unexpectedly\nand more")
        return reference()

    references = []

    def wait(waiting, num_returns):
        references[:] = references or waiting
        return waiting[:num_returns], waiting[num_returns:]

    ray = SimpleNamespace(
        init=lambda **_options: None, shutdown=lambda: None, cluster_resources=dict, wait=wait, get=get,
        remote=lambda **_options: Remote, exceptions=SimpleNamespace(RayError=RayError),
    )  # fmt: skip
    monkeypatch.setattr(ray_sweep, "_ray", lambda: ray)
    lines = []
    outcomes = sweep_on_ray(
        configs[:2], places(tmp_path), address="auto", progress=lambda _fraction, text: lines.append(text)
    )
    assert failed(outcomes) == {configs[0].run_id: "RayError: the worker died unexpectedly"}
    assert trained(outcomes) == [configs[1].run_id]
    assert lines[-1].endswith(f"{configs[1].run_id}: trained")


def test_without_ray_the_error_names_the_package(tmp_path, configs, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackage, match="pip install ray"):
        ray_sweep.sweep_on_ray(configs, places(tmp_path), address="local", progress=quiet)


@pytest.mark.faults
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
