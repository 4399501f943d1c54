"""`python -m engine audit | tables`."""

import sys

from engine.commands.command_line import run_command

COMMANDS: dict[str, tuple[str, str]] = {
    "audit": ("engine.commands.audit", "what the protocol says about every run of a cache"),
    "tables": ("engine.commands.tables", "the paper's tables for the runs of a cache, as CSV and LaTeX"),
}


def main(arguments: list[str] | None = None) -> int:
    return run_command("engine", "RouteCal's statistics.", COMMANDS, sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
