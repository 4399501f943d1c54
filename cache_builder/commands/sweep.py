"""`sweep`: every run of a recipe's grid, here or on a Ray cluster."""

import argparse
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

from cache_builder.commands.shared_options import add_places, places_from
from cache_builder.config import load_recipe
from cache_builder.devices import parse_gpus
from cache_builder.diagnose import publish_with_answers
from cache_builder.plan import plan, plan_table
from cache_builder.progress import console
from cache_builder.ray_sweep import sweep_on_ray
from cache_builder.sweep import pending, sweep
from engine.core import validation
from engine.core.errors import InvalidInput
from engine.store import shard_paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="paper, finetune, replica, smoke or another of ours, or the path of a YAML file")
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="only runs whose name matches, such as '*cifar10*'"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the runs and whether each is finished, train nothing"
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print the runs with parameters, routing layers, steps and an estimate of memory, train nothing",
    )
    parser.add_argument(
        "--workers",
        type=int,
        help="processes on this machine, which take its GPUs in turn (default: 1, or one per GPU of --gpus; "
        "with --ray local, one per processor)",
    )
    parser.add_argument("--gpus", metavar="0,2,3", help="the GPUs of this machine to use (default: all, for --workers)")
    parser.add_argument("--ray", metavar="ADDRESS", help="run as Ray tasks: auto, a head's address, or local")
    parser.add_argument("--gpus-per-run", type=float, default=1.0, help="with --ray and a GPU device (default: 1)")
    parser.add_argument(
        "--publish",
        type=Path,
        metavar="CACHE",
        help="publish all shards into this cache at the end (with --ray always done, by default into the usual cache)",
    )
    add_places(parser)


def run(arguments: argparse.Namespace) -> int:
    configs = [config for config in load_recipe(arguments.recipe).runs() if fnmatch(config.run_id, arguments.only)]
    if not configs:
        raise InvalidInput("--only", "a pattern that matches at least one run of the recipe's grid", arguments.only)
    places = places_from(arguments)
    if arguments.list:
        unfinished = {config.run_id for config in pending(configs, places)}
        for config in configs:
            print(f"{'to do   ' if config.run_id in unfinished else 'finished'}  {config.run_id}")
        return 0
    if arguments.plan:
        print(plan_table([plan(config, places.data) for config in configs]))
        return 0
    gpus = None if arguments.gpus is None else parse_gpus(arguments.gpus)
    if gpus is not None and arguments.ray is not None:
        raise InvalidInput("--gpus", "none with --ray, which hands out GPUs itself", arguments.gpus)
    if arguments.ray is None:
        workers = len(gpus or [0]) if arguments.workers is None else arguments.workers
        outcomes = sweep(configs, places, workers=workers, gpus=gpus, progress=console())
    else:
        validation.number("--gpus-per-run", arguments.gpus_per_run)
        outcomes = sweep_on_ray(
            configs,
            places,
            address=arguments.ray,
            gpus_per_run=arguments.gpus_per_run,
            workers=arguments.workers,
            progress=console(),
        )
    counts = Counter(outcome.status for outcome in outcomes)
    print(f"{counts['trained']} runs trained, {len(configs) - len(outcomes)} were finished already")
    if counts["skipped"]:
        print(f"{counts['skipped']} left to another sweep that shares these folders")
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    for outcome in failed:
        print(f"failed: {outcome.run_id}: {outcome.reason}", file=sys.stderr)
    # After a sweep in which every run failed there may be nothing; an empty cache would help nobody.
    if (arguments.publish is not None or arguments.ray is not None) and shard_paths(places.shards):
        report = publish_with_answers(places.shards, arguments.publish, console())
        print(f"{report.n_runs} runs published")
    return 1 if failed else 0
