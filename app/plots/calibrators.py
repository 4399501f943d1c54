"""Figures of the benchmark: dots and intervals per metric, contrasts, calibration sizes, ranks over splits."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.plots.theme import (
    METHOD_COLOURS,
    METHOD_SYMBOLS,
    OTHER_METHOD,
    Theme,
    empty_figure,
    figure,
    list_axis,
    reference,
    translucent,
)
from engine.benchmark import METRICS, Scoreboard
from engine.benchmark.setup import REFERENCE
from engine.calibrators import CALIBRATORS
from engine.core.labels import FIRST, METHODS

_ROW, _ROUND = 22, 84


def short_name(method: str) -> str:
    """The paper's, or the full name of a method that it does not have."""
    return METHODS.get(method, CALIBRATORS[method].label)


def method_colour(method: str, theme: Theme) -> str:
    """AR-CondCal and its matched controls have their own, every other method is grey, none the colour of text."""
    return theme.text if method == REFERENCE else METHOD_COLOURS.get(method, OTHER_METHOD)


def _marks(methods: Sequence[str], theme: Theme, size: int = 10) -> dict[str, object]:
    return {
        "color": [method_colour(name, theme) for name in methods],
        "symbol": [METHOD_SYMBOLS.get(name, "circle-open" if name == REFERENCE else "circle") for name in methods],
        "size": size,
        "line": {"width": [2 if name == REFERENCE else 0 for name in methods]},
    }


def _method_figure(theme: Theme, methods: Sequence[str], *, title: str, x: str, row: int = _ROW) -> go.Figure:
    """A figure with a row per method, named at the left."""
    fig = figure(theme, title=title, x=x, y="", height=_ROUND + row * max(len(methods), 2))
    list_axis(fig, [short_name(name) for name in methods], "")
    fig.update_layout(margin={"b": 56, "l": 8, "r": 12})
    fig.update_xaxes(nticks=4, tickangle=0)
    return fig


def _intervals(rows: pd.DataFrame, methods: Sequence[str], theme: Theme, width: float = 3) -> list[go.Scatter]:
    """A line from low to high in the method's colour, one trace per colour; under the points."""
    traces = []
    colours = [method_colour(name, theme) for name in methods]
    for colour in dict.fromkeys(colours):
        at = [position for position, own in enumerate(colours) if own == colour]
        x = [value for i in at for value in (rows["low"].iloc[i], rows["high"].iloc[i], None)]
        traces.append(
            go.Scatter(
                x=x, y=[value for i in at for value in (i, i, None)], mode="lines", hoverinfo="skip", name="interval",
                line={"color": colour, "width": width}, opacity=0.75, showlegend=False,
            )
        )  # fmt: skip
    return traces


def _room(fig: go.Figure, drawn: pd.Series) -> None:
    """A horizontal axis with room at both ends of all that is drawn."""
    low, high = float(drawn.min()), float(drawn.max())
    margin = 0.06 * (high - low) or 0.01
    fig.update_xaxes(range=[low - margin, high + margin])


def panel_title(board: Scoreboard, metric: str) -> str:
    """`ECE: lowest with BBQ, 0.0102`."""
    shown, rows = METRICS[metric], board.metric(metric)
    best = rows[rows["place"] == FIRST]
    names = [short_name(str(name)) for name in best.index]
    listed = ", ".join(names) if len(names) <= 2 else f"{len(names)} methods"
    mean = "mean " if board.n_runs > 1 else ""
    return f"{shown.label}: lowest {mean}with {listed}, {best['value'].iloc[0]:.{shown.digits}f}"


def metric_panel(board: Scoreboard, metric: str, theme: Theme) -> go.Figure:
    """A metric of every method: interval and debiased value where it has them, a tick for each of several seeds, value.

    The dashed line is the uncalibrated model.
    """
    rows, shown = board.metric(metric), METRICS[metric]
    if rows.empty:
        return empty_figure(theme, f"No {shown.label} without a routing profile")
    methods = [str(name) for name in rows.index]
    fig = _method_figure(theme, methods, title=panel_title(board, metric), x=shown.label)
    raw = float(rows.loc[REFERENCE, "value"])
    reference(fig, theme, x0=raw, x1=raw, y0=-0.5, y1=len(methods) - 0.5)
    return _with_points(fig, board, rows, methods, metric, theme)


