"""Figures of the overview: the inventory of runs and the count of rejections."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from app.plots.rows import lines_of, mark_of, name_at_left, row_figure
from app.plots.theme import Theme, empty_figure, reference, translucent
from engine.core.labels import TESTS
from engine.sweep import P_COLUMNS
from engine.verdict.cache import CacheVerdict

MEASURES = {"p": "p-values", "accuracy": "accuracy", "raw_ece": "raw ECE"}
_FAINTEST, _STRONGEST = 0.06, 0.38
_MOST_TEXTS = 12  # more tiles than this in a row are too narrow for numbers, which are then in the tooltip only
_FEWEST = 3  # a single seed does not get a tile as wide as the figure
_NAMES = 128  # pixels for the names of variants
_CORRECTIONS = {
    "nominal": "without correction, p ≤ {alpha:g}",
    "benjamini_hochberg": "after Benjamini-Hochberg",
    "holm": "after Holm",
}


def slots(rows: pd.DataFrame) -> list[str]:
    """The columns of the inventory: seeds in order, then imported runs."""
    order = rows[["seed", "slot"]].sort_values(["seed", "slot"], kind="stable")
    return order["slot"].drop_duplicates().tolist()


Row = Mapping[str, Any]
Style = Callable[[Row], tuple[str, str, str]]
"""The fill of a run's tile, the colour of its text and the text."""


def _tiles(rows: pd.DataFrame, theme: Theme, title: str, style: Style, lane: int) -> go.Figure:
    """A tile per run: seeds side by side, variants one below the other, backbones as headings."""
    columns = slots(rows)
    variants = rows.groupby("backbone_name", sort=False)["variant_name"].unique()
    drawn = row_figure(
        theme, title=title, x="", cells=[f"<b>{name}</b>" for name in variants.index],
        n_lanes=[len(names) for names in variants], lane=lane, below=8, heads=columns, width=36, left=_NAMES,
    )  # fmt: skip
    fig, half = drawn.figure, drawn.lane / 2
    heights = {
        (backbone, name): height
        for (backbone, names), lanes in zip(variants.items(), drawn.lanes, strict=True)
        for name, height in zip(names, lanes, strict=True)
    }
    names = [
        name_at_left(theme, lines_of(name, 17), fig.layout.margin.l) | {"y": height, "yanchor": "middle"}
        for (_, name), height in heights.items()
    ]
    # One shape for all tiles of a kind: Plotly takes half a millisecond for each shape, on every redraw.
    outlines: dict[tuple[str, str], list[str]] = {}
    texts, hovers, places = [], [], {slot: column for column, slot in enumerate(columns)}
    for row in rows.to_dict("records"):
        column, y = places[row["slot"]], heights[row["backbone_name"], row["variant_name"]]
        fill, ink, text = style(row)
        left, right, top, bottom = column - 0.48, column + 0.48, y - half + 1, y + half - 1
        tile = f"M{left},{top}H{right}V{bottom}H{left}Z"
        outlines.setdefault((fill, "dot" if text == "–" else "solid"), []).append(tile)
        texts.append((column, y, text if len(columns) <= _MOST_TEXTS else "", ink))
        hovers.append(_hover(row))
    tiles = [
        {
            "type": "path", "path": "".join(paths), "fillcolor": fill, "layer": "below",
            "line": {"color": theme.muted, "width": 1, "dash": dash},
        }
        for (fill, dash), paths in outlines.items()
    ]  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=[text[0] for text in texts], y=[text[1] for text in texts], text=[text[2] for text in texts],
            mode="text", textfont={"color": [text[3] for text in texts], "size": theme.font_size}, showlegend=False,
            hovertext=hovers, hovertemplate="%{hovertext}<extra></extra>",
        )
    )  # fmt: skip
    # Set, not updated: an update goes through what is there already, item by item.
    fig.layout.shapes = tiles
    fig.layout.annotations = [*fig.layout.annotations, *names]
    fig.update_layout(
        margin_r=2, xaxis={"visible": False, "range": [-0.5, max(len(columns), _FEWEST) - 0.5], "fixedrange": True}
    )
    return fig


def _hover(row: Row) -> str:
    tested = [
        f"{name}: p = {row[P_COLUMNS[test]]:.3g}" for test, name in TESTS.items() if pd.notna(row[P_COLUMNS[test]])
    ]
    return (
        f"{row['run']}<br>{row['n_samples']:,} samples, accuracy {row['accuracy']:.4f}, raw ECE {row['raw_ece']:.4f}"
        f"<br>{'<br>'.join(tested) or 'not testable'}"
    )


def inventory(rows: pd.DataFrame, measure: str, verdict: CacheVerdict, theme: Theme) -> dict[str, go.Figure]:
    """A figure per data set, by its name: one of `MEASURES` of every run."""
    style = _p_style(verdict, theme) if measure == "p" else _value_style(rows, measure, theme)
    finding = _p_finding(verdict) if measure == "p" else _value_finding(measure)
    return {
        str(name): _tiles(part, theme, f"{name}: {finding(part)}", style, lane=42 if measure == "p" else 28)
        for name, part in rows.groupby("dataset_name", sort=False)
    }


