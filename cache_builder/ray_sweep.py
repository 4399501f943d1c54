"""The same grid as Ray tasks: one task per run, shards on a path that all machines share."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cache_builder.config import RunConfig
from cache_builder.diagnose import diagnose_shard
from cache_builder.one_run import Outcome, Places, attempt
from cache_builder.progress import quiet
from cache_builder.sweep import Overall, pending
from engine.core.errors import RouteCalError, first_line
from engine.core.types import Progress


class MissingPackage(RouteCalError, ImportError):
    """An optional package that a chosen option needs."""


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingPackage("--ray needs the package ray: pip install ray==2.60.0, or leave --ray out") from error
    return ray


def _attempt(config: RunConfig, places: Places, progress: Progress) -> Outcome:
    """Train one run, and compute the answers at default settings where the shards were made."""
    outcome = attempt(config, places, progress)
    if outcome.status == "trained":
        for path in places.shards.glob(f"{config.run_id}*.parquet"):
            if path.stem in (config.run_id, f"{config.run_id}-last{config.ensemble_last}"):
                diagnose_shard(path)
    return outcome


def sweep_on_ray(
    configs: Sequence[RunConfig],
    places: Places,
    *,
    address: str,
    gpus_per_run: float = 1.0,
    workers: int | None = None,
    progress: Progress,
) -> list[Outcome]:
    """Train every run that has no shard yet as a Ray task; returns what became of each of these.

    `address` is a head's address, `auto` for the cluster this machine belongs to, or `local` for a Ray of its own
    with `workers` processors (None: all). On a device other than the CPU each task declares `gpus_per_run`. A task
    whose machine dies is started again and goes on from its checkpoint, three times before its run counts as failed.
    """
    ray = _ray()
    # Workers have working folders of their own, so relative paths would lead them astray.
    places = replace(places, data=places.data.resolve(), runs=places.runs.resolve(), shards=places.shards.resolve())
    todo = pending(configs, places)
    overall = Overall(len(configs), len(configs) - len(todo), progress)
    if address == "local":
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
    else:
        ray.init(address=address, log_to_driver=False)
    try:
        gpus = 0.0 if places.device == "cpu" or not ray.cluster_resources().get("GPU") else gpus_per_run
        task = ray.remote(num_cpus=places.threads, num_gpus=gpus, max_retries=3)(_attempt)
        waiting = {task.remote(config, places, quiet): config.run_id for config in todo}
        outcomes: list[Outcome] = []
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                run_id = waiting.pop(reference)
                try:
                    outcome = ray.get(reference)
                except ray.exceptions.RayError as error:  # the task was lost: no memory, no machine
                    outcome = Outcome(run_id, "failed", f"{type(error).__name__}: {first_line(error)}")
                outcomes.append(outcome)
                overall.close(outcome)
        return outcomes
    finally:
        ray.shutdown()
