"""Words on pages and in reports: numbers with their noun, and text that Markdown leaves alone."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """`1 run`, `1,024 runs`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def plain(text: str) -> str:
    """Text that Markdown leaves alone: names of runs and columns come from files."""
    for symbol in ("\\", "*", "_", "`", "[", "]", "<", ">", "$", "#", "|", "~"):
        text = text.replace(symbol, f"\\{symbol}")
    return text
