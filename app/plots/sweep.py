"""Figures of the sweep: effects of runs and pooled ones, the paper's gaps, sorted p-values against chance."""

import pandas as pd
import plotly.graph_objects as go

from app.plots.rows import RowFigure, mark_of, row_figure
from app.plots.theme import OTHER_METHOD, Theme, empty_figure, figure, reference
from engine.core.labels import TESTS, counted
from engine.gaps.pooled import PooledEffect

GAPS = {"max_gap": "largest gap", "weighted_gap": "weighted gap"}
_LANE, _BELOW = 20, 118
_RUN_LANE = 15
WHOLE = "Whole cache, all data sets"
# Hollow marks of the paper's gaps are filled with the page's colour, so that the interval does not show through.
_OVER_LINE = {"symbol": "circle", "size": 10}


def _diamonds(pooled: pd.DataFrame, heights: list[float], lane: float) -> dict[str, list[float | None]]:
    """Pooled effects as one trace: as wide as their intervals."""
    x, y, half = [], [], 0.42 * lane
    for row, height in zip(pooled.to_dict("records"), heights, strict=True):
        x += [row["effect_low"], row["effect"], row["effect_high"], row["effect"], row["effect_low"], None]
        y += [height, height - half, height, height + half, height, None]
    return {"x": x, "y": y}


def effect_reach(rows: pd.DataFrame) -> float:
    """How far from zero the intervals of these runs go."""
    return float(rows[["effect_low", "effect_high"]].abs().max().max())


def effects(rows: pd.DataFrame, cells: pd.DataFrame, whole: PooledEffect, reach: float, theme: Theme) -> go.Figure:
    """The primary effect of every run of a data set, pooled in each cell, under that of the whole cache."""
    kept = rows[rows["primary_effect"].notna()]
    shown = cells[cells["cell"].isin(kept["cell"])].set_index("cell", drop=False).loc[kept["cell"].unique()]
    beyond = int(((shown["effect_low"] > 0) | (shown["effect_high"] < 0)).sum())
    seeds = kept.groupby("cell", sort=False)
    drawn = row_figure(
        theme,
        title=f"{kept['dataset_name'].iloc[0]}: {beyond} of {counted(len(shown), 'interval')} exclude zero"
        + (f", {shown['found'].sum()} after Holm" if beyond else ""),
        x="change of accuracy, low to high third",
        cells=[WHOLE, *(seeds["backbone_name"].first() + " · " + seeds["variant_name"].first())],
        n_lanes=[1, *(seeds.size() + (seeds.size() > 1))],
        lane=_RUN_LANE,
        below=_BELOW,
    )
    fig = drawn.figure
    kept = pd.concat([part for _, part in seeds])  # a cell after the other, as the lanes are
    sizes = zip(drawn.lanes[1:], seeds.size(), strict=True)
    heights = pd.Series([y for lanes, n in sizes for y in lanes[:n]], kept.index)
    fig.add_trace(
        go.Scatter(
            **_segments(kept["effect_low"], kept["effect_high"], heights), mode="lines", hoverinfo="skip",
            line={"color": theme.muted, "width": 2}, name="95 % interval",
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=kept["primary_effect"], y=heights, mode="markers", name="effect, a seed each",
            marker=mark_of("primary", theme, size=7),
            customdata=kept[["run", "effect_low", "effect_high", "primary_p", "p_value"]],
            hovertemplate=(
                "%{customdata[0]}<br>%{x:+.4f} [%{customdata[1]:+.4f}, %{customdata[2]:+.4f}], "
                "trend p = %{customdata[3]:.3g}, with shape p = %{customdata[4]:.3g}<extra></extra>"
            ),
        )
    )  # fmt: skip
    bound = whole.bound
    cache = pd.DataFrame([{"effect": bound.effect, "effect_low": bound.low, "effect_high": bound.high}])
    for pooled, places, colour, name in (
        (
            shown[shown["n"] > 1],
            [lanes[-1] for lanes in drawn.lanes[1:] if len(lanes) > 1],
            OTHER_METHOD,
            "pooled over seeds",
        ),
        (cache, drawn.lanes[0], theme.text, "whole cache"),
    ):
        fig.add_trace(
            go.Scatter(
                **_diamonds(pooled, places, drawn.lane), mode="lines", fill="toself", fillcolor=colour, name=name,
                line={"color": theme.text, "width": 1}, hoverinfo="skip",
            )
        )  # fmt: skip
        fig.add_trace(
            go.Scatter(
                x=pooled["effect"], y=places, mode="markers", marker={"opacity": 0, "size": 14}, showlegend=False,
                customdata=pooled[["effect_low", "effect_high"]], name=f"{name}, value",
                hovertemplate=f"{name}: %{{x:+.4f}} [%{{customdata[0]:+.4f}}, %{{customdata[1]:+.4f}}]<extra></extra>",
            )
        )  # fmt: skip
    for lanes in drawn.lanes:  # beside the points, not through the names
        reference(fig, theme, x0=0, x1=0, y0=lanes[0] - drawn.lane / 2, y1=lanes[-1] + drawn.lane / 2)
    fig.update_xaxes(range=[-1.06 * reach, 1.06 * reach], nticks=6, tickformat="+.2f")
    return fig


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
        title = f"{_runs_beyond(beyond, len(kept))} {name} exceeds the 97.5th percentile of its null (about "
        title += f"{0.025 * len(kept):.1f} by chance)"
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
    """Sorted p-values of each test by rank, over the band that holds all of them at once by chance."""
    if p_values.empty:
        return empty_figure(theme, "No run can be tested with this feature.")
    tests = {test: (TESTS[test], part) for test, part in p_values.groupby("test", sort=False)}
    below = [f"{(part['p'] < part['low']).sum()} of {len(part)} ({name})" for name, part in tests.values()]
    fig = figure(
        theme,
        title=f"p-values below what chance gives: {', '.join(below)}",
        x="rank of p / (number of runs + 1)",
        y="sorted p-value",
        height=440,
    )
    _, widest = max(tests.values(), key=lambda test: len(test[1]))
    fig.add_trace(
        go.Scatter(
            x=[*widest["expected"], *widest["expected"][::-1]], y=[*widest["high"], *widest["low"][::-1]],
            fill="toself", fillcolor=theme.band, mode="lines", line={"width": 0}, hoverinfo="skip",
            name="95 % of what chance gives, all ranks at once",
        )
    )  # fmt: skip
    reference(fig, theme, x0=0, y0=0, x1=1, y1=1)
    for test, (name, part) in tests.items():
        fig.add_trace(
            go.Scatter(
                x=part["expected"], y=part["p"], mode="markers", name=name,
                marker=mark_of(test, theme),
                customdata=part[["run", "low", "high"]],
                hovertemplate=(
                    "%{customdata[0]}<br>p = %{y:.3g}, by chance "
                    f"%{{customdata[1]:.3f}} to %{{customdata[2]:.3f}}<extra>{name}</extra>"
                ),
            )
        )  # fmt: skip
    fig.update_xaxes(range=[0, 1])
    fig.update_yaxes(range=[-0.03, 1.03])
    return fig
