"""Figures of the permutation null."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.plots.theme import MATCHING_COLOURS, TEST_SYMBOLS, Theme, empty_figure, figure, observed, reference
from engine.core.labels import format_p
from engine.gaps import STATISTICS, PermutationResult

_BARS = 60


def null_distribution(test: PermutationResult, theme: Theme) -> go.Figure:
    """The null of the statistic with the observed value on it."""
    if test.null is None or test.observed is None or test.p_value is None:
        return empty_figure(theme, test.reason)
    name = STATISTICS[test.statistic].quantity
    inside = "inside" if test.p_value > 0.05 else "beyond most of"
    fig = figure(
        theme,
        title=f"The observed {name} lies {inside} what permuted routing gives ({format_p(test.p_value)})",
        x=f"{name} in accuracy",
        y="share of permutations",
        height=420,
    )
    values, cumulative = test.null.values, test.null.cumulative
    top = max(float(values[min(np.searchsorted(cumulative, 0.9995), values.size - 1)]), test.observed) * 1.05
    edges = np.linspace(0, max(top, 1e-6), _BARS + 1)
    at_edges = np.concatenate([[0.0], cumulative])[np.searchsorted(values, edges, side="right")]
    at_edges[0] = 0.0  # a gap of exactly zero belongs to the first bar
    middle = (edges[:-1] + edges[1:]) / 2
    beyond = middle >= test.observed
    fig.add_trace(
        go.Bar(
            x=middle, y=np.diff(at_edges), width=np.diff(edges), showlegend=False,
            marker={"color": np.where(beyond, theme.muted, theme.grid), "line": {"width": 0}},
            hovertemplate="%{x:.3f}: %{y:.2%} of permutations<extra></extra>",
        )
    )  # fmt: skip
    observed(fig, theme, test.observed, f"observed {test.observed:.3f}")
    fig.update_layout(bargap=0)
    # Room above the bars for the number on the line.
    fig.update_yaxes(tickformat=".0%", range=[0, 1.15 * float(np.diff(at_edges).max())])
    return fig


def bin_contributions(test: PermutationResult, theme: Theme) -> go.Figure:
    """Each bin's gap against its own null range: which bin makes the maximum?"""
    if test.gap.max_gap is None:
        return empty_figure(theme, test.gap.notes[-1])
    bins = test.gap.bins[test.gap.bins["shared"]]
    outside = int((bins["gap"].abs().to_numpy() > test.band.gap[:, 2]).sum())
    fig = figure(
        theme,
        title=f"{outside} of {len(bins)} bins exceed the 97.5th percentile of their null; chance gives about "
        f"{0.025 * len(bins):.1f}",
        x="confidence bin",
        y="gap in accuracy",
        height=420,
    )
    position = bins["bin"].astype(str)
    fig.add_trace(
        go.Bar(
            x=position, y=test.band.gap[:, 2] - test.band.gap[:, 0], base=test.band.gap[:, 0],
            name="95 % of permutations",
            marker={"color": theme.band, "line": {"color": theme.muted, "width": 1}}, hoverinfo="skip",
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=position, y=bins["gap"].abs(), mode="markers", name="observed",
            marker={"color": theme.text, "size": 11, "symbol": "diamond"},
            customdata=bins[["n_low", "n_high"]],
            hovertemplate="bin %{x}: gap %{y:.3f}<br>%{customdata[0]} low, %{customdata[1]} high<extra></extra>",
        )
    )  # fmt: skip
    fig.update_xaxes(type="category")
    return fig


def p_against_bins(curve: pd.DataFrame, alpha: float, theme: Theme) -> go.Figure:
    """p against the number of bins; columns n_bins, matching, paper, primary."""
    fig = figure(
        theme,
        title="p-value against how finely confidence is matched",
        x="number of confidence bins",
        y="p-value",
        height=420,
    )
    for matching, dash in (("equal_width", "dot"), ("equal_mass", "solid")):
        part = curve[curve["matching"] == matching]
        for test, label in (("paper", "largest gap"), ("primary", "trend")):
            fig.add_trace(
                go.Scatter(
                    x=part["n_bins"], y=part[test], mode="lines+markers", name=f"{label}, {matching.replace('_', ' ')}",
                    line={"dash": dash, "color": MATCHING_COLOURS[matching], "width": 2},
                    marker={"symbol": TEST_SYMBOLS[test], "size": 10},
                    hovertemplate="%{x} bins: p = %{y:.3g}<extra>%{fullData.name}</extra>",
                )
            )  # fmt: skip
    reference(fig, theme, x0=curve["n_bins"].min(), x1=curve["n_bins"].max(), y0=alpha, y1=alpha)
    ticks = [5, 10, 20, 50, 100, 200]
    fig.update_xaxes(type="log", tickvals=ticks, ticktext=[str(tick) for tick in ticks])
    levels = [1, 0.1, 0.05, 0.01, 0.001, 1e-4, 1e-6, 1e-9, 1e-12]
    fig.update_yaxes(type="log", tickvals=levels, ticktext=[f"{level:g}" for level in levels])
    return fig
