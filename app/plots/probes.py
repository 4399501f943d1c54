"""Figures of the probe audit."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.plots.rows import row_figure
from app.plots.theme import METHOD_COLOURS, OTHER_METHOD, Theme, empty_figure, figure, observed, reference, translucent
from engine.core.labels import format_p
from engine.core.types import FloatArray
from engine.probes import CONTRASTS, Contrast, ProbeResult, Reference
from engine.probes.auditing import Kind

UNDEFINED = "The error does not vary on the held-out half: R² is undefined."
_CONFIDENCE, _ROUTING = METHOD_COLOURS["nw_conf"], METHOD_COLOURS["nw_conf_routing"]
# A line is hollow and square, a network filled and round, whatever was shuffled a hollow diamond.
_MARKS = {
    "conf_lin": ("square-open", _CONFIDENCE),
    "conf_mlp": ("circle", _CONFIDENCE),
    "full_lin": ("square-open", _ROUTING),
    "full_mlp": ("circle", _ROUTING),
    "shuf_full_mlp": ("diamond-open", OTHER_METHOD),
}
_CONTRAST_MARKS = {
    "naive": ("square-open", _CONFIDENCE),
    "capacity_matched": ("circle", _CONFIDENCE),
    "routing_specific": ("diamond-open", OTHER_METHOD),
}
_NOUNS = {"routing": "routing", "stand_in": "stand-in", "nothing": "routing"}
_TEMPLATES = {
    "conf_lin": "Line on confidence",
    "conf_mlp": "Network on confidence",
    "full_lin": "Line on confidence and {}",
    "full_mlp": "Network on confidence and {}",
    "shuf_full_mlp": "Network on confidence and shuffled {}",
}
_CONTRAST_TEMPLATES = {
    "naive": "Naive: minus the line on confidence",
    "capacity_matched": "Same capacity: minus the network on confidence",
    "routing_specific": "Same inputs: minus the network on shuffled {}",
}
_LANE, _BELOW, _STACKS = 26, 64, 24


def probe_label(probe: str, kind: Kind) -> str:
    """`Network on confidence and routing`."""
    return _TEMPLATES[probe].format(_NOUNS[kind])


def contrast_label(contrast: str, kind: Kind) -> str:
    """`Same capacity: minus the network on confidence`."""
    return _CONTRAST_TEMPLATES[contrast].format(_NOUNS[kind])


def interval_text(contrast: Contrast) -> str:
    """`[−0.026, −0.011]`, a dash without one."""
    return "–" if contrast.interval is None else "[{:.3f}, {:.3f}]".format(*contrast.interval).replace("-", "−")


def _scores_title(result: ProbeResult, shown: Sequence[str], kind: Kind) -> str:
    mean = {probe: f"{result.mean[probe]:.3f}".replace("-", "−") for probe in shown}
    if "full_mlp" not in shown:
        return f"Confidence alone: a network reaches {mean['conf_mlp']}, a line {mean['conf_lin']}"
    noun = _NOUNS[kind]
    if "conf_mlp" not in shown:
        return f"With {noun} a network reaches {mean['full_mlp']}, a line on confidence {mean['conf_lin']}"
    title = f"A network reaches {mean['conf_mlp']} on confidence alone and {mean['full_mlp']} with {noun}"
    return title if "shuf_full_mlp" not in shown else f"{title}, {mean['shuf_full_mlp']} with it shuffled"


def probe_scores(result: ProbeResult, shown: Sequence[str], kind: Kind, theme: Theme) -> go.Figure:
    """Held-out R² of the probes shown: every initialisation, their range and their mean. The scale fits all probes."""
    if np.isnan(list(result.mean.values())).any():
        return empty_figure(theme, UNDEFINED)
    labels = [
        f"{probe_label(probe, kind)}: <b>{result.mean[probe]:.3f}</b>".replace("-0", "−0") for probe in shown
    ]  # fmt: skip
    drawn = row_figure(
        theme, title=_scores_title(result, shown, kind), x="held-out R²",
        cells=labels, n_lanes=[1] * len(shown), lane=_LANE, below=_BELOW, width=60,
    )  # fmt: skip
    fig = drawn.figure
    for probe, lanes in zip(shown, drawn.lanes, strict=True):
        values, (symbol, colour), name = result.r2[probe], _MARKS[probe], probe_label(probe, kind)
        _add_row(fig, values, float(result.mean[probe]), (values.min(), values.max()), lanes[0], symbol, colour, name)
    everything = np.concatenate(list(result.r2.values()))
    pad = 0.06 * max(float(np.ptp(everything)), 0.01)
    fig.update_xaxes(range=[everything.min() - pad, everything.max() + pad], nticks=7)
    fig.update_layout(showlegend=False)
    return fig


def _add_row(
    fig: go.Figure, values: FloatArray, mean: float, ends: tuple[float, float] | None, height: float,
    symbol: str, colour: str, name: str,
) -> None:  # fmt: skip
    """A thick line between two ends, a tick for every initialisation where they differ, and the mean on top."""
    if ends is not None:
        fig.add_trace(
            go.Scatter(
                x=list(ends), y=[height, height], mode="lines", hoverinfo="skip", name=f"{name}, interval",
                line={"color": translucent(colour, 0.45), "width": 7},
            )
        )  # fmt: skip
    if np.ptp(values) > 0:
        fig.add_trace(
            go.Scatter(
                x=values, y=[height] * len(values), mode="markers", name=f"{name}, initialisations",
                marker={"symbol": "line-ns", "size": 14, "line": {"color": colour, "width": 1.5}},
                hovertemplate="one initialisation: %{x:.4f}<extra></extra>",
            )
        )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=[mean], y=[height], mode="markers", name=name,
            marker={"symbol": symbol, "size": 13, "color": colour, "line": {"color": colour, "width": 2.5}},
            hovertemplate=f"{name}<br>mean %{{x:.4f}}<extra></extra>",
        )
    )  # fmt: skip


def contrasts(result: ProbeResult, shown: Sequence[str], kind: Kind, theme: Theme) -> go.Figure:
    """What is left of the uplift against each comparison shown, with its interval over initialisations."""
    found = {name: contrast for name, contrast in result.contrasts.items() if contrast.against in shown}
    if not found:
        return empty_figure(theme, "There is no comparison to draw.")
    strictest = list(found.values())[-1]
    title = f"The gain in R² is {result.contrasts['naive'].estimate:+.3f} in the naive comparison"
    if len(found) > 1:
        title += f", {found['capacity_matched'].estimate:+.3f} at the same capacity"
    if strictest.against == "shuf_full_mlp":
        title += f", {strictest.estimate:+.3f} against shuffled {_NOUNS[kind]}"
    labels = [
        f"{contrast_label(name, kind)}: <b>{contrast.estimate:+.3f}</b>".replace("-0", "−0")
        for name, contrast in found.items()
    ]
    drawn = row_figure(
        theme, title=title.replace("-", "−"), x="difference in held-out R²", cells=labels, n_lanes=[1] * len(found),
        lane=_LANE, below=_BELOW, width=60,
    )  # fmt: skip
    fig = drawn.figure
    for (name, contrast), lanes in zip(found.items(), drawn.lanes, strict=True):
        symbol, colour = _CONTRAST_MARKS[name]
        row = (contrast.differences, contrast.estimate, contrast.interval, lanes[0], symbol, colour)
        _add_row(fig, *row, contrast_label(name, kind))
        reference(fig, theme, x0=0, x1=0, y0=lanes[0] - drawn.lane / 2, y1=lanes[0] + drawn.lane / 2)
    ends = [*np.concatenate([c.differences for c in result.contrasts.values()]), 0.0]
    ends += [end for c in result.contrasts.values() for end in c.interval or ()]
    pad = 0.06 * max(float(np.ptp(ends)), 0.01)
    fig.update_xaxes(range=[min(ends) - pad, max(ends) + pad], nticks=7, tickformat="+")
    fig.update_layout(showlegend=False)
    return fig


def shuffle_reference(found: Reference, kind: Kind, theme: Theme) -> go.Figure:
    """A dot per shuffled network, stacked where they are alike, and the network with its own routing as a line."""
    n = found.r2.size
    as_good = found.r2.round(9) >= round(found.observed, 9)
    fig = figure(
        theme,
        title=f"{int(as_good.sum())} of {n} networks perform as well with shuffled {_NOUNS[kind]} "
        f"({format_p(found.p_value)})",
        x="held-out R²",
        y="networks",
        height=360,
    )
    low, high = min(found.r2.min(), found.observed), max(found.r2.max(), found.observed)
    width = max(high - low, 1e-6) / _STACKS
    stack = np.floor((found.r2 - low) / width)
    height = pd.Series(found.r2).groupby(stack).rank(method="first").to_numpy()
    for mask, name, fill in (
        (~as_good, f"worse than with its own {_NOUNS[kind]}", "rgba(0,0,0,0)"),
        (as_good, "at least as good", theme.muted),
    ):
        if not mask.any():
            continue
        fig.add_trace(
            go.Scatter(
                x=low + (stack[mask] + 0.5) * width, y=height[mask], mode="markers", name=name,
                marker={"size": 13, "color": fill, "line": {"color": theme.muted, "width": 2}},
                customdata=found.r2[mask], hovertemplate="R² %{customdata:.4f}<extra></extra>",
            )
        )  # fmt: skip
    side = "top left" if found.observed > (low + high) / 2 else "top right"
    observed(fig, theme, found.observed, f"own {_NOUNS[kind]} {found.observed:.3f}", side)
    fig.update_xaxes(range=[low - 1.5 * width, high + 1.5 * width], nticks=6)
    fig.update_yaxes(range=[0, max(4.0, float(height.max())) + 1.6], tickformat="d", nticks=6)
    fig.update_layout(showlegend=True)
    return fig


def predicted_against_actual(groups: pd.DataFrame, probe: str, theme: Theme) -> go.Figure:
    """Mean actual error of quantile groups against what the probe predicted for them, with intervals."""
    outside = int(((groups["predicted"] < groups["low"]) | (groups["predicted"] > groups["high"])).sum())
    fig = figure(
        theme,
        title=f"In {outside} of {len(groups)} groups the prediction misses the interval of the actual error",
        x="predicted error",
        y="actual error, mean of |c − t|",
        height=440,
    )
    symbol, colour = _MARKS[probe]
    ends = [groups[["predicted", "actual"]].min().min(), groups[["predicted", "actual"]].max().max()]
    reference(fig, theme, x0=ends[0], y0=ends[0], x1=ends[1], y1=ends[1])
    fig.add_trace(
        go.Scatter(
            x=groups["predicted"], y=groups["actual"], mode="markers", showlegend=False,
            marker={"symbol": symbol, "size": 10, "color": colour, "line": {"color": colour, "width": 2}},
            error_y={
                "type": "data", "symmetric": False, "array": groups["high"] - groups["actual"],
                "arrayminus": groups["actual"] - groups["low"], "color": theme.muted, "thickness": 2.5, "width": 0,
            },
            customdata=groups[["count", "low", "high"]],
            hovertemplate=(
                "predicted %{x:.3f}, actual %{y:.3f} [%{customdata[1]:.3f}, %{customdata[2]:.3f}]"
                "<br>%{customdata[0]:,} samples<extra></extra>"
            ),
        )
    )  # fmt: skip
    return fig


def pooled_contrasts(rows: pd.DataFrame, theme: Theme) -> go.Figure:
    """The three contrasts of every run by cell: columns cell, run, contrast, estimate, low, high, p_value."""
    if rows.empty:
        return empty_figure(theme, "No run has an error for a probe to explain.")
    groups = rows.groupby("cell", sort=False)
    cells = list(groups.groups)
    matched = rows[rows["contrast"] == "capacity_matched"]
    drawn = row_figure(
        theme,
        title=f"At the same capacity routing raises R² in {int((matched['estimate'] > 0).sum())} of {len(matched)} "
        "runs",
        x="difference in held-out R²",
        cells=cells, n_lanes=[len(CONTRASTS)] * len(cells), lane=20, below=150,
    )  # fmt: skip
    fig = drawn.figure
    lanes = dict(zip(cells, drawn.lanes, strict=True))
    for position, contrast in enumerate(CONTRASTS):
        part = rows[rows["contrast"] == contrast]
        heights = [lanes[cell][position] for cell in part["cell"]]
        symbol, colour = _CONTRAST_MARKS[contrast]
        label = contrast_label(contrast, "routing")
        fig.add_trace(
            go.Scatter(
                x=[value for ends in zip(part["low"], part["high"], strict=True) for value in (*ends, None)],
                y=[value for height in heights for value in (height, height, None)],
                mode="lines", hoverinfo="skip", showlegend=False, name=f"{label}, interval",
                line={"color": translucent(colour, 0.4), "width": 5},
            )
        )  # fmt: skip
        fig.add_trace(
            go.Scatter(
                x=part["estimate"], y=heights, mode="markers", name=label,
                marker={"symbol": symbol, "size": 11, "color": colour, "line": {"color": colour, "width": 2}},
                customdata=part[["run", "low", "high"]],
                hovertemplate=(
                    "%{customdata[0]}<br>%{x:+.4f} [%{customdata[1]:+.4f}, %{customdata[2]:+.4f}]"
                    f"<extra>{label.partition(':')[0]}</extra>"
                ),
            )
        )  # fmt: skip
    for own in drawn.lanes:
        reference(fig, theme, x0=0, x1=0, y0=own[0] - drawn.lane / 2, y1=own[-1] + drawn.lane / 2)
    fig.update_xaxes(nticks=7, tickformat="+")
    return fig
