"""What a cache can say about a conclusion, and the one test that decides it over runs.

A conclusion that something is absent is "supported" when nothing here speaks against it, which is no proof of absence.
Over runs, "reliably better" is an exact one-sided sign test at 5 %: the number of runs that are better is
Binomial(n, 1/2) where nothing is there, ties left out. Where there are too few runs for the test to reach 5 % at all,
the conclusion is "not answerable" rather than supported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.core.labels import counted

Outcome = Literal["supported", "not supported", "not answerable"]
OUTCOMES: tuple[Outcome, ...] = ("supported", "not supported", "not answerable")
ALPHA = 0.05


@dataclass(frozen=True)
class Finding:
    """What the cache says: in words, as numbers, and what that means for the conclusion."""

    outcome: Outcome
    found: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def fewest_runs(n_comparisons: int = 1) -> int:
    """Runs from which a sign test can reject at all: 2^-n <= alpha / m for the smallest of m p-values under Holm.

    5 for one comparison, 6 for two (or two sides), 7 for four or five.
    """
    return math.ceil(math.log2(n_comparisons / ALPHA))


def too_few(n: int, noun: str, what: str, n_comparisons: int = 1) -> Finding:
    """Fewer runs than a verdict over them needs: `1 run with logits; a verdict over runs needs 5`."""
    needed = fewest_runs(n_comparisons)
    return Finding("not answerable", f"{counted(n, noun)} {what}; a verdict over runs needs {needed}", {"n": n})


def decide(contradicted: bool, found: str, numbers: Mapping[str, float]) -> Finding:
    """Supported unless contradicted."""
    return Finding("not supported" if contradicted else "supported", found, numbers)
