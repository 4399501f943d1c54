"""What a claim is: a small function over the published tables, with what it reads and what it returns."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from engine.core.errors import InvalidInput, RouteCalError
from engine.paper.claims.rounding import Rounded, decimals, rounded
from engine.paper.published import COLUMNS, STATEMENTS


class MissingCell(RouteCalError):
    """A cell that a claim needs is not in the tables; `audit` reports the claim as not checkable."""


@dataclass(frozen=True)
class Cell:
    """One published cell; numbers are missing (NaN) where the paper prints a word or nothing."""

    value: float
    printed: str
    std: float
    printed_std: str
    note: str


_READ = ("row", "column", "value", "printed", "std", "printed_std", "note")
Address = tuple[str, str, str]
"""Table, row and column of a cell."""


class Paper:
    """Published tables by name, as `engine.paper.published.load` gives them.

    A number is taken from `value`, its decimals from `printed`, so that an edited `value` is audited as if printed.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame]) -> None:
        self._cells: dict[str, dict[tuple[str, str], Cell]] = {}
        for name, frame in tables.items():
            absent = {*COLUMNS, *_READ} - set(frame.columns)
            if absent:
                raise InvalidInput(
                    f"tables[{name!r}]", "the columns of engine.paper.published.load", f"no {', '.join(sorted(absent))}"
                )
            self._cells[name] = {
                (str(row), str(column)): Cell(float(value), str(printed), float(std), str(printed_std), str(note))
                for row, column, value, printed, std, printed_std, note in frame[list(_READ)].itertuples(index=False)
            }

    def _table(self, table: str) -> dict[tuple[str, str], Cell]:
        if table not in self._cells:
            raise MissingCell(f"the table {table} was not given")
        return self._cells[table]

    def cell(self, table: str, row: str, column: str) -> Cell:
        cells = self._table(table)
        if (row, column) not in cells:
            raise MissingCell(f"{table} has no cell {row!r}, {column!r}")
        return cells[row, column]

    def has(self, table: str, row: str, column: str) -> bool:
        """Whether the cell is there and holds a number."""
        return (row, column) in self._table(table) and math.isfinite(self.cell(table, row, column).value)

    def value(self, table: str, row: str, column: str) -> Rounded:
        """The number in a cell, up to rounding."""
        cell = self.cell(table, row, column)
        if not math.isfinite(cell.value):
            raise MissingCell(f"{table}, {row!r}, {column!r} holds no number")
        return rounded(cell.value, cell.printed)

    def std(self, table: str, row: str, column: str) -> Rounded:
        """The standard deviation printed beside a number, up to rounding."""
        cell = self.cell(table, row, column)
        if not math.isfinite(cell.std):
            raise MissingCell(f"{table}, {row!r}, {column!r} has no standard deviation")
        return rounded(cell.std, cell.printed_std)

    def agree(self, here: Address, there: Address) -> bool:
        """Whether two cells may hold the same number, and the same standard deviation where the first prints one."""
        fits = self.value(*here).may_equal(self.value(*there))
        return fits and (not self.cell(*here).printed_std or self.std(*here).may_equal(self.std(*there)))

    def band(self, table: str, row: str, column: str) -> tuple[Rounded, Rounded]:
        """A mean and the standard deviation beside it."""
        return self.value(table, row, column), self.std(table, row, column)

    def printed(self, table: str, row: str, column: str) -> str:
        """A number with its printed decimals and sign, or a word."""
        cell = self.cell(table, row, column)
        sign = "+" if cell.printed.startswith("+") else ""
        return f"{cell.value:{sign}.{decimals(cell.printed)}f}" if math.isfinite(cell.value) else cell.printed

    def shown(self, table: str, row: str, column: str) -> str:
        """A cell as printed, `mean ± std` where it has both."""
        std = self.cell(table, row, column).printed_std
        return self.printed(table, row, column) + (f" ± {std}" if std else "")

    def numbers(self, table: str, column: str, rows: Iterable[str] | None = None) -> dict[str, Rounded]:
        """A column of a table, or some rows of it."""
        return {row: self.value(table, row, column) for row in (self.rows(table) if rows is None else rows)}

    def count(self, table: str, row: str, column: str) -> int:
        """A whole number."""
        return round(self.value(table, row, column).value)

    def said(self, row: str, column: str = "value") -> Rounded:
        """A number that the text states."""
        return self.value(STATEMENTS, row, column)

    def said_count(self, row: str, column: str = "value") -> int:
        """A whole number that the text states."""
        return self.count(STATEMENTS, row, column)

    def said_text(self, row: str, column: str = "value") -> str:
        """A word that the text states."""
        return self.cell(STATEMENTS, row, column).printed

    def rows(self, table: str) -> list[str]:
        """Row names in printed order."""
        return list(dict.fromkeys(row for row, _ in self._table(table)))

    def columns(self, table: str, row: str | None = None) -> list[str]:
        """Column names in printed order, of the table or of one row."""
        return list(dict.fromkeys(column for name, column in self._table(table) if row in (None, name)))


Outcome = Literal["agrees", "differs", "not checkable"]
_SHOWN = 4  # parts that are named when a claim made of parts does not hold
OUTCOMES: tuple[Outcome, ...] = ("agrees", "differs", "not checkable")


@dataclass(frozen=True)
class Finding:
    """What a check found: the number stated, the number the tables give, and how the two were compared, where that
    depends on the tables (otherwise the claim says it)."""

    stated: str
    recomputed: str
    outcome: Outcome
    how: str = ""


Check = Callable[..., Finding]
CHECKS: dict[str, Check] = {}
"""The functions that `data/paper/words/claims.toml` asks for, by name; each gets the paper and what stands there."""


def claim(check: Check) -> Check:
    """Register a function by its name."""
    CHECKS[check.__name__] = check
    return check


def decide(holds: bool, stated: str, recomputed: str, how: str = "") -> Finding:
    """Agreement or not, from a condition."""
    return Finding(stated, recomputed, "agrees" if holds else "differs", how)


def all_of(parts: Iterable[tuple[str, bool]], stated: str, how: str = "") -> Finding:
    """A claim made of parts: agrees when every part holds; the parts that do not are listed."""
    listed = list(parts)
    failing = [text for text, holds in listed if not holds]
    recomputed = f"{len(listed) - len(failing)} of {len(listed)} hold"
    if failing:
        shown = "; ".join(failing[:_SHOWN])
        recomputed += f": not {shown}" + (f" and {len(failing) - _SHOWN} more" if len(failing) > _SHOWN else "")
    return decide(not failing, stated, recomputed, how)
