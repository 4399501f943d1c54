"""`python -m cache_builder train | extract | sweep | import | publish | info | verify`."""

from __future__ import annotations

import argparse
import importlib
import sys

from engine.errors import RouteCalError

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("cache_builder.commands.train", "train one model and write its run as a shard"),
    "extract": ("cache_builder.commands.extract", "make a run of a trained checkpoint"),
    "sweep": ("cache_builder.commands.sweep", "train a grid of runs, skipping what is finished"),
    "import": ("cache_builder.commands.import_", "make a run of somebody else's per-sample outputs"),
    "publish": ("cache_builder.commands.publish", "assemble the cache from the shards"),
    "info": ("cache_builder.commands.info", "list the runs of a cache"),
    "verify": ("cache_builder.commands.verify", "check shards against their checksums and their own contents"),
}
"""Name to module and summary. Only the chosen command's module is imported: most need no torch."""


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m cache_builder", description="From models to RouteCal's cache.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, (module_name, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name == chosen:
            module = importlib.import_module(module_name)
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
