"""The claims and their outcomes: a claim is a small function over the published tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from engine.paper.claims.paper import Paper

Outcome = Literal["agrees", "differs", "not checkable"]
_SHOWN = 4  # parts that are named when a claim made of parts does not hold
OUTCOMES: tuple[Outcome, ...] = ("agrees", "differs", "not checkable")


@dataclass(frozen=True)
class Finding:
    """What a claim function found: the number stated, the number the tables give, and how the two were compared."""

    stated: str
    recomputed: str
    outcome: Outcome
    how: str


@dataclass(frozen=True)
class Claim:
    """A checkable statement of the paper, in our words, and where it is made (the paper's label)."""

    key: str
    topic: str
    claim: str
    where: str
    check: Callable[[Paper], Finding]


@dataclass(frozen=True)
class ClaimResult:
    """One audited claim."""

    key: str
    topic: str
    claim: str
    where: str
    stated: str
    recomputed: str
    outcome: Outcome
    how: str


class Topic:
    """A group of claims that belong together; each module of this package defines one."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.claims: list[Claim] = []

    def register(self, key: str, says: str, where: str, check: Callable[[Paper], Finding]) -> None:
        """Add a claim."""
        self.claims.append(Claim(key, self.title, says, where, check))

    def claim(self, says: str, where: str) -> Callable[[Callable[[Paper], Finding]], Callable[[Paper], Finding]]:
        """Register a function as a claim; its name is the key."""

        def add(check: Callable[[Paper], Finding]) -> Callable[[Paper], Finding]:
            self.register(check.__name__, says, where, check)
            return check

        return add


def decide(holds: bool, stated: str, recomputed: str, how: str) -> Finding:
    """Agreement or not, from a condition."""
    return Finding(stated, recomputed, "agrees" if holds else "differs", how)


def all_of(parts: Iterable[tuple[str, bool]], stated: str, how: str) -> Finding:
    """A claim made of parts: agrees when every part holds; the parts that do not are listed."""
    listed = list(parts)
    failing = [text for text, holds in listed if not holds]
    recomputed = f"{len(listed) - len(failing)} of {len(listed)} hold"
    if failing:
        shown = "; ".join(failing[:_SHOWN])
        recomputed += f": not {shown}" + (f" and {len(failing) - _SHOWN} more" if len(failing) > _SHOWN else "")
    return decide(not failing, stated, recomputed, how)
