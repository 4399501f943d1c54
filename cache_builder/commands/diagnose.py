"""`diagnose`: fill in the answers that are missing beside the shards, and bring the cache up to date with them."""

import argparse
from pathlib import Path

from cache_builder.diagnose import publish_with_answers
from cache_builder.progress import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shards", nargs="?", type=Path, help="directory of shards (default: data/shards)")
    parser.add_argument("--cache", type=Path, help="file to write (default: data/routing.duckdb, or ROUTECAL_CACHE)")


def run(arguments: argparse.Namespace) -> int:
    print(publish_with_answers(arguments.shards, arguments.cache, console()))
    return 0
