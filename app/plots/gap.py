"""Figures of the matched-confidence gap."""

import numpy as np
import plotly.graph_objects as go

from app.plots.theme import (
    TERTILE_COLOURS,
    TERTILE_DASHES,
    TERTILE_SYMBOLS,
    TEST_SYMBOLS,
    Theme,
    empty_figure,
    figure,
    reference,
    translucent,
)
from engine.core.labels import RUNGS, capital, format_p, signed
from engine.core.types import FloatArray, IntArray
from engine.gaps import DecileEffect, GapResult, PermutationResult


def _centres(n_bins: int) -> FloatArray:
    return (np.arange(n_bins) + 0.5) / n_bins


def tertile_curves(test: PermutationResult, theme: Theme, *, show_mid: bool = False) -> go.Figure:
    """Accuracy against confidence of each tertile, over the band in which permuted routing would put it."""
    gap = test.gap
    if gap.max_gap is None:
        return empty_figure(theme, gap.notes[-1])
    bins = gap.bins
    largest = bins.loc[bins["gap"].where(bins["shared"]).abs().idxmax()]
    fig = figure(
        theme,
        title=f"The largest gap is {gap.max_gap:.2f}, in bin {largest['bin']:.0f} of {gap.n_bins}",
        x="confidence",
        y="accuracy",
        height=480,
    )
    centres = _centres(gap.n_bins)
    shared = centres[gap.shared]
    lower = np.minimum(test.band.accuracy_low[:, 0], test.band.accuracy_high[:, 0])
    upper = np.maximum(test.band.accuracy_low[:, 2], test.band.accuracy_high[:, 2])
    # Lists, not arrays: this figure sits behind a slider, and Plotly is slow to tell what kind of array it was given.
    traces = [
        go.Scatter(
            x=[*shared, *shared[::-1]], y=[*upper, *lower[::-1]], fill="toself",
            fillcolor=theme.band, mode="lines", line={"width": 0}, hoverinfo="skip", name="95 % of permutations",
        )
    ]  # fmt: skip
    for name in ("low", "mid", "high") if show_mid else ("low", "high"):
        count = bins[f"n_{name}"].to_numpy()
        filled = count > 0
        counted = bins["shared"].to_numpy()[filled]
        traces.append(
            go.Scatter(
                x=centres[filled].tolist(), y=bins[f"accuracy_{name}"].to_numpy()[filled].tolist(),
                mode="lines+markers", name=f"{name} tertile",
                line={"color": TERTILE_COLOURS[name], "dash": TERTILE_DASHES[name], "width": 2.5},
                marker={
                    "symbol": TERTILE_SYMBOLS[name],
                    "size": np.where(counted, 10, 6).tolist(),
                    "opacity": np.where(counted, 1.0, 0.45).tolist(),
                },
                customdata=count[filled].tolist(),
                hovertemplate=f"{name} tertile<br>accuracy %{{y:.3f}}<br>%{{customdata}} samples<extra></extra>",
            )
        )  # fmt: skip
    fig.add_traces(traces)
    reference(fig, theme, x0=0, y0=0, x1=1, y1=1)
    fig.layout.xaxis.range, fig.layout.yaxis.range = [0, 1.02], [0, 1.04]
    return fig


