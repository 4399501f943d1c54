"""Figures of the sweep: gaps over cells and seeds, p-values against uniform ones, stability over seeds."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.plots.rows import RowFigure, mark_of, row_figure
from app.plots.theme import Theme, empty_figure, figure, reference
from engine.core.labels import HEADLINES

GAPS = {"max_gap": "largest gap", "weighted_gap": "weighted gap"}
_LANE, _BELOW = 20, 118
# Hollow marks of the paper's gaps are filled with the page's colour, so that the interval does not show through.
NO_SECOND = "No cell has a second seed"
_OVER_LINE = {"symbol": "circle", "size": 10}


def _cell_rows(rows: pd.DataFrame, theme: Theme, *, title: str, x: str) -> tuple[RowFigure, pd.Series]:
    """A lane per run, grouped by cell, and the height of each run."""
    groups = rows.groupby("cell", sort=False)
    cells = list(groups.groups)
    drawn = row_figure(theme, title=title, x=x, cells=cells, n_lanes=groups.size().tolist(), lane=_LANE, below=_BELOW)
    place = groups.cumcount()
    heights = [drawn.lanes[cells.index(cell)][lane] for cell, lane in zip(rows["cell"], place, strict=True)]
    return drawn, pd.Series(heights, index=rows.index)


def _segments(low: pd.Series, high: pd.Series, heights: pd.Series) -> dict[str, list[float | None]]:
    """Many horizontal lines as one trace."""
    x = [value for pair in zip(low, high, strict=True) for value in (*pair, None)]
    return {"x": x, "y": [value for height in heights for value in (height, height, None)]}


def _from_zero(fig: go.Figure, largest: float) -> None:
    """A horizontal axis from zero with room at both ends."""
    fig.update_xaxes(range=[-0.04 * largest, 1.04 * largest] if largest > 0 else [-0.01, 0.1], nticks=6)


def _runs_beyond(n: int, of: int) -> str:
    """`No run's`, `Every run's`, `3 of 30 runs: the`."""
    return "No run's" if n == 0 else "Every run's" if n == of else f"{n} of {of} runs: the"


def forest(rows: pd.DataFrame, measure: str, theme: Theme) -> go.Figure:
    """One gap of every run with its bootstrap interval, over what permuted routing gives where that is known."""
    name = GAPS[measure]
    kept = rows[rows[measure].notna()]
    if kept.empty:
        return empty_figure(theme, f"No run has a {name} with this feature.")
    if measure == "max_gap":
        beyond = int((kept[measure] > kept["null_high"]).sum())
        title = f"{_runs_beyond(beyond, len(kept))} {name} exceeds the 97.5th percentile of its null"
    else:
        title = f"The {name} runs from {kept[measure].min():.3f} to {kept[measure].max():.3f}"
    drawn, heights = _cell_rows(kept, theme, title=title, x=f"{name} in accuracy")
    fig = drawn.figure
    if measure == "max_gap":
        fig.add_trace(
            go.Scatter(
                **_segments(kept["null_high"] * 0, kept["null_high"], heights), mode="lines", hoverinfo="skip",
                line={"color": theme.band, "width": drawn.lane * 0.8}, name="97.5 % of permutations",
            )
        )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            **_segments(kept[f"{measure}_low"], kept[f"{measure}_high"], heights), mode="lines", hoverinfo="skip",
            line={"color": theme.muted, "width": 3}, name="95 % bootstrap interval",
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=kept[measure], y=heights, mode="markers", name=f"{name}, a seed each",
            marker=_OVER_LINE | {"color": theme.paper, "line": {"color": theme.text, "width": 2}},
            customdata=kept[["run", f"{measure}_low", f"{measure}_high", "paper_p"]],
            hovertemplate=(
                f"%{{customdata[0]}}<br>{name} %{{x:.4f}} [%{{customdata[1]:.4f}}, %{{customdata[2]:.4f}}]"
                "<br>p of the largest gap %{customdata[3]:.3g}<extra></extra>"
            ),
        )
    )  # fmt: skip
    marks = [measure, f"{measure}_high", *(["null_high"] if measure == "max_gap" else [])]
    _from_zero(fig, kept[marks].max().max())
    return fig


def p_value_plot(p_values: pd.DataFrame, theme: Theme) -> go.Figure:
    """Sorted p-values against those expected of uniform ones, over the band of order statistics."""
    if p_values.empty:
        return empty_figure(theme, "No run can be tested with this feature.")
    below = (p_values["p"] < p_values["low"]).groupby(p_values["test"]).agg(["sum", "size"])
    listed = [
        f"{below.loc[test, 'sum']} of {below.loc[test, 'size']} of {name}"
        for test, name in HEADLINES.items()
        if test in below.index
    ]
    fig = figure(
        theme,
        title=f"p-values below the band of chance: {', '.join(listed)}",
        x="p-value expected by chance alone",
        y="sorted p-value",
        height=440,
    )
    sizes_drawn: set[int] = set()
    for test in HEADLINES:
        part = p_values[p_values["test"] == test]
        if part.empty or len(part) in sizes_drawn:
            continue  # tests over the same number of runs share one band
        sizes_drawn.add(len(part))
        fig.add_trace(
            go.Scatter(
                x=[*part["expected"], *part["expected"][::-1]], y=[*part["high"], *part["low"][::-1]], fill="toself",
                fillcolor=theme.band, mode="lines", line={"width": 0}, hoverinfo="skip",
                name=f"95 % band of {len(part)} uniform p-values",
            )
        )  # fmt: skip
    reference(fig, theme, x0=0, y0=0, x1=1, y1=1)
    for test, name in HEADLINES.items():
        part = p_values[p_values["test"] == test]
        if part.empty:
            continue
        fig.add_trace(
            go.Scatter(
                x=part["expected"], y=part["p"], mode="markers", name=name,
                marker=mark_of(test, theme),
                customdata=part[["run", "low", "high"]],
                hovertemplate=(
                    "%{customdata[0]}<br>p = %{y:.3g}, expected %{x:.3f} "
                    f"[%{{customdata[1]:.3f}}, %{{customdata[2]:.3f}}]<extra>{name}</extra>"
                ),
            )
        )  # fmt: skip
    fig.update_xaxes(range=[0, 1])
    fig.update_yaxes(range=[-0.03, 1.03])
    return fig


def gap_spread(rows: pd.DataFrame, cells: pd.DataFrame, theme: Theme) -> go.Figure:
    """The largest gap of every seed on one line per cell, from the smallest to the largest of them."""
    kept = rows[rows["max_gap"].notna()]
    cells = cells[cells["max_gap_spread"].notna()]
    if kept.empty:
        return empty_figure(theme, "No run has a largest gap with this feature.")
    several = cells[cells["n"] > 1]
    title = f"Between seeds the largest gap moves by up to {several['max_gap_spread'].max():.2f}"
    # As many lanes as runs, so that the rows stand level with those of the effects beside them.
    drawn, lanes = _cell_rows(kept, theme, title=NO_SECOND if several.empty else title, x="largest gap in accuracy")
    fig, heights = drawn.figure, lanes.groupby(kept["cell"]).mean()
    fig.add_trace(
        go.Scatter(
            **_segments(cells["max_gap_min"], cells["max_gap_max"], cells["cell"].map(heights)), mode="lines",
            line={"color": theme.muted, "width": 3}, name="smallest to largest", hoverinfo="skip",
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=kept["max_gap"], y=kept["cell"].map(heights), mode="markers", name="largest gap, a seed each",
            marker=_OVER_LINE | {"color": theme.paper, "line": {"color": theme.text, "width": 2}},
            customdata=kept["run"], hovertemplate="%{customdata}<br>largest gap %{x:.4f}<extra></extra>",
        )
    )  # fmt: skip
    _from_zero(fig, kept["max_gap"].max())
    return fig


def effect_signs(rows: pd.DataFrame, cells: pd.DataFrame, theme: Theme) -> go.Figure:
    """The primary effect of every seed with its interval: on which side of zero?"""
    kept = rows[rows["primary_effect"].notna()]
    if kept.empty:
        return empty_figure(theme, "No run has a primary effect with this feature.")
    several = cells[cells["n"] > 1]
    title = f"The primary sign holds in {int(several['same_sign'].astype(bool).sum())} of {len(several)} cells"
    drawn, heights = _cell_rows(
        kept, theme, title=NO_SECOND if several.empty else title, x="change of accuracy, low to high third"
    )
    fig = drawn.figure
    fig.add_trace(
        go.Scatter(
            **_segments(kept["effect_low"], kept["effect_high"], heights), mode="lines", hoverinfo="skip",
            line={"color": theme.muted, "width": 3}, name="95 % interval",
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=kept["primary_effect"], y=heights, mode="markers", name="primary effect, a seed each",
            marker=mark_of("primary", theme, size=9),
            customdata=kept[["run", "primary_p", "effect_low", "effect_high"]],
            hovertemplate=(
                "%{customdata[0]}<br>%{x:+.4f} [%{customdata[2]:+.4f}, %{customdata[3]:+.4f}], "
                "p = %{customdata[1]:.3g}<extra></extra>"
            ),
        )
    )  # fmt: skip
    for lanes in drawn.lanes:  # beside the points, not through the names
        reference(fig, theme, x0=0, x1=0, y0=lanes[0] - drawn.lane / 2, y1=lanes[-1] + drawn.lane / 2)
    reach = kept[["primary_effect", "effect_low", "effect_high"]].abs().max().max()
    fig.update_xaxes(range=[-1.06 * reach, 1.06 * reach], nticks=6, tickformat="+.2f")
    return fig
