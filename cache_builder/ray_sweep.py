"""The same grid as Ray tasks: one task per run, shards on a path that all machines share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cache_builder.config import RunConfig
from cache_builder.progress import quiet
from cache_builder.sweep import Overall, Places, pending, run_one
from engine.errors import RouteCalError
from engine.types import Progress


class MissingPackage(RouteCalError, ImportError):
    """An optional package that a chosen option needs."""


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingPackage("--ray needs the package ray: pip install ray==2.60.0, or leave --ray out") from error
    return ray


def sweep_on_ray(
    configs: Sequence[RunConfig],
    places: Places,
    *,
    address: str,
    gpus_per_run: float = 1.0,
    workers: int | None = None,
    progress: Progress,
) -> list[str]:
    """Train every run that has no shard yet as a Ray task; returns the runs trained now.

    `address` is a head's address, `auto` for the cluster this machine belongs to, or `local` for a Ray of its own
    with `workers` processors (None: all). On a device other than the CPU each task declares `gpus_per_run`. A task
    whose machine dies is started again and goes on from its checkpoint.
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
        task = ray.remote(num_cpus=places.threads, num_gpus=gpus, max_retries=3)(run_one)
        waiting = {task.remote(config, places, quiet): config.run_id for config in todo}
        finished: list[str] = []
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                run_id = str(ray.get(reference))
                del waiting[reference]
                finished.append(run_id)
                overall.report(run_id, 1.0, "finished")
        return finished
    finally:
        ray.shutdown()
