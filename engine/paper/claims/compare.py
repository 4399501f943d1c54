"""Comparisons that many claims share."""

from collections.abc import Callable, Collection, Mapping, Sequence

from engine.paper.claims.registry import Address, Finding, Paper, all_of, decide
from engine.paper.claims.rounding import Rounded, decimals, exactly, farthest, mean, std
from engine.paper.published import STATEMENTS


def show(number: Rounded, digits: int) -> str:
    """A number with so many decimals."""
    return f"{number.value:.{digits}f}"


def same(paper: Paper, row: str, column: str, found: Callable[[Paper], Rounded], how: str = "") -> Finding:
    """A stated number agrees with a recomputed one up to rounding."""
    said, text = paper.said(row, column), paper.said_text(row, column)
    sign = "+" if text.startswith("+") else ""
    number = found(paper)
    stated = f"{said.value:{sign}.{decimals(text)}f}"
    return decide(said.may_equal(number), stated, show(number, decimals(text) + 1), how)


def equal(paper: Paper, stated: Callable[[Paper], object], found: Callable[[Paper], object]) -> Finding:
    """A word or a whole number is the same in two places."""
    said, there = str(stated(paper)), str(found(paper))
    return decide(said == there, said, there)


def same_count(paper: Paper, row: str, column: str, found: Callable[[Paper], int]) -> Finding:
    """A stated whole number agrees with a count."""
    return equal(paper, lambda paper: paper.said_count(row, column), found)


def column_follows(
    paper: Paper, table: str, column: str, found: Callable[[Paper, str], Rounded], stated: str = "", how: str = ""
) -> Finding:
    """Every number of a column follows from the other columns of its row; stated are the numbers printed."""
    parts = [(row, number.may_equal(found(paper, row))) for row, number in paper.numbers(table, column).items()]
    return all_of(parts, stated or ", ".join(paper.cell(table, row, column).printed for row, _ in parts), how)


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


def beside(paper: Paper, name: str, value: Rounded, table: str, row: str, column: str) -> tuple[str, bool]:
    """A part of a claim: one of the three seeds behind a cell `mean ± std` can have this value."""
    text = f"{name} {show(value, 4)} beside {paper.shown(table, row, column)}"
    return text, reachable(value, *paper.band(table, row, column), 3)


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


def cells_agree(paper: Paper, cells: Mapping[str, tuple[Address, Address]]) -> Finding:
    """Cells that repeat others, by name; stated are the repeating ones."""
    parts = [(name, paper.agree(here, there)) for name, (here, there) in cells.items()]
    printed = dict.fromkeys(here for here, _ in cells.values())
    return all_of(parts, ", ".join(paper.cell(*here).printed for here in printed))


Quote = tuple[str, str, str, str, str]
"""A statement (row, column) and the cell (table, row, column) it quotes."""


def quoted(paper: Paper, *cells: tuple[str, str]) -> str:
    """Statements as printed, with their standard deviations."""
    return ", ".join(paper.shown(STATEMENTS, row, column) for row, column in cells)


def repeats(paper: Paper, quotes: Sequence[Quote], *, scale: float = 1.0) -> Finding:
    """The text quotes cells (`scale` times a cell); a standard deviation in the text is compared too."""
    wrong = []
    for said_row, said_column, table, row, column in quotes:
        fits = paper.said(said_row, said_column).may_equal(paper.value(table, row, column) * scale)
        if paper.cell(STATEMENTS, said_row, said_column).printed_std:
            fits &= paper.std(STATEMENTS, said_row, said_column).may_equal(paper.std(table, row, column) * scale)
        if not fits:
            cell = paper.cell(table, row, column)
            spread = f" ± {cell.std * scale:g}" if cell.printed_std else ""
            wrong.append(f"{row}, {column}: {cell.value * scale:g}{spread}")
    return decide(
        not wrong, quoted(paper, *((row, column) for row, column, *_ in quotes)), "; ".join(wrong) or "the same"
    )
