"""Figures whose rows are cells: the name stands above its row, so that it fits a narrow column and a phone."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from app.plots.theme import TEST_SYMBOLS, Theme, figure

_LINE, _GAP, _TOP = 19, 10, 16


def mark_of(test: str, theme: Theme, size: int = 12) -> dict[str, object]:
    """The fixed mark of a test: the paper's hollow, the primary one filled."""
    return {
        "symbol": TEST_SYMBOLS[test],
        "size": size,
        "color": theme.text,
        "line": {"color": theme.text, "width": 2},
    }


def lines_of(name: str, width: int) -> list[str]:
    """The name on one line, or with its last part on a line of its own."""
    if len(name) <= width:
        return [name]
    head, dot, tail = name.rpartition(" · ")
    parts = [head + dot.rstrip(), tail]
    return [line for part in parts for line in textwrap.wrap(part, width, break_on_hyphens=False)]


def name_at_left(theme: Theme, lines: Sequence[str], margin: int) -> dict[str, object]:
    """An annotation that starts at the left edge of a figure with this left margin (pixels); its height is open."""
    return {
        "text": "<br>".join(lines), "x": 0, "xref": "paper", "xanchor": "left", "xshift": 2 - margin, "align": "left",
        "showarrow": False, "borderpad": 0, "font": {"color": theme.text, "size": theme.font_size},
    }  # fmt: skip


@dataclass(frozen=True, eq=False)
class RowFigure:
    """A figure with a row per cell. `lanes[i]` are the heights (pixels from the top) of the lanes of cell i."""

    figure: go.Figure
    lanes: list[list[float]]
    lane: float
    depth: float


def row_figure(
    theme: Theme,
    *,
    title: str,
    x: str,
    cells: Sequence[str],
    n_lanes: Sequence[int],
    lane: int,
    below: int,
    heads: Sequence[str] = (),
    width: int = 46,
    left: int = 2,
) -> RowFigure:
    """An empty figure with the names of the cells written in, broken after `width` characters.

    `lane`, `below` (room for the axis) and `left` (room for names of lanes) are pixels at normal size; `heads` stand
    above x = 0, 1, ... The vertical axis counts pixels from the top, so that rows keep their height however many there
    are.
    """
    scale = theme.font_size / 14
    margin = round(left * scale)
    depth, lanes = (26 * scale if heads else 0.0), []
    labels = [
        {"text": text, "x": x, "y": 0, "yanchor": "top", "showarrow": False, "borderpad": 0,
         "font": {"color": theme.muted}}
        for x, text in enumerate(heads)
    ]  # fmt: skip
    for cell, count in zip(cells, n_lanes, strict=True):
        lines = lines_of(cell, width)
        labels.append(name_at_left(theme, lines, margin) | {"y": depth, "yanchor": "top"})
        depth += (_LINE * len(lines) + 4) * scale
        lanes.append([depth + lane * scale * (position + 0.5) for position in range(count)])
        depth += (lane * count + _GAP) * scale
    bottom = round(below * scale)
    layout = {
        "yaxis": {"visible": False, "range": [depth, 0], "fixedrange": True},
        "margin": {"t": _TOP, "b": bottom, "l": margin, "r": 12},
        "height": round(depth) + _TOP + bottom,
        "annotations": labels,
    }
    fig = figure(theme, title=title, x=x, y="", layout=layout)
    return RowFigure(fig, lanes, lane * scale, depth)
