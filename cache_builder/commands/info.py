"""`info`: list the runs of a cache."""

import argparse

from engine.store import open_cache
from engine.store.schema import ENGINE_VERSION

_SHOWN = (
    "run_id",
    "suite",
    "backbone",
    "dataset",
    "variant",
    "block_size",
    "seed",
    "n_samples",
    "n_classes",
    "n_layers",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cache", nargs="?", help="cache file (default: data/routing.duckdb, or ROUTECAL_CACHE)")


def run(arguments: argparse.Namespace) -> int:
    with open_cache(arguments.cache) as cache:
        runs = cache.runs()
        print(f"{cache.path}: {len(runs)} runs, {int(runs['n_samples'].sum()):,} samples, contents {cache.fingerprint}")
        ours = cache.diagnosed_by == str(ENGINE_VERSION)
        said = "are stored" if ours else f"of engine version {cache.diagnosed_by} are ignored, this is {ENGINE_VERSION}"
        print(f"answers at default settings {said if cache.diagnosed_by else 'are not stored'}")
    if not runs.empty:
        shown = runs[list(_SHOWN)].assign(
            accuracy=runs["accuracy"].map("{:.4f}".format),
            logits=runs["has_logits"].map({True: "yes", False: "no"}),
            extra=runs["extra_names"].map(", ".join),
        )
        print(shown.astype("string").fillna("-").to_string(index=False))
    return 0
