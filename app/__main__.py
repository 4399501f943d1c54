"""`python -m app report`. The dashboard itself is served with `streamlit run app/main.py`."""

import sys

from engine.commands.command_line import run_command

COMMANDS: dict[str, tuple[str, str]] = {
    "report": ("app.report.command", "what the protocol says about a cache, in one file to send"),
}


def main(arguments: list[str] | None = None) -> int:
    return run_command("app", "RouteCal without a browser.", COMMANDS, sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
