"""Two figures of one kind for two runs: the same axes and scales, one legend."""

from collections.abc import Iterator

import numpy as np
import plotly.graph_objects as go

_BELOW = 64
"""Pixels below the axes where no legend stands."""
_SIGNS = {
    "circle-open": "○", "diamond": "◆", "diamond-open": "◇", "square": "■", "square-open": "□", "triangle-up": "▲",
    "triangle-down": "▼",
}  # fmt: skip
_ROOM = 0.05
"""Share of what is drawn that an axis leaves free at each end."""


def match(first: go.Figure, second: go.Figure) -> None:
    """Change both so that a length, a height or a shade means the same in the one as in the other."""
    for name in first.layout:
        if name.startswith(("xaxis", "yaxis")) and name in second.layout:
            _match_axis(first, second, name)
    shades = [trace for fig in (first, second) for trace in fig.data if trace.type == "heatmap"]
    if shades:
        low, high = (float(end([end(trace.z) for trace in shades])) for end in (np.nanmin, np.nanmax))
        for trace in shades:
            trace.update(
                zmin=low if trace.zmin is None else trace.zmin, zmax=high if trace.zmax is None else trace.zmax
            )
    height = max(first.layout.height, second.layout.height)
    for fig in (first, second):
        fig.update_layout(height=height, showlegend=False, margin_b=min(fig.layout.margin.b, _BELOW))


def legend(fig: go.Figure) -> list[tuple[str, str, str]]:
    """Sign, colour and name of what a figure's legend would list: that of two figures stands once, under both."""
    named = [trace for trace in fig.data if trace.name and trace.showlegend is not False]
    return list(dict.fromkeys((*_sign(trace), trace.name) for trace in named))


def _sign(trace: go.Scatter | go.Bar) -> tuple[str, str]:
    """A character like the trace's mark or line, and its colour."""
    if trace.type == "bar" or trace.fill:
        return "■", _one(trace.marker.color if trace.type == "bar" else trace.fillcolor)
    if "markers" in (trace.mode or ""):
        return _SIGNS.get(_one(trace.marker.symbol), "●"), _one(trace.marker.color)
    return {"dash": "╍", "dot": "┅"}.get(trace.line.dash or "", "━"), _one(trace.line.color)


def _one(value: object) -> str:
    """What all points share; empty if each has its own."""
    return value if isinstance(value, str) else ""


def _match_axis(first: go.Figure, second: go.Figure, name: str) -> None:
    axes = [first.layout[name], second.layout[name]]
    if any(axis.type == "category" or axis.visible is False for axis in axes) or axes[0].ticktext != axes[1].ticktext:
        return  # names, of which each figure may have its own
    ranges = [axis.range or _reach(fig, name) for axis, fig in zip(axes, (first, second), strict=True)]
    if None in ranges:
        return
    low, high = min(min(each) for each in ranges), max(max(each) for each in ranges)
    falling = ranges[0][0] > ranges[0][1]
    for axis in axes:
        axis.range = [high, low] if falling else [low, high]


def _reach(fig: go.Figure, name: str) -> tuple[float, float] | None:
    """What an axis without a range of its own has to show, in its own scale; None without numbers."""
    found = [values for trace in fig.data for values in _values(trace, name)]
    numbers = np.concatenate(found) if found else np.empty(0)
    if fig.layout[name].type == "log":
        numbers = np.log10(numbers[numbers > 0])
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return None
    low, high = float(numbers.min()), float(numbers.max())
    room = _ROOM * (high - low)
    from_zero = fig.layout[name].rangemode == "tozero" and low >= 0
    return 0.0 if from_zero else low - room, high + room


def _values(trace: go.Figure, name: str) -> Iterator[np.ndarray]:
    """The numbers of a trace along an axis, with the ends of its bars and intervals."""
    letter = name[0]
    if (trace[f"{letter}axis"] or letter) != name.replace("axis", "") or trace[letter] is None:
        return
    values = np.asarray(trace[letter], dtype=object)
    numbers = np.array([value if isinstance(value, (int, float, np.number)) else np.nan for value in values], float)
    along = letter == ("x" if trace.type == "bar" and trace.orientation == "h" else "y")
    if trace.type == "bar" and along:
        base = np.asarray(0.0 if trace.base is None else trace.base, float)
        yield np.broadcast_to(base, numbers.shape)
        yield base + numbers
        return
    yield numbers
    if trace.type == "bar" and trace.width is not None:
        yield numbers - np.asarray(trace.width) / 2
        yield numbers + np.asarray(trace.width) / 2
    error = getattr(trace, f"error_{letter}", None)
    if error is not None and error.array is not None:
        above = np.asarray(error.array, float)
        yield numbers + above
        yield numbers - (above if error.arrayminus is None else np.asarray(error.arrayminus, float))
