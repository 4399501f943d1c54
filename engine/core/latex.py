"""Tables as LaTeX with booktabs rules: pandas Styler lays them out, the cells are made LaTeX here."""

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from engine.core.labels import FIRST, MISSING, SECOND, is_number, print_value

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "×": r"$\times$", "–": "--", "−": "$-$",
    "<": "$<$", ">": "$>$", "≤": r"$\leq$", "≥": r"$\geq$", "²": "$^2$", "·": r"$\cdot$", "ρ": r"$\rho$",
    "Δ": r"$\Delta$", "●": r"$\bullet$", "○": r"$\circ$",
}  # fmt: skip
"""Styler's own escaping leaves out what is not ASCII."""
_NUMBER = re.compile(r"([+-]?[\d.,]*\d)(?: ± ([\d.,]+))?")
_MARKS = {FIRST: r"\mathbf", SECOND: r"\underline"}
ROWS_PER_PAGE = 45
"""Longer tables become `longtable`s."""


def escape(text: str) -> str:
    """Plain text as LaTeX."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def _cell(value: object, pattern: str, place: int) -> str:
    """Numbers in math mode, where a minus is a minus and no space follows the comma of thousands; first and second
    places in bold and underlined. `0.0111 ± 0.0008` is a number too, its spread in small type as in the paper.
    """
    text = print_value(value, pattern)
    found = _NUMBER.fullmatch(text)
    if text == MISSING or (found is None and not is_number(value)):
        return escape(text)
    number = escape(found[1] if found else text).replace(",", "{,}").replace("$", "")
    if found and found[2]:
        number += rf"\,{{\scriptstyle\pm {found[2]}}}"
    return f"${_MARKS[place]}{{{number}}}$" if place in _MARKS else f"${number}$"


def to_latex(
    frame: pd.DataFrame,
    *,
    caption: str,
    label: str,
    formats: Mapping[str, str] | None = None,
    places: Mapping[str, Sequence[int]] | None = None,
) -> str:
    """A floating table, or a longtable beyond a page, of the columns of a frame as they are printed.

    formats : how the numbers of a column are printed, as `print_value` takes it. places : by column, each row's place
    (`engine.core.labels.places`): bold is the best, underlined the second.
    """
    columns = []
    for name in frame:
        pattern, placed = (formats or {}).get(str(name), ""), (places or {}).get(str(name)) or [0] * len(frame)
        columns.append([_cell(*cell) for cell in zip(frame[name], [pattern] * len(frame), placed, strict=True)])
    shown = pd.DataFrame(dict(enumerate(columns))).set_axis([escape(str(name)) for name in frame], axis=1)
    text: str = shown.style.hide(axis="index").to_latex(
        column_format="l" + "r" * (len(shown.columns) - 1),
        caption=escape(caption),
        label=label,
        hrules=True,
        environment="longtable" if len(shown) > ROWS_PER_PAGE else "table",
        position=None if len(shown) > ROWS_PER_PAGE else "t",
        position_float=None if len(shown) > ROWS_PER_PAGE else "centering",
    )
    return text
