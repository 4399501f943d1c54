"""`python -m engine.store publish`: what `make run` needs before the dashboard starts."""

from __future__ import annotations

import argparse
import sys

from engine.errors import RouteCalError
from engine.store.publish import publish


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.store", description="The cache of RouteCal.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("publish", help="assemble the cache from the shards")
    command.add_argument("shards", nargs="?", help="directory of shards (default: data/shards)")
    command.add_argument("--cache", help="file to write (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parsed = parser.parse_args(arguments)
    try:
        print(publish(parsed.shards, parsed.cache))
    except RouteCalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
