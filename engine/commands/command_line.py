"""The shape that the commands of the three packages share: `python -m PACKAGE command ...`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence

from engine.core.errors import RouteCalError

REFUSED, INTERRUPTED = 2, 130
"""Exit codes: bad input, and Ctrl-C (128 + SIGINT)."""


def run_command(package: str, about: str, commands: Mapping[str, tuple[str, str]], arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name and return its exit code.

    commands : name to module and summary. A module has `add_arguments(parser)` and `run(parsed)`; only that of the
    chosen command is imported, since most need neither torch nor a cache.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=about)
    choices = parser.add_subparsers(dest="command", required=True, metavar="command")
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    run: Callable[[argparse.Namespace], int] | None = None
    for name, (module_name, summary) in commands.items():
        command = choices.add_parser(name, help=summary, description=summary)
        if name == chosen:
            module = importlib.import_module(module_name)
            module.add_arguments(command)
            run = module.run
    parsed = parser.parse_args(arguments)
    assert run is not None, "a command is required, and the parser knows no others"
    try:
        return run(parsed)
    except RouteCalError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
