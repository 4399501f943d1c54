"""Figures of calibration: diagrams, the tertile map and the classes."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.plots.theme import (
    OVER_CONFIDENT,
    UNDER_CONFIDENT,
    Theme,
    empty_figure,
    figure,
    list_axis,
    reference,
    translucent,
)
from engine.core.binning import TERTILES
from engine.metrics.mechanism import ReliabilityMap

_STRIP = 0.2
_CLASSES_SHOWN = 24
_SIDES = (
    ("over-confident", OVER_CONFIDENT, "triangle-down", "▼"),
    ("under-confident", UNDER_CONFIDENT, "triangle-up", "▲"),
)


def diagram_title(table: pd.DataFrame) -> str:
    """Which way most bins lean, counting those whose interval leaves no doubt."""
    filled = table[table["count"] > 0]
    over = int((filled["accuracy_high"] < filled["mean_confidence"]).sum())
    under = int((filled["accuracy_low"] > filled["mean_confidence"]).sum())
    bins = f"{len(filled)} filled bins" if len(filled) > 1 else "1 filled bin"
    if over == under == 0:
        return f"None of {bins} is clearly over- or under-confident"
    parts = [f"{number} clearly {side}-confident" for number, side in ((over, "over"), (under, "under")) if number]
    return f"Of {bins}, {' and '.join(parts)}"


def diagram(
    table: pd.DataFrame,
    theme: Theme,
    *,
    title: str,
    height: int,
    x: str = "confidence",
    y: str = "accuracy",
    small: bool = False,
) -> go.Figure:
    """Accuracy against confidence by bin with 95 % intervals, over a histogram of the counts. Empty bins stay empty.

    small : one of many, too narrow for the words beside its marks.
    """
    fig = figure(theme, title=title, x=x, y=y, height=height)
    reference(fig, theme, x0=0, y0=0, x1=1, y1=1)
    filled = table[table["count"] > 0]
    # Plain arrays in plain dictionaries, added at once: a page draws a dozen of these.
    traces: list[dict[str, object]] = []
    for index, (side, colour, symbol, _) in enumerate(_SIDES):
        rows = filled[(filled["gap"] < 0) == (index == 0)]
        part = {name: rows[name].to_numpy() for name in rows}
        # The coloured piece between confidence and accuracy is the bin's contribution before weighting.
        traces.append({
            "type": "bar", "x": (part["lower"] + part["upper"]) / 2, "width": part["upper"] - part["lower"],
            "base": part["mean_confidence"], "y": part["gap"], "hoverinfo": "skip", "showlegend": False,
            "marker": {"color": translucent(colour, 0.28), "line": {"width": 0}},
        })  # fmt: skip
        traces.append({
            "type": "scatter", "x": part["mean_confidence"], "y": part["accuracy"], "mode": "markers", "name": side,
            "showlegend": False,
            "marker": {
                "color": colour, "symbol": symbol, "size": 8 if small else 11,
                "line": {"color": theme.text, "width": 0.5},
            },
            "error_y": {
                "array": part["accuracy_high"] - part["accuracy"],
                "arrayminus": part["accuracy"] - part["accuracy_low"],
                "color": theme.text, "thickness": 1.3, "width": 4,
            },
            "customdata": rows[["count", "accuracy_low", "accuracy_high", "gap", "lower", "upper"]].to_numpy(),
            "hovertemplate": (
                "bin %{customdata[4]:.3f} to %{customdata[5]:.3f}: %{customdata[0]:,} samples<br>"
                "accuracy %{y:.3f} [%{customdata[1]:.3f}, %{customdata[2]:.3f}]<br>"
                f"confidence %{{x:.3f}}: {side} (%{{customdata[3]:+.3f}})<extra></extra>"
            ),
        })  # fmt: skip
    lower, upper = table["lower"].to_numpy(), table["upper"].to_numpy()
    traces.append({
        "type": "bar", "x": (lower + upper) / 2, "width": (upper - lower) * 0.92, "y": table["count"].to_numpy(),
        "yaxis": "y2", "marker": {"color": theme.muted}, "showlegend": False,
        "customdata": np.column_stack([lower, upper]),
        "hovertemplate": "%{customdata[0]:.3f} to %{customdata[1]:.3f}: %{y:,} samples<extra></extra>",
    })  # fmt: skip
    fig.add_traces(traces)
    if not small:
        for (side, colour, _, mark), corner in zip(_SIDES, ((0.98, 0.06), (0.02, 0.95)), strict=True):
            fig.add_annotation(
                text=f'<span style="color:{colour}">{mark}</span> {side}', x=corner[0], y=corner[1], showarrow=False,
                xanchor="right" if corner[0] > 0.5 else "left",
            )  # fmt: skip
    layout = fig.layout
    layout.barmode, layout.margin.b = "overlay", 56
    layout.xaxis.anchor, layout.xaxis.range = "y2", [0, 1.01]
    layout.yaxis.domain, layout.yaxis.range = [_STRIP + 0.06, 1], [0, 1.04]
    layout.yaxis2 = {
        "domain": [0, _STRIP], "anchor": "x", "title": {"text": "" if small else "samples", "standoff": 10},
        "nticks": 3, "rangemode": "tozero", "gridcolor": theme.grid, "zeroline": False, "automargin": True,
    }  # fmt: skip
    return fig


def class_diagram(table: pd.DataFrame, ece: float, label: object, theme: Theme, *, whole: bool) -> go.Figure:
    """One class on its own; whole : all samples by the probability given to it, not only those predicted as it."""
    return diagram(
        table,
        theme,
        title=f"Class {label}: ECE {ece:.3f}",
        height=420,
        x=f"probability given to class {label}" if whole else f"confidence in class {label}",
        y=f"share that is class {label}",
    )


def tertile_map(found: ReliabilityMap, label: str, theme: Theme) -> go.Figure:
    """Accuracy minus confidence by confidence bin (rows) and tertile (columns), counts written in; thin cells blank."""
    largest = found.largest
    if largest is None:
        return empty_figure(theme, f"no cell holds {found.min_count} samples")
    n_bins = found.gap.shape[1]
    tertile, column = largest
    value = found.gap[TERTILES.index(tertile), column]
    way = "over-confident" if value < 0 else "under-confident"
    fig = figure(
        theme,
        title=f"Furthest off: {way} by {abs(value):.2f} in the {tertile} tertile "
        f"at confidence {column / n_bins:.2f} to {(column + 1) / n_bins:.2f}",
        x=f"tertile of {label}",
        y="confidence bin",
        height=90 + 40 * n_bins,
    )
    rows = [f"{b / n_bins:.2f}–{(b + 1) / n_bins:.2f}" for b in range(n_bins)]
    gap, counts = found.gap.T, found.counts.T
    reach = max(0.1, float(np.nanmax(np.abs(gap))))
    text = [
        ["" if np.isnan(v) else f"{v:+.2f}<br>({n:,})".replace("-", "−") for v, n in zip(*pair, strict=True)]
        for pair in zip(gap, counts, strict=True)
    ]
    fig.add_trace(
        go.Heatmap(
            x=list(TERTILES), y=rows, z=gap, zmin=-reach, zmax=reach, text=text, texttemplate="%{text}",
            textfont={"size": theme.font_size - 1}, showscale=False, xgap=3, ygap=3, hoverongaps=False,
            colorscale=[[0, OVER_CONFIDENT], [0.5, theme.neutral], [1, UNDER_CONFIDENT]], customdata=counts,
            hovertemplate="%{x} tertile, confidence %{y}: %{z:+.3f}, %{customdata:,} samples<extra></extra>",
        )
    )  # fmt: skip
    # The heat map picks its own text colour against a cell's colour; a blank cell has none to go by.
    for b, t in zip(*np.nonzero(np.isnan(gap) & (counts > 0)), strict=True):
        fig.add_annotation(
            x=TERTILES[t], y=rows[b], text=f"({counts[b, t]:,})", showarrow=False, font={"color": theme.muted}
        )
    fig.update_yaxes(type="category", showgrid=False, title_standoff=16)
    fig.update_xaxes(type="category", showgrid=False)
    fig.update_layout(margin={"b": 56})
    return fig


def class_gaps(table: pd.DataFrame, theme: Theme) -> go.Figure:
    """Accuracy minus confidence of each predicted class with 95 % intervals; the extremes if there are many."""
    ordered = table.sort_values("gap", kind="stable")
    half = _CLASSES_SHOWN // 2
    shown = ordered if len(ordered) <= _CLASSES_SHOWN else pd.concat([ordered.head(half), ordered.tail(half)])
    clear = int(((table["gap_low"] > 0) | (table["gap_high"] < 0)).sum())
    title = f"{clear} of {len(table)} predicted classes are clearly off"
    if len(shown) < len(table):
        title += f"; the {half} lowest and highest are shown"
    fig = figure(theme, title=title, x="accuracy minus confidence", y="", height=max(300, 120 + 26 * len(shown)))
    names = [f"{row.predicted} ({row.count:,})" for row in shown.itertuples(index=False)]
    reference(fig, theme, x0=0, x1=0, y0=-0.5, y1=len(names) - 0.5)
    over = shown["gap"].to_numpy() < 0
    fig.add_trace(
        go.Scatter(
            x=shown["gap"], y=np.arange(len(names)), text=names, mode="markers", showlegend=False,
            marker={
                "color": np.where(over, OVER_CONFIDENT, UNDER_CONFIDENT), "size": 11,
                "symbol": np.where(over, "triangle-left", "triangle-right"),
            },
            error_x={
                "array": shown["gap_high"] - shown["gap"], "arrayminus": shown["gap"] - shown["gap_low"],
                "color": theme.muted, "thickness": 1.5, "width": 4,
            },
            customdata=shown[["count", "accuracy", "mean_confidence", "ece"]],
            hovertemplate=(
                "class %{text}: %{x:+.3f}<br>accuracy %{customdata[1]:.3f}, confidence %{customdata[2]:.3f}<br>"
                "ECE %{customdata[3]:.3f}, %{customdata[0]:,} samples<extra></extra>"
            ),
        )
    )  # fmt: skip
    list_axis(fig, names, "predicted class (samples)")
    fig.update_layout(margin={"b": 56})
    return fig
