"""Progress on a terminal as one line that changes, in a log as one line per report."""

import sys
import time
from typing import TextIO

from engine.core.types import Progress

UNDER_WAY = " ..."
"""What the text of a report ends with that comes in the middle of something, and often."""


def quiet(_fraction: float, _text: str) -> None:
    """Says nothing."""


def console(stream: TextIO | None = None, *, every_seconds: float = 20.0) -> Progress:
    """A progress callback; in a log, reports from the middle of something come no closer than `every_seconds`."""
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
        if not text.endswith(UNDER_WAY) or now - last >= every_seconds:
            print(line, file=target, flush=True)
            last = now

    return show
