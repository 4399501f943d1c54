"""The paper's conclusions, asked of a cache.

A conclusion that something is absent is "supported" when nothing here speaks against it, which is no proof of absence.
Over runs, "reliably better" is an exact one-sided sign test at 5 %: the number of runs that are better is
Binomial(n, 1/2) where nothing is there, ties left out. Where there are too few runs for the test to reach 5 % at all,
the conclusion is "not answerable" rather than supported.
The words of each stand in `data/paper/words/conclusions.csv`, what decides it in `engine.paper.rules`.
"""

import string
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import pandas as pd

from engine.core.labels import counted, format_p, listed
from engine.paper import published
from engine.paper.rules import RULES, TooFew
from engine.paper.sources import SOURCES, Evidence

Outcome = Literal["supported", "not supported", "not answerable", "not computed"]


@dataclass(frozen=True)
class Conclusion:
    """A conclusion of the paper in our words, where it is drawn, and what decides it (`engine.paper.rules`).

    added : the paper does not draw it; it is checked besides, and counted apart. sources : what it needs.
    found, lacking : how its numbers are told, and that there are too few runs.
    """

    key: str
    claim: str
    where: str
    rule: str
    added: bool
    sources: tuple[str, ...]
    found: str
    lacking: str


@dataclass(frozen=True)
class Reading:
    """A conclusion beside the cache."""

    key: str
    claim: str
    where: str
    outcome: Outcome
    found: str
    rule: str
    numbers: Mapping[str, float]
    added: bool


class _Words(string.Formatter):
    """`{n:run}` is `1,024 runs`, `{p:p}` is `p = 0.032`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "p":
            return format_p(value)
        return counted(value, format_spec) if format_spec in ("run", "cell", "pair") else format(value, format_spec)


def conclude(evidence: Evidence) -> list[Reading]:
    """Every conclusion in the paper's order, then those added; "not computed" where a source is missing."""
    return [Reading(item.key, item.claim, item.where, *_read(item, evidence), item.added) for item in CONCLUSIONS]


def _read(item: Conclusion, evidence: Evidence) -> tuple[Outcome, str, str, Mapping[str, float]]:
    """Outcome, what was found, the rule, and the numbers."""
    say = _Words().vformat
    if not evidence.has(item.sources):
        return "not computed", f"needs {listed([SOURCES[name].label for name in item.sources])}", item.rule, {}
    try:
        found = RULES[item.key](evidence)
    except TooFew as few:
        return "not answerable", say(item.lacking, (), vars(few)), item.rule, {few.name: few.n}
    outcome: Outcome = "not supported" if found.contradicted else "supported"
    return outcome, say(item.found, (), {**found.said, **found.numbers}), item.rule, found.numbers


def as_frame(readings: Iterable[Reading]) -> pd.DataFrame:
    """One row per conclusion; `numbers` as text."""
    frame = pd.DataFrame([asdict(reading) for reading in readings], columns=[item.name for item in fields(Reading)])
    texts = ["; ".join(f"{name} = {value:.6g}" for name, value in numbers.items()) for numbers in frame["numbers"]]
    return frame.assign(numbers=texts)


def summarise(readings: Iterable[Reading]) -> str:
    """`Of the paper's 18 conclusions this cache supports 6 and does not support 3; 2 cannot be answered from it.`"""
    counts = Counter(reading.outcome for reading in readings if not reading.added)
    against = counts["not supported"]
    sentence = f"Of the paper's {counts.total()} conclusions, this cache supports {counts['supported']} and "
    sentence += f"does not support {against}" if against else "speaks against none"
    rest = [f"{counts['not answerable']} cannot be answered from it"] if counts["not answerable"] else []
    rest += [f"{counts['not computed']} yet to be computed"] if counts["not computed"] else []
    return "; ".join([sentence, *rest]) + "."


CONCLUSIONS = tuple(
    Conclusion(**{**row, "added": row["added"] == "yes", "sources": tuple(row["sources"].split())})
    for row in published.words("conclusions")
)
"""In the order of the paper, then what it does not conclude."""
CONCLUSION_SOURCES = tuple(name for name in SOURCES if any(name in item.sources for item in CONCLUSIONS))
"""What must be computed to answer all of them, quickest first."""
