"""Text on pages that Markdown leaves alone."""

from __future__ import annotations


def plain(text: str) -> str:
    """Text that Markdown leaves alone: names of runs and columns come from files."""
    for symbol in ("\\", "*", "_", "`", "[", "]", "<", ">", "$", "#", "|", "~"):
        text = text.replace(symbol, f"\\{symbol}")
    return text
