"""Figures whose rows are cells: the name stands above its row, so that it fits a narrow column and a phone."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from app.plots.theme import TEST_SYMBOLS, Theme, figure, list_axis, panels

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


@dataclass(frozen=True)
class Series:
    """One kind of mark of `dot_panels`."""

    name: str
    colour: str
    symbol: str


def dot_panels(
    rows: pd.DataFrame, series: Mapping[str, Series], quantities: Mapping[str, str], theme: Theme, *, title: str
) -> go.Figure:
    """Names at the left, a panel for each quantity, in it a mark for each series with its spread.

    rows : columns row, series, quantity, mean, std (missing: none drawn); rows are shown in their order.
    series, quantities : marks and titles of axes, by the names used in `rows`.
    """
    names = list(dict.fromkeys(rows["row"]))
    labels = ["<br>".join(lines_of(name, 26)) for name in names]
    height = max(_LINE * max((label.count("<br>") + 1 for label in labels), default=1) + 6, 9 * len(series) + 8)
    fig = panels(
        theme, 1, len(quantities), title=title, height=130 + height * len(names), shared_yaxes=True,
        horizontal_spacing=0.03,
    )  # fmt: skip
    for column, (quantity, axis) in enumerate(quantities.items(), 1):
        for place, (key, mark) in enumerate(series.items()):
            kept = rows[(rows["quantity"] == quantity) & (rows["series"] == key) & rows["mean"].notna()]
            shift = 0.8 * ((place + 0.5) / len(series) - 0.5)
            fig.add_trace(
                go.Scatter(
                    x=kept["mean"], y=[names.index(name) + shift for name in kept["row"]], mode="markers",
                    name=mark.name, legendgroup=key, showlegend=column == 1, text=kept["row"],
                    marker={"color": mark.colour, "symbol": mark.symbol, "size": 9, "line": {"width": 1.5}},
                    error_x={"array": kept["std"].fillna(0), "color": mark.colour, "thickness": 2, "width": 0},
                    customdata=kept["std"],
                    hovertemplate=f"%{{text}}<br>{mark.name}: %{{x:.4f}} ± %{{customdata:.4f}}<extra></extra>",
                ), 1, column,
            )  # fmt: skip
        fig.update_xaxes(title=axis, nticks=5, col=column)
    list_axis(fig, labels, "")
    fig.update_layout(margin={"l": 8, "t": 48})
    return fig
