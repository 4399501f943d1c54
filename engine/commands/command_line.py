"""The shape that all commands share: `routecal command ...`, `python -m PACKAGE command ...`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

from engine.commands.completion import SHELLS, completion
from engine.core.errors import RouteCalError
from engine.core.release import __version__

if TYPE_CHECKING:  # which brings numpy
    from engine.core.types import Progress

REFUSED, INTERRUPTED, CLOSED = 2, 130, 141
"""Exit codes: bad input, Ctrl-C (128 + SIGINT), and a reader such as `head` that left (128 + SIGPIPE)."""
_CODES = """\
exit codes:
  0    done
  1    done, but a run failed or a shard has a problem; what it is was printed
  2    wrong input, with the reason and what to do
  130  stopped by Ctrl-C; what was finished stays
  141  whoever read the output went away"""
COMPLETION = "completion"
_COLOURS = {"red": 31, "yellow": 33, "bold": 1}
_WIDTH = 60


def run_command(program: str, about: str, commands: Mapping[str, tuple[str, str]], arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name and return its exit code.

    commands : name to module and summary. A module has `add_arguments(parser)` and `run(parsed)`; only that of the
    chosen command is imported, since most need neither torch nor a cache.
    """
    parser = argparse.ArgumentParser(
        prog=program, description=about, epilog=_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"RouteCal {__version__}")
    choices = parser.add_subparsers(dest="command", required=True, metavar="command")
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    run: Callable[[argparse.Namespace], int] | None = None
    parsers: dict[str, argparse.ArgumentParser] = {}
    for name, (module_name, summary) in commands.items():
        parsers[name] = choices.add_parser(name, help=summary, description=summary)
        if chosen in (name, COMPLETION):
            module = importlib.import_module(module_name)
            module.add_arguments(parsers[name])
            run = module.run
    if " " not in program:  # a shell completes programs, not modules of Python
        summary = "print a script by which a shell completes these commands"
        choices.add_parser(COMPLETION, help=summary, description=summary).add_argument(
            "shell", choices=SHELLS, help="put what is printed where your shell looks for completions, or source it"
        )
    parsed = parser.parse_args(arguments)
    if parsed.command == COMPLETION:
        print(completion(program, parsed.shell, parsers), end="")
        return 0
    assert run is not None, "a command is required, and the parser knows no others"
    try:
        code = run(parsed)
        sys.stdout.flush()  # a pipe that nobody reads any more is noticed here, not by the interpreter's exit
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be written goes nowhere
        return CLOSED
    except RouteCalError as error:
        print(f"{coloured('error:', 'red', sys.stderr)} {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED


def coloured(text: str, colour: Literal["red", "yellow", "bold"], stream: TextIO) -> str:
    """The text in a colour where it goes to a terminal, and NO_COLOR is not set; plain anywhere else."""
    wanted = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if wanted else text


def terminal_progress() -> Progress | None:
    """Progress on standard error, one line rewritten and wiped at the end; None where it is no terminal."""
    return _show if sys.stderr.isatty() else None


def _show(share: float, text: str) -> None:
    wiped = "\r" + " " * (_WIDTH + len("100% ")) + "\r"
    print(f"\r{share:4.0%} {text:<{_WIDTH}.{_WIDTH}}", end="" if share < 1 else wiped, file=sys.stderr, flush=True)
