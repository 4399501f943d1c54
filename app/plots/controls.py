"""Figures of the controls: power, false alarms."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.plots.theme import MATCHING_COLOURS, Theme, figure, reference, translucent
from engine.controls import POWER_TARGET, FalseAlarms, PowerCurve
from engine.gaps import TESTS

_LINES = {"paper": ("dash", "circle-open"), "primary": ("solid", "circle")}


def power_curves(power: PowerCurve, theme: Theme) -> go.Figure:
    """Share of planted gaps found against their size, with 95 % intervals; the paper's test hollow, the primary not."""
    found = power.detectable
    texts = [f"{TESTS[test].label} {found[test]:.2f}" for test in ("primary", "paper") if found.get(test) is not None]
    title = f"Gap detected with 80 % power: {', '.join(texts)}" if texts else "No gap tried is detected with 80 % power"
    fig = figure(theme, title=title, x="planted gap in accuracy", y="share of simulations rejected", height=420)
    for test, (dash, symbol) in _LINES.items():
        part = power.table[power.table["test"] == test]
        colour = MATCHING_COLOURS[TESTS[test].matching]
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
                x=part["delta"], y=part["rate"], mode="lines+markers", name=TESTS[test].label,
                line={"color": colour, "dash": dash, "width": 2.5}, marker={"symbol": symbol, "size": 9},
                customdata=part["n_replicates"],
                hovertemplate="gap %{x:.2f}: %{y:.0%} of %{customdata} simulations<extra>%{fullData.name}</extra>",
            )
        )  # fmt: skip
    reference(fig, theme, x0=0, x1=max(power.deltas), y0=POWER_TARGET, y1=POWER_TARGET)
    reference(fig, theme, x0=0, x1=max(power.deltas), y0=power.alpha, y1=power.alpha)
    fig.update_yaxes(range=[0, 1.03], tickformat=".0%")
    return fig


def support_power(curves: dict[int, PowerCurve], theme: Theme) -> go.Figure:
    """The paper's test under several minimum supports."""
    fig = figure(
        theme,
        title="Power by minimum support",
        x="planted gap in accuracy",
        y="share of simulations rejected",
        height=420,
    )
    shades = ("#9E86C8", "#4C97B9", "#35B779")  # each readable on white and on black
    # Where every bin is well filled the curves coincide: rings inside rings, and lines that let earlier ones through.
    styles = zip(shades, ("solid", "dash", "dot"), (14, 9, 4), strict=True)
    for (support, curve), (colour, dash, size) in zip(curves.items(), styles, strict=False):
        table = curve.table
        fig.add_trace(
            go.Scatter(
                x=table["delta"], y=table["rate"], mode="lines+markers", name=f"at least {support} in each outer third",
                line={"color": colour, "dash": dash, "width": 2.5}, marker={"symbol": "circle-open", "size": size},
                hovertemplate="gap %{x:.2f}: found in %{y:.0%}<extra>%{fullData.name}</extra>",
            )
        )  # fmt: skip
    fig.update_yaxes(range=[0, 1.03], tickformat=".0%")
    return fig


def false_alarms(alarms: FalseAlarms, theme: Theme) -> go.Figure:
    """How often each test rejects where only confidence matters, with 95 % intervals and the nominal rate."""
    table = alarms.table.iloc[::-1]
    loud = alarms.table[alarms.table["rate_low"] > alarms.alpha]
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
                "size": 12, "color": [MATCHING_COLOURS[TESTS[test].matching] for test in table["test"]],
                "symbol": [_LINES.get(test, ("", "square-open"))[1] for test in table["test"]],
            },
            customdata=table[["rejections", "n_replicates"]],
            hovertemplate="%{y}: %{customdata[0]} of %{customdata[1]} simulations (%{x:.1%})<extra></extra>",
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