def change_panel(board: Scoreboard, metric: str, theme: Theme) -> go.Figure:
    """The paired change of a metric against no calibration; the dashed line is no change."""
    rows = board.metric(metric).drop(index=REFERENCE)
    methods = [str(name) for name in rows.index]
    lower, higher = int((rows["high"] < 0).sum()), int((rows["low"] > 0).sum())
    title = f"{METRICS[metric].label}: clearly below zero with {lower}, above with {higher} of {len(rows)}"
    fig = _method_figure(theme, methods, title=title, x=METRICS[metric].label)
    reference(fig, theme, x0=0, x1=0, y0=-0.5, y1=len(methods) - 0.5)
    return _with_points(fig, board, rows, methods, metric, theme)


def _with_points(
    fig: go.Figure, board: Scoreboard, rows: pd.DataFrame, methods: list[str], metric: str, theme: Theme
) -> go.Figure:
    digits = METRICS[metric].digits
    fig.add_traces(_intervals(rows, methods, theme))
    runs = board.runs[(board.runs["metric"] == metric) & board.runs["method"].isin(methods)]
    # A seed may lie beyond mean ± std, so the seeds have their say in the range too.
    _room(fig, pd.concat([rows[["low", "high"]].melt()["value"], runs["value"]]))
    if board.n_runs > 1:
        fig.add_trace(
            go.Scatter(
                x=runs["value"], y=[methods.index(name) for name in runs["method"]], mode="markers", name="seeds",
                marker={"symbol": "line-ns", "size": 10, "line": {"width": 1.5, "color": theme.muted}},
                showlegend=False, hovertemplate=f"a seed: %{{x:.{digits}f}}<extra></extra>",
            )
        )  # fmt: skip
    if rows["debiased"].notna().any():
        fig.add_trace(
            go.Scatter(
                x=rows["debiased"], y=np.arange(len(methods)), mode="markers", name="debiased", showlegend=False,
                marker={"symbol": "line-ns", "size": 12, "line": {"width": 2, "color": theme.text}},
                hovertemplate=f"debiased: %{{x:.{digits}f}}<extra></extra>",
            )
        )  # fmt: skip
    spread = ""
    if rows["low"].notna().any():
        spread = f"<br>{'mean ± std' if board.n_runs > 1 else '95 % interval'} "
        spread += f"%{{customdata[0]:.{digits}f}} to %{{customdata[1]:.{digits}f}}"
    fig.add_trace(
        go.Scatter(
            x=rows["value"], y=np.arange(len(methods)), mode="markers", name="value", showlegend=False,
            marker=_marks(methods, theme), text=[CALIBRATORS[name].label for name in methods],
            customdata=rows[["low", "high"]].to_numpy(),
            hovertemplate=f"%{{text}}: %{{x:.{digits}f}}{spread}<extra></extra>",
        )
    )  # fmt: skip
    return fig


def contrast_panel(contrasts: pd.DataFrame, metric: str, theme: Theme) -> go.Figure:
    """AR-CondCal minus each of its matched controls in one metric; left of the dashed line AR-CondCal is better."""
    rows = contrasts[contrasts["metric"] == metric]
    label = METRICS[metric].label
    controls = rows["control"].tolist()
    clear = rows[rows["clear"]]
    found = [
        f"{'lower' if row.difference < 0 else 'higher'} than {short_name(row.control)}" for row in clear.itertuples()
    ]
    nothing = "no interval from one run" if rows["low"].isna().all() else "no clear difference"
    title = f"{label}: {' and '.join(found) or nothing}"
    fig = _method_figure(theme, controls, title=title, x=f"Δ {label}", row=44)
    reference(fig, theme, x0=0, x1=0, y0=-0.5, y1=len(controls) - 0.5)
    fig.add_traces(_intervals(rows, controls, theme))
    _room(fig, pd.concat([rows[["low", "high", "difference"]].melt()["value"], pd.Series([0.0])]))
    fig.add_trace(
        go.Scatter(
            x=rows["difference"], y=np.arange(len(controls)), mode="markers", name="difference", showlegend=False,
            marker=_marks(controls, theme, 12), customdata=rows[["low", "high"]].to_numpy(),
            hovertemplate="%{x:+.4f} [%{customdata[0]:+.4f}, %{customdata[1]:+.4f}]<extra></extra>",
        )
    )  # fmt: skip
    return fig


