"""`python -m app serve | report`."""

import sys

from engine.commands.command_line import run_command

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("app.serving.serve", "the dashboard over a cache"),
    "report": ("app.report.command", "what the protocol says about a cache, in one file to send"),
}


def main(arguments: list[str] | None = None) -> int:
    return run_command("app", "RouteCal without a browser.", COMMANDS, sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
