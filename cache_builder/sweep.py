"""Runs a grid: each run in one process, its shard written when it is finished, finished runs skipped.

A killed sweep loses at most the epoch in progress of the runs it was training: checkpoints and shards are replaced
whole, and the next start goes on from them.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import torch

from cache_builder.checkpoint import claimed
from cache_builder.config import RunConfig
from cache_builder.datasets import ImageData, load_dataset
from cache_builder.extract import ensemble_record, trained_record
from cache_builder.provenance import code_version
from cache_builder.train import input_size, pick_device, train
from engine import validation
from engine.errors import CacheError
from engine.store import write_shard
from engine.store.shard import read_shard, shard_path
from engine.types import Progress

Report = Callable[[str, float, str], None]
"""Called with the run, the fraction of it that is done, and a short text."""


@dataclass(frozen=True)
class Places:
    """Where a sweep reads and writes: image data, run folders (checkpoints), and finished shards."""

    data: Path
    runs: Path
    shards: Path
    device: str = "auto"
    threads: int = 1


@lru_cache(maxsize=2)
def _dataset(name: str, root: Path, side: int) -> ImageData:
    return load_dataset(name, root, folder_side=side)


def is_finished(config: RunConfig, shards: Path) -> bool:
    """Whether the run's shard is there; one made with other settings is an error, not a skip."""
    path = shard_path(shards, config.run_id)
    if not path.exists():
        return False
    stored = read_shard(path).config
    differing = sorted(name for name, value in config.as_dict().items() if stored.get(name) != value)
    if differing:
        raise CacheError(
            f"{path.name}: made with other settings ({', '.join(differing)}); remove it, or change the suite's name"
        )
    return True


@contextmanager
def without_denormals() -> Iterator[None]:
    """Vanishing optimiser moments would slow a CPU down; the setting is the thread's, so it is put back."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def run_one(config: RunConfig, places: Places, progress: Progress) -> str:
    """Train one run and write its shards, the ensemble's first, so that the run's own shard marks it finished."""
    torch.set_num_threads(places.threads)
    device = pick_device(places.device)
    code_version()  # what runs now, not what may be committed by the end
    with claimed(places.runs / config.run_id), without_denormals():
        data = _dataset(config.dataset, places.data, input_size(config))
        trained = train(config, data, places.runs / config.run_id, device=places.device, progress=progress)
        if config.ensemble_last > 1 and len(trained.members) > 1:
            write_shard(ensemble_record(config, data, trained, device), places.shards)
        write_shard(trained_record(config, data, trained, device), places.shards)
    return config.run_id


def pending(configs: Sequence[RunConfig], places: Places) -> list[RunConfig]:
    """The runs that have no shard yet, in order."""
    places.shards.mkdir(parents=True, exist_ok=True)
    return [config for config in configs if not is_finished(config, places.shards)]


class Overall:
    """Turns the progress of single runs into that of the sweep."""

    def __init__(self, n_runs: int, n_finished: int, progress: Progress) -> None:
        self.n_runs = n_runs
        self.by_run: dict[str, float] = {}
        self.n_before = n_finished
        self.started = time.perf_counter()
        self.progress = progress

    def report(self, run_id: str, fraction: float, text: str) -> None:
        self.by_run[run_id] = fraction
        now = sum(self.by_run.values())
        done = (self.n_before + now) / self.n_runs
        finished = self.n_before + sum(value >= 1 for value in self.by_run.values())
        left = (time.perf_counter() - self.started) / max(now, 1e-9) * (self.n_runs - self.n_before - now)
        hint = f", about {left / 60:.0f} min left" if now > 0.05 else ""
        self.progress(done, f"[{finished}/{self.n_runs} runs{hint}] {run_id}: {text}")


def _leave_with_parent(parent: int) -> None:
    """End this worker when the sweep that started it was killed; nobody would collect its result."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


Message = tuple[str, float, str] | None
_QUEUE: multiprocessing.Queue[Message] | None = None


def _start_worker(queue: multiprocessing.Queue[Message], parent: int) -> None:
    global _QUEUE
    _QUEUE = queue
    _leave_with_parent(parent)


def _run_in_worker(config: RunConfig, places: Places) -> str:
    queue = _QUEUE
    assert queue is not None, "workers are started by _start_worker"
    return run_one(config, places, lambda fraction, text: queue.put((config.run_id, fraction, text)))


def _in_processes(todo: Sequence[RunConfig], places: Places, workers: int, report: Report) -> Iterator[str]:
    context = multiprocessing.get_context("spawn")  # a forked torch may hang in its thread pool
    queue: multiprocessing.Queue[Message] = context.Queue()

    def relay() -> None:
        while (message := queue.get()) is not None:
            report(*message)

    relaying = threading.Thread(target=relay, daemon=True)
    relaying.start()
    try:
        with ProcessPoolExecutor(workers, context, _start_worker, (queue, os.getpid())) as pool:
            futures = [pool.submit(_run_in_worker, config, places) for config in todo]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:  # after a failed run, those not yet started are not started
                for future in futures:
                    future.cancel()
    finally:
        queue.put(None)
        relaying.join()


def sweep(configs: Sequence[RunConfig], places: Places, *, workers: int = 1, progress: Progress) -> list[str]:
    """Train every run that has no shard yet; returns the runs trained now. One worker means this process."""
    validation.whole("workers", workers, 1)
    todo = pending(configs, places)
    overall = Overall(len(configs), len(configs) - len(todo), progress)
    if workers > 1:
        return list(_in_processes(todo, places, workers, overall.report))
    return [run_one(config, places, partial(overall.report, config.run_id)) for config in todo]