def size_curves(curves: pd.DataFrame, metric: str, theme: Theme) -> go.Figure:
    """A metric against the number of calibration samples; AR-CondCal and its controls over the others in grey."""
    shown = METRICS[metric]
    fitted = curves[curves["method"] != REFERENCE]
    if fitted.empty:
        return empty_figure(theme, f"No {shown.label} without a routing profile")
    sizes = sorted(int(size) for size in fitted["size"].unique())
    best = fitted.loc[fitted.groupby("size")["mean"].idxmin()].set_index("size")["method"]
    least, most = short_name(best[sizes[0]]), short_name(best[sizes[-1]])
    title = (
        f"{shown.label}: {least} is lowest with {sizes[0]:,} samples"
        if len(sizes) == 1
        else f"{shown.label}: {least} is lowest with {sizes[0]:,} samples, {most} with {sizes[-1]:,}"
    )
    fig = figure(theme, title=title, x="calibration samples (log scale)", y=shown.label, height=460)
    order = sorted(curves["method"].unique(), key=lambda name: (name in METHOD_COLOURS, list(CALIBRATORS).index(name)))
    for method in order:
        part, own = curves[curves["method"] == method], method in METHOD_COLOURS
        colour = method_colour(method, theme)
        if own:  # the spread over draws, for the three that the page is about
            fig.add_trace(
                go.Scatter(
                    x=[*part["size"], *part["size"][::-1]],
                    y=[*(part["mean"] + part["std"]), *(part["mean"] - part["std"])[::-1]],
                    fill="toself", fillcolor=translucent(colour, 0.16), mode="lines", line={"width": 0},
                    hoverinfo="skip", showlegend=False, name=f"{method} spread",
                )
            )  # fmt: skip
        dash = "dash" if method == REFERENCE else "solid"
        fig.add_trace(
            go.Scatter(
                x=part["size"], y=part["mean"], mode="lines+markers" if own else "lines", name=short_name(method),
                line={"color": colour, "width": 3 if own else 1.2, "dash": dash}, opacity=1 if own else 0.8,
                marker={"symbol": METHOD_SYMBOLS.get(method, "circle"), "size": 9},
                showlegend=own or method == REFERENCE, customdata=part["std"],
                hovertemplate=(
                    f"{CALIBRATORS[method].label}<br>%{{x:,}} samples: %{{y:.{shown.digits}f}} "
                    f"± %{{customdata:.{shown.digits}f}}<extra></extra>"
                ),
            )
        )  # fmt: skip
    fig.update_xaxes(type="log", tickmode="array", tickvals=sizes, ticktext=[f"{size:,}" for size in sizes])
    return fig


def rank_dots(ranked: pd.DataFrame, counts: pd.DataFrame, metric: str, theme: Theme) -> go.Figure:
    """How often each method takes each rank over the splits (area of the dot), and its mean rank."""
    counts = counts.sort_values(["mean_rank", "n_first"], ascending=[True, False], kind="stable")
    methods = counts["method"].tolist()
    most = counts["n_first"].max()
    winners = [short_name(name) for name in counts[counts["n_first"] == most]["method"]]
    listed = " and ".join(winners) if len(winners) < 3 else f"{len(winners)} methods"
    n_splits = int(counts["n_trials"].max())
    title = (
        f"Lowest {METRICS[metric].label} most often: {listed}, in {most} of {n_splits} splits"
        f"{' each' if len(winners) > 1 else ''}"
    )
    fig = _method_figure(theme, methods, title=title, x="rank (1 is the best)")
    taken = ranked.groupby(["method", "rank"], sort=False).size().reset_index(name="times")
    fig.add_trace(
        go.Scatter(
            x=taken["rank"], y=[methods.index(name) for name in taken["method"]], mode="markers", name="splits",
            showlegend=False, customdata=taken["times"],
            marker={
                "color": [method_colour(name, theme) for name in taken["method"]], "opacity": 0.75,
                "size": taken["times"], "sizemode": "area", "sizeref": 2 * n_splits / 24**2, "sizemin": 4,
                "line": {"width": 0},
            },
            hovertemplate="rank %{x}: %{customdata} splits<extra></extra>",
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=counts["mean_rank"], y=np.arange(len(methods)), mode="markers", name="mean rank", showlegend=False,
            marker={"symbol": "line-ns", "size": 18, "line": {"width": 2.5, "color": theme.text}},
            hovertemplate="mean rank %{x:.1f}<extra></extra>",
        )
    )  # fmt: skip
    fig.update_xaxes(range=[0.4, len(methods) + 0.6], tickmode="linear", dtick=2, tick0=1)
    return fig