def _value_finding(measure: str) -> Callable[[pd.DataFrame], str]:
    def finding(part: pd.DataFrame) -> str:
        low, high = part[measure].min(), part[measure].max()
        return f"{MEASURES[measure]} {low:.3f}" + ("" if low == high else f" to {high:.3f}")

    return finding


def _value_style(rows: pd.DataFrame, measure: str, theme: Theme) -> Style:
    """Darker for larger values, on one scale for all data sets, in steps too small to see."""
    values = rows[measure].astype(float)
    low, high = values.min(), values.max()
    strength = (values - low) / (high - low) if high > low else values * 0
    shade = dict(zip(rows["run_id"], _FAINTEST + (_STRONGEST - _FAINTEST) * strength, strict=True))

    def style(row: Row) -> tuple[str, str, str]:
        return translucent(theme.text, round(shade[row["run_id"]], 2)), theme.text, f"{row[measure]:.3f}"

    return style


def _short_p(p: float) -> str:
    if pd.isna(p):
        return "–"
    return "&lt;.001" if p < 0.001 else f"{p:.3f}".removeprefix("0") if p < 0.1 else f"{p:.2f}".removeprefix("0")


def _p_finding(verdict: CacheVerdict) -> Callable[[pd.DataFrame], str]:
    def finding(part: pd.DataFrame) -> str:
        n, rejected = part["p_value"].notna().sum(), (part["p_value"] <= verdict.alpha).sum()
        corrected = (part["p_value_holm"] <= verdict.alpha).sum()
        return f"{rejected} of {n} reject, {corrected} after Holm" if n else "nothing to test"

    return finding


def _p_style(verdict: CacheVerdict, theme: Theme) -> Style:
    """A solid tile is rejected after Holm, a grey one only before."""
    alpha = verdict.alpha

    def style(row: Row) -> tuple[str, str, str]:
        if pd.isna(row["p_value"]) and pd.isna(row["paper_p"]):
            return "rgba(0,0,0,0)", theme.muted, "–"
        text = f"● {_short_p(row['p_value'])}<br>○ {_short_p(row['paper_p'])}"
        if row["p_value_holm"] <= alpha:
            return theme.text, theme.paper, text
        return translucent(theme.text, _STRONGEST if row["verdict_rejects"] else _FAINTEST), theme.text, text

    return style


def rejections(verdict: CacheVerdict, theme: Theme) -> go.Figure:
    """Runs rejected without and with correction, over the range that chance gives without."""
    counts = verdict.counts
    if not verdict.n_tested:
        return empty_figure(theme, "No run can be tested with this feature.")
    tests = [test for test in ("verdict", "paper") if counts.loc[test, "n_tested"]]
    lead = counts.loc["verdict"]
    drawn = row_figure(
        theme,
        title=f"{int(lead['nominal'])} of {int(lead['n_tested'])} runs reject; chance gives "
        f"{lead['expected_by_chance']:.1f} ({int(lead['chance_low'])} to {int(lead['chance_high'])})",
        x="runs rejected",
        cells=[label.format(alpha=verdict.alpha) for label in _CORRECTIONS.values()],
        n_lanes=[len(tests)] * len(_CORRECTIONS),
        lane=24,
        below=128,
    )
    fig, half = drawn.figure, drawn.lane / 2
    for lane, test in enumerate(tests):
        low, high = counts.loc[test, ["chance_low", "chance_high"]]
        y, expected = drawn.lanes[0][lane], counts.loc[test, "expected_by_chance"]
        fig.add_trace(
            go.Scatter(
                x=[low, high, high, low, low], y=[y - half, y - half, y + half, y + half, y - half], fill="toself",
                fillcolor=theme.band, mode="lines", line={"width": 0}, hoverinfo="skip", showlegend=lane == 0,
                name="95 % of what chance gives",
            )
        )  # fmt: skip
        reference(fig, theme, x0=expected, x1=expected, y0=y - half, y1=y + half)
    for lane, test in enumerate(tests):
        values = [int(counts.loc[test, name]) for name in _CORRECTIONS]
        fig.add_trace(
            go.Scatter(
                x=values, y=[lanes[lane] for lanes in drawn.lanes], mode="markers+text", name=TESTS[test],
                text=[f" {value}" for value in values], textposition="middle right", cliponaxis=False,
                marker=mark_of(test, theme),
                hovertemplate=f"{TESTS[test]}: %{{x}} runs<extra></extra>",
            )
        )  # fmt: skip
    top = max(int(counts[[*_CORRECTIONS, "chance_high"]].to_numpy().max()), 1)
    fig.update_xaxes(range=[-0.04 * top, top * 1.12], tickformat="d", dtick=max(1, -(-top // 8)))
    return fig
