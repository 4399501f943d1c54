"""`routecal`: every command under one name; `python -m engine`, `app` and `cache_builder` have them too."""

import argparse
import sys
from pathlib import Path

from app.__main__ import COMMANDS as OF_THE_DASHBOARD
from cache_builder.__main__ import COMMANDS as OF_THE_BUILDER
from engine.__main__ import COMMANDS as OF_THE_ENGINE
from engine.commands.command_line import run_command
from engine.core.errors import CacheError
from engine.core.release import DATA

ABOUT = "Does a network's routing say anything about how far its confidence can be trusted?"
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("routecal", "the dashboard over the bundled runs"),
    **OF_THE_DASHBOARD,
    **OF_THE_ENGINE,
    **OF_THE_BUILDER,
}


def main(arguments: list[str] | None = None) -> int:
    return run_command("routecal", ABOUT, COMMANDS, sys.argv[1:] if arguments is None else arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shards", nargs="?", type=Path, help="directory of shards (default: data/shards)")
    parser.add_argument("--port", type=int, default=8501, help="(default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """`demo`: publish the bundled shards, if that was not done yet, and serve them."""
    shards = arguments.shards or DATA / "shards"
    if not any(shards.glob("*.parquet")):
        raise CacheError(
            f"{shards}: no shards here. The bundled runs are not in the package: they are in the folder data/shards of "
            "RouteCal's source code. Run `routecal demo` there, or `routecal demo FOLDER` with that folder"
        )
    cache = str(shards.resolve().parent / "routing.duckdb")  # as `make run` does
    return main(["publish", str(shards), "--cache", cache]) or main(["serve", cache, "--port", str(arguments.port)])


if __name__ == "__main__":
    sys.exit(main())
