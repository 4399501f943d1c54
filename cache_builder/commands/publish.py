"""`publish`: assemble the cache from the shards."""

import argparse

from engine.store import publish


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shards", nargs="?", help="directory of shards (default: data/shards)")
    parser.add_argument("--cache", help="file to write (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parser.add_argument(
        "--force", action="store_true", help="write the cache even if it seems to hold exactly these shards"
    )


def run(arguments: argparse.Namespace) -> int:
    print(publish(arguments.shards, arguments.cache, force=arguments.force))
    return 0
