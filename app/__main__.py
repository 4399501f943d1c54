"""`python -m app report`. The dashboard itself is served with `streamlit run app/main.py`."""

from __future__ import annotations

import argparse
import sys

from app.commands import report
from engine.errors import RouteCalError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m app", description="RouteCal without a browser.")
    commands = parser.add_subparsers(dest="command", required=True)
    summary = "what the protocol says about a cache, in one file to send"
    report.add_arguments(commands.add_parser("report", help=summary, description=summary))
    parsed = parser.parse_args(arguments)
    try:
        return report.run(parsed)
    except RouteCalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
