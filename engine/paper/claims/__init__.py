"""Does the paper add up? Each checkable statement recomputed from the paper's own tables.

`audit()` gives one `ClaimResult` per statement: what is stated, what the tables give, and whether the two agree.
Printed numbers are intervals (`engine.paper.claims.rounding`), so that rounding alone never makes a difference.
What is claimed, where, and how it is checked stands in `data/paper/words/claims.toml`.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial

import pandas as pd

from engine.paper import published
from engine.paper.claims import checks
from engine.paper.claims.formulas import examine
from engine.paper.claims.registry import CHECKS, OUTCOMES, Finding, MissingCell, Outcome, Paper

__all__ = ["CLAIMS", "OUTCOMES", "Claim", "ClaimResult", "Outcome", "as_frame", "audit", "summarise"]


@dataclass(frozen=True)
class Claim:
    """A checkable statement of the paper in our words, where it is made (the paper's label), and what recomputes it."""

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


with (published.DIRECTORY / "words" / "claims.toml").open("rb") as _file:
    _TOPICS = tomllib.load(_file)["topic"]
CLAIMS = tuple(
    Claim(key, topic["name"], given["claim"], given["where"], partial(examine, key=key, claim=given))
    for topic in _TOPICS
    for key, given in topic["claims"].items()
)
"""Every claim, topic by topic in the order in which a reader of the paper meets them."""


def audit(tables: Mapping[str, pd.DataFrame] | None = None) -> list[ClaimResult]:
    """Recompute every claim.

    Parameters
    ----------
    tables : published tables, each as `engine.paper.published.load` returns it; by default the paper's own. A claim
        that needs a table or a cell that is not there, or whose arithmetic the numbers given do not allow (a division
        by zero), is "not checkable". Without a table "statements" the numbers of
        the text are the paper's own.
    """
    given = published.load_all() if tables is None else dict(tables)
    given.setdefault(published.STATEMENTS, published.load(published.STATEMENTS))
    paper = Paper(given)
    return [_result(claim, paper, own=tables is None) for claim in CLAIMS]


def _result(claim: Claim, paper: Paper, own: bool) -> ClaimResult:
    try:
        found = claim.check(paper)
    except MissingCell as missing:
        found = Finding("", "", "not checkable", str(missing))
    except (LookupError, ValueError, ArithmeticError) as error:
        if own:  # the paper's own tables are complete, so this is a fault of the claim
            raise
        found = Finding("", "", "not checkable", f"the tables given do not allow it ({error})")
    what = (found.stated, found.recomputed, found.outcome, found.how)
    return ClaimResult(claim.key, claim.topic, claim.claim, claim.where, *what)


def as_frame(results: list[ClaimResult]) -> pd.DataFrame:
    """One row per claim."""
    return pd.DataFrame([asdict(result) for result in results])


def summarise(results: list[ClaimResult]) -> str:
    """`126 of 180 statements agree with the paper's own tables, 51 differ and 3 cannot be checked from them.`"""
    counts = {name: sum(result.outcome == name for result in results) for name in OUTCOMES}
    return (
        f"{counts['agrees']} of {len(results)} statements agree with the paper's own tables, {counts['differs']} "
        f"differ and {counts['not checkable']} cannot be checked from them."
    )
