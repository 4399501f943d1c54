"""`python -m engine audit | tables | bench`."""

from __future__ import annotations

import argparse
import importlib
import sys

from engine.errors import RouteCalError

COMMANDS = {
    "audit": "what the protocol says about every run of a cache",
    "tables": "the paper's calibration tables for the runs of a cache, as CSV and LaTeX",
    "bench": "time the engine beside its peers",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine", description="RouteCal's statistics.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"engine.commands.{name}")
        command = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except RouteCalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
