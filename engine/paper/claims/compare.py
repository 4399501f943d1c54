"""Comparisons that many claims share."""

from collections.abc import Collection, Sequence

from engine.paper.claims.registry import Finding, Paper, decide
from engine.paper.claims.rounding import Rounded, decimals, exactly, farthest, mean, std


def show(number: Rounded, digits: int) -> str:
    """A number with so many decimals."""
    return f"{number.value:.{digits}f}"


def mean_and_std(paper: Paper, table: str, row: str, column: str, values: Sequence[Rounded]) -> Finding:
    """An aggregate cell `mean ± std` against the values it aggregates; either convention of the std may fit."""
    spreads = [std(values, ddof) for ddof in (0, 1)]
    centre, digits = mean(values), decimals(paper.cell(table, row, column).printed) + 1
    said, said_std = paper.band(table, row, column)
    return decide(
        said.may_equal(centre) and any(said_std.may_equal(spread) for spread in spreads),
        paper.shown(table, row, column),
        f"{show(centre, digits)} ± {show(spreads[0], digits)} (or {show(spreads[1], digits)})",
    )


def reachable(value: Rounded, centre: Rounded, spread: Rounded, n: int) -> bool:
    """Whether one of n numbers with this mean and standard deviation can have this value."""
    return abs(value - centre).fits_within(farthest(spread, n))


def within_band(value: Rounded, centre: Rounded, spread: Rounded) -> bool:
    """Whether a value may lie within one standard deviation of a mean."""
    return abs(value - centre).fits_within(spread)


def bands_overlap(first: tuple[Rounded, Rounded], second: tuple[Rounded, Rounded]) -> bool:
    """Whether two bands mean ± std may have a point in common."""
    return abs(first[0] - second[0]).fits_within(first[1] + second[1])


def decision_fits(rejects: bool, p: Rounded, level: float) -> bool:
    """Whether a decision may follow from a printed p at this level."""
    return p.may_be_at_most(level) if rejects else exactly(level).may_be_at_most(p)


def marks(paper: Paper, table: str, columns: Sequence[str] = (), skip: Collection[str] = ()) -> Finding:
    """Bold stands on the best (lowest) and underline on the second best number of each column, by default of every one.

    A bold number contradicts the column when another is surely better; an underlined one when two or more others are.
    Numbers that are equal as printed never contradict a mark.
    """
    rows = [row for row in paper.rows(table) if row not in skip]
    wrong, checked = [], 0
    for column in columns or paper.columns(table):
        numbers = {row: paper.value(table, row, column) for row in rows if paper.has(table, row, column)}
        for row, number in numbers.items():
            mark = paper.cell(table, row, column).note
            allowed = 0 if "bold" in mark else 1 if "underlined" in mark else None
            if allowed is None:
                continue
            checked += 1
            better = [other for other, rival in numbers.items() if rival.surely_below(number)]
            if len(better) > allowed:
                wrong.append(f"{column}: {row} is marked, {' and '.join(better)} better")
    return decide(
        checked > 0 and not wrong, f"{checked} marked numbers", "every mark fits" if not wrong else "; ".join(wrong)
    )
