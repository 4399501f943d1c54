"""The shape that the commands of the three packages share: `python -m PACKAGE command ...`."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from engine.core.errors import RouteCalError
from engine.core.types import Progress

REFUSED, INTERRUPTED, CLOSED = 2, 130, 141
"""Exit codes: bad input, Ctrl-C (128 + SIGINT), and a reader such as `head` that left (128 + SIGPIPE)."""
_WIDTH = 60


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
        code = run(parsed)
        sys.stdout.flush()  # a pipe that nobody reads any more is noticed here, not by the interpreter's exit
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be written goes nowhere
        return CLOSED
    except RouteCalError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED


def terminal_progress() -> Progress | None:
    """Progress on standard error, one line rewritten and wiped at the end; None where it is no terminal."""
    return _show if sys.stderr.isatty() else None


def _show(share: float, text: str) -> None:
    wiped = "\r" + " " * (_WIDTH + len("100% ")) + "\r"
    print(f"\r{share:4.0%} {text:<{_WIDTH}.{_WIDTH}}", end="" if share < 1 else wiped, file=sys.stderr, flush=True)