def effect_by_decile(effect: DecileEffect, feature: str, alpha: float, theme: Theme) -> go.Figure:
    """Accuracy minus what the rung's conditioning set predicts, by decile, over the band of permuted routing."""
    given = RUNGS[effect.rung]
    test = effect.test
    if test.effect is None or test.standard_error is None or test.p_value is None:
        return empty_figure(theme, f"{capital(given)} leaves nothing of the feature or of correctness to test.")
    n_groups = len(effect.values)
    filled = np.flatnonzero(effect.counts)
    outside = f"{effect.n_outside or 'none'} of {n_groups} deciles outside the band"
    size = f"{signed(test.effect)} ± {test.standard_error:.3f}"
    trend = f"{size} from the low to the high third ({format_p(test.p_value)}), {outside}"
    found = f"accuracy {'rises' if test.effect > 0 else 'falls'}" if test.p_value <= alpha else "no clear trend"
    within = "among samples with similar confidence" if effect.rung == 0 else f"given {given}"
    fig = figure(
        theme, title=f"Given {given}, {found}: {trend}", x=f"decile of {feature}<br>{within}",
        y=f"accuracy minus prediction<br>from {given}", height=420,
    )  # fmt: skip
    decile, low, high = filled + 1, effect.low[filled], effect.high[filled]
    band = f"{100 * effect.level:.0f} % of permutations (all deciles jointly)"
    fig.add_traces([
        go.Scatter(
            x=[*decile, *decile[::-1]], y=[*high, *low[::-1]], fill="toself", fillcolor=theme.band, mode="lines",
            line={"width": 0}, hoverinfo="skip", name=band,
        ),
        go.Scatter(
            x=decile, y=effect.fitted[filled], mode="lines", line={"color": theme.muted, "width": 2}, hoverinfo="skip",
            name="fitted trend",
        ),
        go.Scatter(
            x=decile, y=effect.values[filled], mode="markers", customdata=effect.counts[filled], name="observed",
            marker={"color": theme.text, "size": 11, "symbol": TEST_SYMBOLS["primary"]},
            hovertemplate="decile %{x}: %{y:+.4f}<br>%{customdata:,} samples<extra></extra>",
        ),
    ])  # fmt: skip
    reference(fig, theme, x0=0.5, x1=n_groups + 0.5, y0=0, y1=0)
    fig.update_xaxes(range=[0.5, n_groups + 0.5], dtick=1)
    fig.update_yaxes(tickformat="+.3~f")
    return fig


def support_bars(gap: GapResult, theme: Theme) -> go.Figure:
    """Samples of the outer tertiles in each bin; bins below the minimum support are pale."""
    bins = gap.bins
    fig = figure(
        theme,
        title=f"{gap.n_shared} of {gap.n_bins} bins hold at least {gap.min_support} samples of both",
        x="confidence",
        y="samples in the bin",
        height=340,
    )
    for name in ("low", "high"):
        pattern = {"shape": "/" if name == "high" else "", "fgcolor": theme.paper, "size": 6}
        solid = {"color": TERTILE_COLOURS[name], "pattern": pattern | {"bgcolor": TERTILE_COLOURS[name]}}
        colours = [translucent(TERTILE_COLOURS[name], 1.0 if s else 0.3) for s in bins["shared"]]
        # The legend takes the look of the first bar, which may be pale: an empty bar stands in for it.
        fig.add_trace(go.Bar(x=[None], y=[None], name=f"{name} tertile", legendgroup=name, marker=solid))
        fig.add_trace(
            go.Bar(
                x=_centres(gap.n_bins), y=bins[f"n_{name}"], name=f"{name} tertile", legendgroup=name, showlegend=False,
                offsetgroup=name, marker={"color": colours, "pattern": pattern},
                hovertemplate=f"{name} tertile: %{{y}} samples<extra></extra>",
            )
        )  # fmt: skip
    fig.update_yaxes(type="log", dtick=1)
    fig.update_xaxes(range=[0, 1.02])
    return fig


def feature_histogram(
    counts: IntArray, edges: FloatArray, cuts: tuple[float, float], label: str, theme: Theme
) -> go.Figure:
    """Distribution of the feature with the two cuts."""
    fig = figure(theme, title="Where the feature is cut", x=label, y="samples", height=340)
    middle = (edges[:-1] + edges[1:]) / 2
    # A value at a cut belongs below it, and values that pile up, at zero say, lie at the left edge of their bar.
    names = np.select([edges[:-1] <= cuts[0], edges[:-1] <= cuts[1]], ["low", "mid"], "high")
    fig.add_trace(
        go.Bar(
            x=middle, y=counts, width=np.diff(edges), marker={"color": [TERTILE_COLOURS[name] for name in names]},
            customdata=names, hovertemplate="%{x:.4f}: %{y} samples (%{customdata})<extra></extra>",
        )
    )  # fmt: skip
    for cut in cuts:
        fig.add_vline(x=cut, line={"color": theme.text, "width": 1.5, "dash": "dot"})
    fig.update_layout(bargap=0)
    return fig
