"""Figures of the Paper page: a column of a table, and how the paper's statements fare by topic."""

from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from app.plots.rows import row_figure
from app.plots.theme import (
    METHOD_COLOURS,
    METHOD_SYMBOLS,
    OTHER_METHOD,
    Theme,
    figure,
    list_axis,
    reference,
    translucent,
)
from engine.paper.claims import OUTCOMES, ClaimResult

_FAMILY = {
    "AR-CondCal": "nw_conf_routing", "NW (Conf + Routing): AR-CondCal": "nw_conf_routing", "Conf-only": "nw_conf",
    "NW (Conf only)": "nw_conf", "Conf + PredEntropy": "nw_conf_entropy", "NW (Conf + Pred. Ent.)": "nw_conf_entropy",
    "Confidence only": "nw_conf", "Predictive entropy": "nw_conf_entropy", "Depth-variance r_std": "nw_conf_routing",
}  # fmt: skip
_RAW = ("No calibration", "Raw (no calibration)")
_ROOM = 0.22  # of the axis, for the number beside the rightmost point
_SPACE = "\u2003"  # between a point and its number
_FAR = 2.5  # a raw value this many times beyond the others would flatten them


def _intervals(frame: pd.DataFrame, column: str) -> dict[str, tuple[float, float]]:
    """By row: the printed interval of a quantity, else its standard deviation on both sides; neither: not there."""

    def values(name: str, field: str = "value") -> pd.Series:
        return frame[frame["column"] == name].set_index("row")[field]

    value, std = values(column), values(column, "std").astype(float)
    around = pd.DataFrame({"low": value - std, "high": value + std}).dropna()
    printed = pd.DataFrame({end: values(f"{column} CI {end}") for end in ("low", "high")}).dropna()
    return {row: (float(low), float(high)) for part in (around, printed) for row, low, high in part.itertuples()}


def _method(row: str) -> str:
    return _FAMILY.get(row.rpartition(" / ")[2], "")


@dataclass(frozen=True)
class _Mark:
    """A row of a table as drawn: its number, its text, the ends of its interval, its height and its method."""

    row: str
    value: float
    text: str
    ends: tuple[float, float] | None
    y: float
    method: str

    @property
    def reach(self) -> tuple[float, ...]:
        return (self.value, *(self.ends or ()))


def table_column(frame: pd.DataFrame, column: str, theme: Theme, *, whose: str) -> go.Figure:
    """One column of a table, a row each, with its interval; `frame` carries `text`, the number as printed.

    An uncalibrated row far beyond the others is named at the edge instead of drawn.
    """
    rows = frame[(frame["column"] == column) & frame["value"].notna()]
    others = rows.loc[~rows["row"].isin(_RAW), "value"]
    far = rows["row"].isin(_RAW) & (rows["value"] > _FAR * others.max()) if len(others) else rows["row"].isin(())
    names = [
        f"{row}: {text}, off the scale" if beyond else row
        for row, text, beyond in zip(rows["row"], rows["text"], far, strict=True)
    ]
    drawn = row_figure(
        theme, title=f"{whose}: {column}", x=column, cells=names, n_lanes=[1] * len(names), lane=14, below=64, width=52
    )
    fig = drawn.figure
    intervals = _intervals(frame, column)
    marks = [
        _Mark(row, value, text, intervals.get(row), lanes[0], _method(row))
        for row, value, text, lanes, beyond in zip(
            rows["row"], rows["value"], rows["text"], drawn.lanes, far, strict=True
        )
        if not beyond
    ]
    for method in dict.fromkeys(mark.method for mark in marks if mark.ends):
        with_ends = [mark for mark in marks if mark.ends and mark.method == method]
        fig.add_trace(
            go.Scatter(
                x=[x for mark in with_ends for x in (*mark.ends, None)], name="interval", hoverinfo="skip",
                y=[y for mark in with_ends for y in (mark.y, mark.y, None)], mode="lines", showlegend=False,
                line={"color": METHOD_COLOURS.get(method, OTHER_METHOD), "width": 3},
            )
        )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=[max(mark.reach) for mark in marks], y=[mark.y for mark in marks], mode="text", name="numbers",
            text=[_SPACE + mark.text.partition(" ")[0] for mark in marks], textposition="middle right",
            textfont={"color": theme.muted}, cliponaxis=False, hoverinfo="skip", showlegend=False,
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=[mark.value for mark in marks], y=[mark.y for mark in marks], mode="markers", name=column,
            hovertext=[f"{mark.row}<br>{mark.text}" for mark in marks], hovertemplate="%{hovertext}<extra></extra>",
            marker={
                "color": [METHOD_COLOURS.get(mark.method, OTHER_METHOD) for mark in marks], "size": 11,
                "symbol": [METHOD_SYMBOLS.get(mark.method, "circle") for mark in marks],
            }, showlegend=False,
        )
    )  # fmt: skip
    low = min([0.0, *(x for mark in marks for x in mark.reach)])
    high = max([0.0, *(x for mark in marks for x in mark.reach)])
    span = high - low or 1.0
    fig.update_xaxes(range=[low - 0.03 * span, high + _ROOM * span], nticks=6)
    if low < 0:
        reference(fig, theme, x0=0, x1=0, y0=0, y1=drawn.depth)
    return fig


def claims_by_topic(results: list[ClaimResult], theme: Theme) -> go.Figure:
    """A bar per topic: how many statements agree, differ or cannot be checked, each number written in its part."""
    topics = list(dict.fromkeys(result.topic for result in results))
    counts = {
        topic: {name: sum(r.topic == topic and r.outcome == name for r in results) for name in OUTCOMES}
        for topic in topics
    }
    differing = sum(1 for topic in topics if counts[topic]["differs"])
    fig = figure(
        theme, title=f"{differing} of {len(topics)} topics have a statement that differs", x="statements", y="",
        height=106 + 22 * len(topics),
    )  # fmt: skip
    list_axis(fig, topics, "")
    inks = {
        "agrees": (translucent(theme.text, 0.16), theme.text),
        "differs": (theme.text, theme.paper),
        "not checkable": ("rgba(0,0,0,0)", theme.text),
    }
    for name, (fill, ink) in inks.items():
        values = [counts[topic][name] or None for topic in topics]  # a bar of no length would still have an outline
        before = [sum(counts[topic][other] for other in OUTCOMES[: OUTCOMES.index(name)]) for topic in topics]
        fig.add_trace(
            go.Bar(
                x=values, base=before, y=list(range(len(topics))), orientation="h", name=name,
                width=0.85, marker={"color": fill, "line": {"color": theme.muted, "width": 1}},
                text=[value or "" for value in values], textposition="inside",
                insidetextanchor="middle", textfont={"color": ink, "size": theme.font_size}, textangle=0,
                constraintext="none", customdata=topics,
                hovertemplate=f"%{{customdata}}: %{{x}} {name}<extra></extra>",
            )
        )  # fmt: skip
    fig.update_layout(barmode="overlay", uniformtext={"mode": None}, margin={"b": 84, "l": 8})
    fig.update_xaxes(rangemode="tozero")
    return fig
