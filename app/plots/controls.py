"""Figures of the controls: power, false alarms."""

import pandas as pd
import plotly.graph_objects as go

from app.plots.theme import MATCHING_COLOURS, Theme, figure, reference, translucent
from engine.controls import POWER_TARGET, FalseAlarms, PowerCurve
from engine.gaps import TESTS

_LINES = {"verdict": ("solid", "diamond"), "primary": ("dot", "circle"), "paper": ("dash", "circle-open")}


def _colour(test: str, theme: Theme) -> str:
    return MATCHING_COLOURS[TESTS[test].matching] if test in TESTS else theme.text


def power_curves(power: PowerCurve, theme: Theme) -> go.Figure:
    """Share of planted gaps found against their size, with 95 % intervals; the paper's test hollow, the others not."""
    found, labels = power.detectable, power.table.set_index("test")["label"].to_dict()
    texts = [f"{labels[test]} {found[test]:.2f}" for test in _LINES if found.get(test) is not None]
    title = f"Gap detected with 80 % power: {', '.join(texts)}" if texts else "No gap tried is detected with 80 % power"
    fig = figure(theme, title=title, x="planted gap in accuracy", y="share of simulations rejected", height=420)
    for test, (dash, symbol) in _LINES.items():
        part = power.table[power.table["test"] == test]
        colour = _colour(test, theme)
        fig.add_trace(
            go.Scatter(
                x=pd.concat([part["delta"], part["delta"][::-1]]),
                y=pd.concat([part["rate_high"], part["rate_low"][::-1]]),
                fill="toself", fillcolor=translucent(colour, 0.15), mode="lines", line={"width": 0}, hoverinfo="skip",
                showlegend=False,
            )
        )  # fmt: skip
        fig.add_trace(
            go.Scatter(
                x=part["delta"], y=part["rate"], mode="lines+markers", name=labels[test],
                line={"color": colour, "dash": dash, "width": 2.5}, marker={"symbol": symbol, "size": 9},
                customdata=part["n_replicates"],
                hovertemplate="gap %{x:.2f}: %{y:.0%} of %{customdata} simulations<extra>%{fullData.name}</extra>",
            )
        )  # fmt: skip
    reference(fig, theme, x0=0, x1=max(power.deltas), y0=POWER_TARGET, y1=POWER_TARGET)
    reference(fig, theme, x0=0, x1=max(power.deltas), y0=power.alpha, y1=power.alpha)
    fig.update_yaxes(range=[0, 1.03], tickformat=".0%")
    return fig


def false_alarms(alarms: FalseAlarms, theme: Theme) -> go.Figure:
    """How often each test rejects where only confidence matters, in its worst world, with 95 % intervals."""
    table = alarms.table.iloc[::-1]
    loud = alarms.table[alarms.table["broken"]]
    title = (
        f"{len(loud)} of {len(table)} tests raise too many false alarms on this run and feature"
        if len(loud)
        else "No test raises too many false alarms on this run and feature"
    )
    fig = figure(theme, title=title, x="false-alarm rate", y="", height=420)
    fig.add_trace(
        go.Scatter(
            x=table["rate"], y=table["label"], mode="markers", showlegend=False,
            error_x={
                "type": "data", "symmetric": False, "array": table["rate_high"] - table["rate"],
                "arrayminus": table["rate"] - table["rate_low"], "color": theme.muted, "thickness": 3, "width": 0,
            },
            marker={
                "size": 12, "color": [_colour(test, theme) for test in table["test"]],
                "symbol": [_LINES.get(test, ("", "square-open"))[1] for test in table["test"]],
            },
            customdata=table[["rejections", "n_replicates", "fit"]],
            hovertemplate=(
                "%{y}: %{customdata[0]} of %{customdata[1]} simulations (%{x:.1%}), %{customdata[2]} fit<extra></extra>"
            ),
        )
    )  # fmt: skip
    fig.add_vline(
        x=alarms.alpha,
        line={"dash": "dash", "color": theme.text, "width": 1.5},
        annotation_text=f"nominal {alarms.alpha:.0%}",
        annotation_position="top right",
    )
    reach = max(0.2, float(table["rate_high"].max()) * 1.08)
    fig.update_xaxes(tickformat=".0%", range=[0, reach], nticks=5, tickangle=0)
    fig.update_yaxes(range=[-0.6, len(table) + 0.1])  # room above the first test for the name of the line
    return fig
