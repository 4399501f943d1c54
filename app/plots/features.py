"""Figures of the Feature lab: the search, its price, and AR-CondCal with a scalar of one's own."""

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.plots.rows import row_figure
from app.plots.theme import (
    METHOD_COLOURS,
    METHOD_SYMBOLS,
    TEST_SYMBOLS,
    Theme,
    empty_figure,
    figure,
    list_axis,
    observed,
)
from engine.benchmark import METRICS
from engine.calibrators import CALIBRATORS
from engine.core.labels import format_p
from engine.features import CustomFeature
from engine.features.search import FeatureSearch, SearchedTest

_WORDS = {"mean": "mean", "std": "spread", "max": "largest", "min": "smallest", "range": "range", "slope": "slope"}
_ROW = 24
_BARS = 30


def _row_name(candidate: CustomFeature) -> str:
    return f"layer {candidate.layers[0]}" if len(candidate.layers) == 1 else f"{_WORDS[candidate.summary]} of all"


def _tick(level: float) -> str:
    return f"{level:g}" if level >= 0.001 else f"10<sup>{round(math.log10(level))}</sup>"


def _log_ticks(smallest: float) -> dict[str, object]:
    """Ticks of an axis that carries log10 p, from `smallest` to 1."""
    wanted = (1, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6) if smallest > 1e-6 else (1, 1e-3, 1e-6, 1e-9, 1e-12)
    levels = [level for level in wanted if level >= smallest / 2]
    return {"tickvals": [math.log10(level) for level in levels], "ticktext": [_tick(level) for level in levels]}


def search_rows(search: FeatureSearch, test: str, theme: Theme) -> go.Figure:
    """p of every candidate, a row per scalar, beside the p that the best of a search has to get below."""
    searched = search.tests[test]
    if searched.best is None or searched.best_p is None:
        return empty_figure(theme, "No scalar can be tested on these samples")
    threshold = searched.threshold()
    title = f"The best is {search.candidates[searched.best].label} ({format_p(searched.best_p)})"
    if threshold is not None:
        beats = "beats" if searched.best_p < threshold else "does not beat"
        title += f"; it {beats} the {threshold:.2g} that 1 in 20 shuffled searches reaches"
    names = list(dict.fromkeys(_row_name(candidate) for candidate in search.candidates))
    fig = figure(theme, title=title, x="p-value, unadjusted (log scale)", y="", height=130 + _ROW * len(names))
    smallest = min(searched.best_p, threshold or 1.0, 0.01)
    left = math.log10(smallest) - 0.35
    if threshold is not None:
        fig.add_vrect(x0=left, x1=math.log10(threshold), fillcolor=theme.band, line_width=0, layer="below")
    fig.add_vline(x=math.log10(0.05), line={"dash": "dash", "color": theme.muted, "width": 1.5})
    hollow = "-open" if TEST_SYMBOLS[test].endswith("-open") else ""
    for times, name, symbol in ((False, "routing alone", "circle"), (True, "times confidence", "diamond")):
        chosen = [
            (math.log10(p), names.index(_row_name(candidate)), candidate.label, p, holm)
            for candidate, p, holm in zip(search.candidates, searched.p_values, searched.holm, strict=True)
            if candidate.times_confidence == times and np.isfinite(p)
        ]
        if not chosen:
            continue
        x, y, labels, p_values, adjusted = zip(*chosen, strict=True)
        fig.add_trace(
            go.Scatter(
                x=x, y=y, mode="markers", name=name, cliponaxis=False,
                marker={
                    "symbol": symbol + hollow, "size": 10, "color": theme.muted if times else theme.text,
                    "line": {"width": 2 if hollow else 0, "color": theme.muted if times else theme.text},
                },
                customdata=list(zip(labels, p_values, adjusted, strict=True)),
                hovertemplate="%{customdata[0]}<br>p = %{customdata[1]:.3g}, corrected %{customdata[2]:.3g}"
                "<extra></extra>",
            )
        )  # fmt: skip
    list_axis(fig, names, "")
    fig.update_xaxes(range=[left, 0.0], **_log_ticks(10**left))
    return fig


def shuffled_best(searched: SearchedTest, theme: Theme) -> go.Figure:
    """The best p of every search on shuffled routing, with that of the data on it."""
    if searched.best_p is None or searched.search_p is None:
        return empty_figure(theme, "No scalar can be tested on these samples")
    tries = searched.shuffled_best.size
    fig = figure(
        theme,
        title=f"Shuffled routing performs as well in {searched.n_as_good} of {tries} searches",
        x=f"smallest of {searched.n_tested} p-values (log scale)",
        y="shuffled searches",
        height=330,
    )
    values, best = np.log10(searched.shuffled_best), math.log10(searched.best_p)
    left, right = min(float(values.min()), best) - 0.2, max(float(values.max()), best) + 0.2
    counts, edges = np.histogram(values, bins=_BARS, range=(left, right))
    middle = (edges[:-1] + edges[1:]) / 2
    fig.add_trace(
        go.Bar(
            x=middle, y=counts, width=np.diff(edges), showlegend=False,
            marker={"color": np.where(middle <= best, theme.muted, theme.grid), "line": {"width": 0}},
            customdata=10**middle, hovertemplate="best p near %{customdata:.2g}: %{y} searches<extra></extra>",
        )
    )  # fmt: skip
    side = "top right" if best < (left + right) / 2 else "top left"
    observed(fig, theme, best, f"this run {searched.best_p:.2g}", side)
    fig.update_layout(bargap=0, margin={"b": 60})
    fig.update_yaxes(range=[0, counts.max() * 1.2])  # room for the number on the line
    fig.update_xaxes(range=[left, right], **_log_ticks(10**left))
    return fig


def kernel_contrasts(contrasts: pd.DataFrame, theme: Theme) -> go.Figure:
    """AR-CondCal with a scalar minus each control, with simultaneous intervals; left of zero is better."""
    clear = contrasts[contrasts["clear"].astype(bool)]
    better = int((clear["difference"] < 0).sum())
    title = f"AR-CondCal with this scalar is clearly better in {better} and clearly worse in {len(clear) - better} "
    title += f"of {int(contrasts['low'].notna().sum())} comparisons"
    metrics = list(dict.fromkeys(contrasts["metric"]))
    drawn = row_figure(
        theme,
        title=title,
        x="difference to the control, below zero is better",
        cells=[METRICS[metric].label for metric in metrics],
        n_lanes=[int((contrasts["metric"] == metric).sum()) for metric in metrics],
        lane=22,
        below=96,
    )
    fig = drawn.figure
    fig.add_vline(x=0, line={"dash": "dash", "color": theme.muted, "width": 1.5})
    for lane, (control, part) in enumerate(contrasts.groupby("control", sort=False)):
        heights = [drawn.lanes[metrics.index(metric)][lane] for metric in part["metric"]]
        colour = METHOD_COLOURS[str(control)]
        fig.add_trace(
            go.Scatter(
                x=part["difference"], y=heights, mode="markers", name=f"minus {CALIBRATORS[str(control)].label}",
                error_x={
                    "type": "data", "symmetric": False, "array": part["high"] - part["difference"],
                    "arrayminus": part["difference"] - part["low"], "color": colour, "thickness": 3, "width": 0,
                },
                marker={"color": colour, "size": 11, "symbol": METHOD_SYMBOLS[str(control)]},
                customdata=part[["low", "high"]],
                hovertemplate="%{x:+.4f} [%{customdata[0]:+.4f}, %{customdata[1]:+.4f}]"
                "<extra>%{fullData.name}</extra>",
            )
        )  # fmt: skip
    return fig
