"""How sentences put numbers, names and lists into words."""

from __future__ import annotations

from collections.abc import Sequence

LOW_TO_HIGH = "from the low to the high third of samples of like confidence"
"""What an audited effect is a change of accuracy over."""
OTHER_SEEDS = "whether it is stable is a question for other seeds"
"""What one run, or one look at many, leaves open."""


def counted(n: int, noun: str) -> str:
    """`1 run`, `1,024 runs`, `10 classes`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else plural}"


def listed(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def capital(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def in_sentence(label: str) -> str:
    """A label inside a sentence: `kernel on confidence`, but `AR-CondCal` and `ECE`."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def format_p(p: float) -> str:
    """`p = 0.48`, `p = 0.042`, `p < 0.001`."""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.3f}"
