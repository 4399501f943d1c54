"""Results as HTML for notebooks: a chip, a table, a small figure, in the notebook's own colours."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Literal, NamedTuple

import numpy as np

from engine.core.labels import MISSING, signed

State = Literal["evidence", "no_evidence", "cannot_tell", "measured"]
STATES: dict[State, tuple[str, str]] = {
    "evidence": ("● evidence", "background:#0072B2;color:#FFFFFF;border-color:#0072B2"),
    "no_evidence": ("○ no evidence", ""),
    "cannot_tell": ("? cannot tell", "border-style:dashed"),
    "measured": ("▪ measured", "border-color:transparent;background:rgba(128,128,128,0.18)"),
}
"""How each state is marked; a mark and a border of its own, so that grey print tells them apart."""
_CHIP = (
    "display:inline-block;border:1.5px solid currentColor;border-radius:1em;padding:0 0.6em;margin-right:0.5em;"
    "font-size:0.9rem;font-weight:600;line-height:1.6;vertical-align:0.12em;white-space:nowrap"
)
_LEFT, _WIDTH, _LINE = 250, 560, 26


def chip(state: State) -> str:
    """The mark of a state."""
    words, style = STATES[state]
    return f'<span style="{_CHIP};{style}">{words}</span>'


def answered(state: State, answer: str, detail: str) -> str:
    """The answer behind its mark, and under it the sentence with the numbers."""
    return f"{chip(state)}<strong>{html.escape(answer)}.</strong><p>{html.escape(detail)}</p>"


def table(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values, side by side."""
    cells = "".join(
        f'<tr><td style="text-align:left">{html.escape(name)}</td>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table>{cells}</table>"


class Interval(NamedTuple):
    """A line of a figure: an estimate between its ends."""

    label: str
    low: float
    value: float
    high: float


def intervals(lines: Sequence[Interval], caption: str) -> str:
    """Estimates with their intervals, one below the other, on one scale that holds zero."""
    low = min(0.0, *(line.low for line in lines))
    high = max(0.0, *(line.high for line in lines))
    scale = (_WIDTH - _LEFT - 40) / ((high - low) or 1.0)

    def x(value: float) -> float:
        return round(_LEFT + 20 + (value - low) * scale, 1)

    bottom = _LINE * len(lines) + 6
    drawn = [f'<path d="M{x(0)} 4V{bottom}" stroke="currentColor" stroke-dasharray="4 3" opacity="0.5"/>']
    for number, line in enumerate(lines):
        y = _LINE * number + 18
        drawn.append(
            f'<text x="{_LEFT}" y="{y + 4}" text-anchor="end">{html.escape(line.label)}</text>'
            f'<path d="M{x(line.low)} {y}H{x(line.high)}" stroke="currentColor" stroke-width="2"/>'
            f'<circle cx="{x(line.value)}" cy="{y}" r="4.5"/>'
        )
    drawn += [f'<text x="{x(at)}" y="{bottom + 15}" text-anchor="middle">{signed(at)}</text>' for at in (low, high)]
    drawn.append(f'<text x="{_WIDTH // 2}" y="{bottom + 34}" text-anchor="middle">{html.escape(caption)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{bottom + 40}" role="img" '
        f'aria-label="{html.escape(caption)}" font-size="13" font-family="sans-serif" fill="currentColor">'
        f"{''.join(drawn)}</svg>"
    )


class Shown:
    """A result whose fields a notebook shows as a table; arrays and results inside it by what they are."""

    def _repr_html_(self) -> str:
        rows = [(entry.name, _brief(getattr(self, entry.name))) for entry in fields(self)]  # type: ignore[arg-type]
        return f"<strong>{type(self).__name__}</strong>{table(rows)}"


def _brief(value: object) -> str:
    if value is None:
        return MISSING
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, str | int | np.integer | np.bool_):
        return str(value)
    if isinstance(value, Sequence) and all(isinstance(each, str) for each in value):
        return "; ".join(value) or MISSING
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} of shape {shape}"
