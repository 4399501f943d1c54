"""Text as pages print it."""

import re

_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
_P_VALUE = re.compile(r"\bp ([=<]) (?=\d)")


def typeset(text: str) -> str:
    """With a true minus sign in negative numbers, and no line break inside `p = 0.15`."""
    return _P_VALUE.sub("p\u00a0\\1\u00a0", _MINUS.sub("−", text))


def plain(text: str) -> str:
    """The same for Markdown, which leaves it alone: names of runs and columns come from files."""
    text = typeset(text)
    for symbol in ("\\", "*", "_", "`", "[", "]", "<", ">", "$", "#", "|", "~"):
        text = text.replace(symbol, f"\\{symbol}")
    return text
