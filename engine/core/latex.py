"""Tables as LaTeX with booktabs rules. Text is escaped here; numbers come as cells that are already LaTeX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.ranking import FIRST, SECOND, places

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "−": "$-$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "²": "$^2$",
    "·": r"$\cdot$",
    "ρ": r"$\rho$",
    "Δ": r"$\Delta$",
    "●": r"$\bullet$",
    "○": r"$\circ$",
}
MISSING = "--"
ROWS_PER_PAGE = 45
"""Longer tables become `longtable`s."""


def escape(text: str) -> str:
    """Plain text as LaTeX."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def number(value: float, digits: int, *, signed: bool = False) -> str:
    """A number in math mode, a dash if it is missing; a rounded minus zero loses its sign."""
    if not math.isfinite(value):
        return MISSING
    rounded = round(value, digits) + 0.0
    return f"${rounded:{'+' if signed and rounded else ''}.{digits}f}$"


def plus_minus(mean: float, spread: float, digits: int, *, signed: bool = False) -> str:
    """mean ± spread, the spread in small type as in the paper."""
    if not math.isfinite(mean) or not math.isfinite(spread):
        return number(mean, digits, signed=signed)
    return (
        number(mean, digits, signed=signed)[:-1] + rf"\,{{\scriptstyle\pm {round(spread, digits) + 0.0:.{digits}f}}}$"
    )


def bold(cell: str) -> str:
    """A number cell in bold."""
    return rf"$\mathbf{{{cell[1:-1]}}}$"


def underline(cell: str) -> str:
    """A number cell underlined."""
    return rf"$\underline{{{cell[1:-1]}}}$"


def mark_best(cells: Sequence[str], values: Sequence[float], digits: int, *, lower_is_better: bool = True) -> list[str]:
    """The column with its best value in bold and its second-best underlined; values printed alike share their mark."""
    marks = {FIRST: bold, SECOND: underline}
    placed = places(values, digits, lower_is_better=lower_is_better)
    return [marks[place](cell) if place in marks else cell for cell, place in zip(cells, placed, strict=True)]


@dataclass(frozen=True)
class Block:
    """Rows under a common subtitle (none if empty)."""

    title: str
    rows: tuple[tuple[str, ...], ...]


def render(header: Sequence[str], blocks: Sequence[Block], *, caption: str, label: str) -> str:
    """A floating table, or a longtable beyond a page; header and cells are LaTeX, titles and caption plain text."""
    columns = "l" + "r" * (len(header) - 1)
    head = [" & ".join(header) + r" \\", r"\midrule"]
    body: list[str] = []
    for position, block in enumerate(blocks):
        if position:
            body.append(r"\midrule")
        if block.title:
            body += [rf"\multicolumn{{{len(header)}}}{{l}}{{\textbf{{{escape(block.title)}}}}} \\", r"\midrule"]
        body += [" & ".join(row) + r" \\" for row in block.rows]
    title = rf"\caption{{{escape(caption)}}}"
    if sum(len(block.rows) for block in blocks) > ROWS_PER_PAGE:
        lines = [
            rf"\begin{{longtable}}{{{columns}}}",
            title,
            rf"\label{{{label}}} \\",
            r"\toprule",
            *head,
            r"\endfirsthead",
            r"\toprule",
            *head,
            r"\endhead",
            r"\bottomrule",
            r"\endlastfoot",
            *body,
            r"\end{longtable}",
        ]
    else:
        lines = [
            r"\begin{table}[t]",
            r"\centering\small",
            title,
            rf"\label{{{label}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            *head,
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"
