"""Log-log plots of a grid: time on the left, memory on the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from tests.bench.scale import Cell, Grid
from tests.bench.scale_work import OPERATIONS

# Okabe and Ito's colours, then greys; every line also carries its name.
_COLOURS = {
    "write": "#C27C00", "publish": "#D55E00", "verify": "#8C8C8C", "open": "#56B4E9", "load": "#0072B2",
    "count": "#009E73", "exact_test": "#000000", "null": "#666666", "trend_test": "#7A5C00", "surface": "#CC79A7",
    "regression": "#882255", "temperatures": "#882255", "diagnose": "#CC79A7",
}  # fmt: skip
_APART = 0.047
"""Between two names at the ends of lines, as a share of the height."""


def draw(grid: Grid, cells: Sequence[Cell], path: Path) -> Figure:
    """A line per operation with its name at its end; a cross where one was stopped. Text stays text in the SVG."""
    own = [cell for cell in cells if cell.grid == grid.name]
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "scale", "font.size": 11}):
        figure = Figure(figsize=(13.0, 4.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        _panel(left, grid, own, lambda cell: cell.seconds, _seconds)
        _panel(right, grid, own, lambda cell: cell.added_mb, _megabytes)
        left.set_title("Time", loc="left", fontweight="bold")
        right.set_title("Peak memory beyond the libraries'", loc="left", fontweight="bold")
        for name in grid.operations:
            stopped = [cell for cell in own if cell.operation == name and cell.note.startswith("stopped")]
            if stopped:
                end = min(stopped, key=lambda cell: cell.x)
                left.plot(end.x, end.cap, "x", color=_COLOURS[name], markersize=9, markeredgewidth=2)
                left.annotate(
                    end.note, (end.x, end.cap), (-8, 0), textcoords="offset points", ha="right", va="center",
                    color=_COLOURS[name],
                )  # fmt: skip
        figure.savefig(path, metadata={"Date": None})
    return figure


def _panel(
    axes: Axes,
    grid: Grid,
    cells: Sequence[Cell],
    quantity: Callable[[Cell], float | None],
    label: Callable[[float, int], str],
) -> None:
    axes.set(xscale="log", yscale="log", xlabel=grid.axis)
    ends: dict[str, tuple[float, float]] = {}
    for name in grid.operations:
        found = [(cell.x, value) for cell in cells if cell.operation == name and (value := quantity(cell)) is not None]
        # Less than a tenth of a millisecond, or than a megabyte, is noise: it is drawn on the axis.
        points = [(x, max(value, 1e-4 if label is _seconds else 1.0)) for x, value in sorted(found)]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=_COLOURS[name], linewidth=1.5, markersize=5)
            ends[name] = points[-1]
    sizes = sorted({cell.x for cell in cells})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(label))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    share = axes.transLimits.transform  # of log10 values
    heights = {
        name: float(share(axes.transScale.transform(end))[1])
        for name, end in sorted(ends.items(), key=lambda item: item[1][1])
    }
    for name, height in zip(heights, spread(list(heights.values())), strict=True):
        axes.annotate(
            OPERATIONS[name].label, ends[name], (1.04, height), textcoords="axes fraction", va="center",
            color=_COLOURS[name], annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": _COLOURS[name], "linewidth": 0.8, "linestyle": ":", "relpos": (0, 0.5),
            },
        )  # fmt: skip


def spread(heights: list[float]) -> list[float]:
    """Ascending heights of names, moved apart as little as keeps their order and the highest inside."""
    placed = list(heights)
    for below, above in pairwise(range(len(placed))):
        placed[above] = max(placed[above], placed[below] + _APART)
    ceiling = 1.0
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], ceiling)
        ceiling = placed[index] - _APART
    return placed


def _seconds(value: float, _position: int) -> str:
    return f"{value * 1e3:g} ms" if value < 0.1 else f"{value:g} s"


def _megabytes(value: float, _position: int) -> str:
    return f"{value / 1000:g} GB" if value >= 1000 else f"{value:g} MB"
