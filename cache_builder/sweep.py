"""Runs a grid: each run in one process, its shard written when it is finished, finished runs skipped.

A killed sweep loses at most the epoch in progress of the runs it was training: checkpoints and shards are replaced
whole, and the next start goes on from them. A run that fails does not keep the others from being trained.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from cache_builder.config import RunConfig
from cache_builder.devices import pick_device, spread
from cache_builder.one_run import Outcome, Places, attempt, is_finished
from cache_builder.workers import Outcomes, in_processes
from engine.core import validation
from engine.core.types import Progress


def pending(configs: Sequence[RunConfig], places: Places) -> list[RunConfig]:
    """The runs that have no shard yet, in order."""
    places.make_shards_folder()
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

    def close(self, outcome: Outcome) -> None:
        """Nothing more will come of this run."""
        self.report(outcome.run_id, 1.0, f"{outcome.status}, {outcome.reason}" if outcome.reason else outcome.status)


def sweep(
    configs: Sequence[RunConfig],
    places: Places,
    *,
    workers: int = 1,
    gpus: list[int] | None = None,
    progress: Progress,
) -> list[Outcome]:
    """Train every run that has no shard yet; returns what became of each of these. One worker means this process.

    Several workers take the machine's GPUs in turn, or those in `gpus`.
    """
    validation.whole("workers", workers, 1)
    devices = spread(places.device, workers, gpus)
    for device in devices:
        pick_device(device)  # one that is not there would fail every run
    if workers == 1:
        places = replace(places, device=devices[0])
    todo = pending(configs, places)
    overall = Overall(len(configs), len(configs) - len(todo), progress)

    def one_by_one() -> Outcomes:
        for config in todo:
            yield attempt(config, places, partial(overall.report, config.run_id))

    outcomes = []
    with closing(in_processes(todo, places, devices, overall.report) if workers > 1 else one_by_one()) as running:
        for outcome in running:
            outcomes.append(outcome)
            overall.close(outcome)
    return outcomes
