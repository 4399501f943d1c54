"""`publish`: assemble the cache from the shards."""

import argparse
from pathlib import Path

from cache_builder.progress import console
from engine.store import publish


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shards", nargs="?", type=Path, help="directory of shards (default: data/shards)")
    parser.add_argument("--cache", type=Path, help="file to write (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parser.add_argument(
        "--force", action="store_true", help="write the cache even if it seems to hold exactly these shards"
    )
    parser.add_argument(
        "--no-diagnose",
        action="store_true",
        help="leave the answers at default settings to pages or `diagnose`",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.no_diagnose:
        print(publish(arguments.shards, arguments.cache, force=arguments.force))
    else:
        from cache_builder.diagnose import publish_with_answers  # which brings the whole engine

        print(publish_with_answers(arguments.shards, arguments.cache, console(), force=arguments.force))
    return 0
