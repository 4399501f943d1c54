"""Progress on a terminal as one line that changes, in a log as one line per report."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from engine.types import Progress


def quiet(_fraction: float, _text: str) -> None:
    """Says nothing."""


def console(stream: TextIO | None = None, *, every_seconds: float = 20.0) -> Progress:
    """A progress callback; in a log, reports closer together than `every_seconds` are left out unless they say more."""
    target = stream or sys.stderr
    live = target.isatty()
    last = -every_seconds

    def show(fraction: float, text: str) -> None:
        nonlocal last
        line = f"{100 * fraction:5.1f} %  {text}"
        if live:
            end = "\n" if fraction >= 1 else ""
            print(f"\r\x1b[K{line}", end=end, file=target, flush=True)
            return
        now = time.monotonic()
        if "loss" in text or fraction >= 1 or now - last >= every_seconds:
            print(line, file=target, flush=True)
            last = now

    return show
