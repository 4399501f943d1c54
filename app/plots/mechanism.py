"""Figures of routing across depth, samples and training."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.plots.theme import Theme, figure, list_axis
from engine.core.labels import format_p
from engine.core.types import FloatArray
from engine.metrics.mechanism import DepthProfile, OutcomeComparison, RankCorrelation, TrainingEntropy

ENTROPY = "routing entropy (0 to 1)"


def _layer_names(profile: DepthProfile) -> list[str]:
    return [
        name if sources is None else f"{name} ({sources})"
        for name, sources in zip(profile.names, profile.n_sources, strict=True)
    ]


def _layer_title(profile: DepthProfile) -> str:
    return "layer" if all(number is None for number in profile.n_sources) else "layer (number of alternatives)"


def depth_profile(profile: DepthProfile, theme: Theme, *, quantity: str = ENTROPY) -> go.Figure:
    """Mean by layer, first layer at the top, bars of one standard deviation over samples; wrong predictions hollow."""
    low, high = profile.lowest, profile.highest
    flat = len(profile.names) == 1 or np.isclose(profile.mean[low], profile.mean[high])
    fig = figure(
        theme,
        title=f"The mean is {profile.mean[low]:.2f} in every layer"
        if flat
        else f"Lowest at {profile.names[low]} ({profile.mean[low]:.2f}), highest at {profile.names[high]} "
        f"({profile.mean[high]:.2f})",
        x=quantity,
        y="",
        height=max(320, 170 + 26 * len(profile.names)),
    )
    names = _layer_names(profile)
    fig.add_trace(
        go.Scatter(
            x=profile.mean, y=np.arange(len(names)), text=names, mode="lines+markers",
            name="mean, bar = 1 std over samples",
            line={"color": theme.muted, "width": 1.5}, marker={"color": theme.text, "size": 10},
            error_x={"array": profile.std, "color": theme.muted, "thickness": 3, "width": 0},
            customdata=np.column_stack([profile.std, profile.mean_correct]),
            hovertemplate=(
                "%{text}<br>mean %{x:.3f}, std %{customdata[0]:.3f}<br>correct predictions %{customdata[1]:.3f}"
                "<extra></extra>"
            ),
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=profile.mean_wrong, y=np.arange(len(names)), text=names, mode="markers", name="mean of wrong predictions",
            marker={"color": theme.text, "size": 12, "symbol": "diamond-open", "line": {"width": 2}},
            hovertemplate="%{text}<br>wrong predictions %{x:.3f}<extra></extra>",
        )
    )  # fmt: skip
    list_axis(fig, names, _layer_title(profile))
    return fig


def outcomes(found: OutcomeComparison, label: str, theme: Theme) -> go.Figure:
    """The feature's distribution over correct (filled) and wrong (line) predictions, each adding up to one."""
    if found.mean_wrong is None or found.mean_correct is None or found.separation is None:
        title = "Only one kind of prediction is here: nothing to compare"
    elif found.p_value is not None and found.p_value > 0.05:
        title = f"Correct and wrong predictions do not differ clearly ({format_p(found.p_value)})"
    else:
        way = "higher" if found.separation > 0.5 else "lower"
        title = f"A wrong prediction has the {way} value in {max(found.separation, 1 - found.separation):.0%} of pairs"
    fig = figure(theme, title=title, x=label, y="share of the group per bar", height=400)
    middle = (found.edges[:-1] + found.edges[1:]) / 2
    if found.n_correct:
        fig.add_trace(
            go.Bar(
                x=middle, y=found.share_correct, width=np.diff(found.edges), name=f"correct ({found.n_correct:,})",
                marker={"color": theme.grid, "line": {"color": theme.muted, "width": 0.5}},
                hovertemplate="%{x:.4f}: %{y:.1%} of the correct<extra></extra>",
            )
        )  # fmt: skip
    if found.n_wrong:
        fig.add_trace(
            go.Scatter(
                x=middle, y=found.share_wrong, mode="lines", name=f"wrong ({found.n_wrong:,})",
                line={"color": theme.text, "width": 2.5, "shape": "hvh"},
                hovertemplate="%{x:.4f}: %{y:.1%} of the wrong<extra></extra>",
            )
        )  # fmt: skip
    fig.update_layout(bargap=0)
    fig.update_yaxes(tickformat=".0%", rangemode="tozero")
    return fig


