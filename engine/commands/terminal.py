"""Progress on a terminal: one line that is rewritten, and wiped at the end."""

from __future__ import annotations

import sys

from engine.core.types import Progress

_WIDTH = 60


def terminal_progress() -> Progress | None:
    """Progress on standard error, or None where nobody watches it (a file, a pipe)."""
    return _show if sys.stderr.isatty() else None


def _show(share: float, text: str) -> None:
    wiped = "\r" + " " * (_WIDTH + len("100% ")) + "\r"
    print(f"\r{share:4.0%} {text:<{_WIDTH}.{_WIDTH}}", end="" if share < 1 else wiped, file=sys.stderr, flush=True)
