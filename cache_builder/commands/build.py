"""`build`: from a recipe to a published cache in one go, which is `sweep` with `--publish`."""

import argparse

from cache_builder.commands import sweep
from engine.store import default_cache_path

run = sweep.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sweep.add_arguments(parser)
    parser.set_defaults(publish=default_cache_path())