def error_curve(curve: pd.DataFrame, correlation: RankCorrelation | None, label: str, theme: Theme) -> go.Figure:
    """Mean |c - t| by quantile group of the feature, beside what the confidences of the group would give."""
    title = "The feature or the error does not vary: no rank correlation"
    if correlation is not None:
        interval = "" if correlation.low is None else f" [{correlation.low:.2f}, {correlation.high:.2f}]"
        title = f"Rank correlation with the error: {correlation.value:.2f}{interval}"
    fig = figure(theme, title=title, x=label, y="mean error |c − t|", height=400)
    fig.add_trace(
        go.Scatter(
            x=curve["rho"], y=curve["expected"], mode="lines", name="expected from confidence",
            line={"color": theme.muted, "dash": "dash", "width": 2},
            hovertemplate="%{x:.4f}: %{y:.3f} expected from confidence<extra></extra>",
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=curve["rho"], y=curve["error"], mode="markers", name="observed, 95 % interval",
            marker={"color": theme.text, "size": 9},
            error_y={
                "array": curve["error_high"] - curve["error"], "arrayminus": curve["error"] - curve["error_low"],
                "color": theme.text, "thickness": 1.3, "width": 4,
            },
            customdata=curve["count"],
            hovertemplate="%{x:.4f}: error %{y:.3f}, %{customdata:,} samples<extra></extra>",
        )
    )  # fmt: skip
    fig.update_yaxes(rangemode="tozero")
    return fig


def training_map(found: TrainingEntropy, names: dict[int, str], theme: Theme) -> go.Figure:
    """Mean routing entropy by layer and sampled epoch, first layer at the top."""
    labels = [names.get(int(layer), f"layer {layer}") for layer in found.layers]
    first, last = found.epochs[0], found.epochs[-1]
    most = int(np.nanargmax(np.abs(found.change))) if np.isfinite(found.change).any() else 0
    fig = figure(
        theme,
        title=f"From epoch {first} to {last} {labels[most]} changes most, from {found.mean[most, 0]:.2f} "
        f"to {found.mean[most, -1]:.2f}",
        x="epoch",
        y="",
        height=max(300, 160 + 26 * len(labels)),
    )
    fig.add_trace(
        go.Heatmap(
            x=[str(epoch) for epoch in found.epochs], y=np.arange(len(labels)), z=found.mean, colorscale="Cividis",
            xgap=1, ygap=1, text=[[label] * len(found.epochs) for label in labels],
            colorbar={
                "orientation": "h", "thickness": 14, "yref": "container", "y": 0, "yanchor": "bottom",
            },
            hovertemplate="epoch %{x}, %{text}: %{z:.3f}<extra></extra>",
        )
    )  # fmt: skip
    fig.update_xaxes(type="category", showgrid=False)
    list_axis(fig, labels, "layer")
    fig.update_yaxes(showgrid=False)
    fig.update_layout(margin={"b": 110})
    return fig


def ensemble(last: DepthProfile, both: DepthProfile, theme: Theme) -> go.Figure:
    """Mean by layer of the last epoch (filled) and of the ensemble over the last sampled epochs (hollow)."""
    difference: FloatArray = both.mean - last.mean
    most = int(np.abs(difference).argmax())
    fig = figure(
        theme,
        title=f"The two differ most at {last.names[most]}, by {difference[most]:+.3f}",
        x=ENTROPY,
        y="",
        height=max(320, 170 + 26 * len(last.names)),
    )
    names = _layer_names(last)
    for profile, name, symbol, shift in (
        (last, "last epoch", "circle", -0.14),
        (both, "ensemble", "diamond-open", 0.14),
    ):
        fig.add_trace(
            go.Scatter(
                x=profile.mean, y=np.arange(len(names)) + shift, text=names, mode="markers", name=name,
                marker={"color": theme.text, "size": 11, "symbol": symbol, "line": {"width": 2}},
                error_x={"array": profile.std, "color": theme.muted, "thickness": 1.5, "width": 4},
                customdata=profile.std,
                hovertemplate=f"%{{text}}, {name}: %{{x:.3f}} ± %{{customdata:.3f}}<extra></extra>",
            )
        )  # fmt: skip
    list_axis(fig, names, _layer_title(last))
    return fig
