"""Run by test_sweep: forks a sweep with publishing again and again and kills it with SIGKILL at random moments.

Forking from one process that has everything imported makes twenty kills take seconds; this is a process of its own
so that the test runner's threads are not forked. Prints one JSON object.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from cache_builder.config import RunConfig
from cache_builder.one_run import Places, _dataset
from cache_builder.progress import quiet
from cache_builder.sweep import sweep
from engine.store import open_cache, publish, shard_paths, verify_shard

torch.set_num_threads(1)


def read_whole(cache):
    """The runs of a cache, every one of them loaded."""
    with open_cache(cache) as opened:
        run_ids = set(opened.runs()["run_id"])
        for run_id in run_ids:
            assert opened.load(run_id).logits.size
    return run_ids


def main(folder, settings, n_kills):
    configs = [RunConfig.from_mapping(values) for values in settings]
    places = Places(data=folder, runs=folder / "runs", shards=folder / "shards", device="cpu")
    cache = folder / "cache.duckdb"
    _dataset("digits", folder, 16, None)
    places.shards.mkdir(parents=True)
    moments = random.Random(0)
    seen, ever, kills = set(), set(), 0
    while kills < n_kills:
        child = os.fork()
        if child == 0:
            sweep(configs, places, progress=quiet)
            publish(places.shards, cache)
            os._exit(0)
        time.sleep(moments.uniform(0.05, 1.0))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
        finished = {path.stem for path in shard_paths(places.shards)}
        assert seen <= finished, "a finished run was lost"
        seen = finished
        ever |= seen
        for path in shard_paths(places.shards):
            verify_shard(path)
        if cache.exists():  # as the killed child left it: publishing here first would mend what it broke
            assert read_whole(cache) <= ever
        if seen:
            publish(places.shards, cache)
            assert read_whole(cache) == seen
        if len(seen) == 2 * len(configs):  # all done (each with its ensemble): take one away, so that kills still hit
            (places.shards / f"{configs[kills % len(configs)].run_id}.parquet").unlink()
            seen = {path.stem for path in shard_paths(places.shards)}
    sweep(configs, places, progress=quiet)
    print(json.dumps({"kills": kills, "finished": len(shard_paths(places.shards))}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]))
