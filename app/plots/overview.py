"""Figures of the overview: the inventory of runs and the count of rejections."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd
import plotly.graph_objects as go

from app.plots.rows import TEST_LABELS, mark_of, row_figure
from app.plots.theme import Theme, empty_figure, reference, translucent
from engine.verdict_sweep import CacheVerdict

MEASURES = {"accuracy": "Accuracy", "raw_ece": "Raw ECE"}
_FAINTEST, _STRONGEST = 0.06, 0.38
_CORRECTIONS = {
    "nominal": "without correction, p ≤ {alpha:g}",
    "benjamini_hochberg": "after Benjamini-Hochberg",
    "holm": "after Holm",
}


def slots(rows: pd.DataFrame) -> list[str]:
    """The columns of the inventory: seeds in order, then imported runs."""
    order = rows[["seed", "slot"]].sort_values(["seed", "slot"], kind="stable")
    return order["slot"].drop_duplicates().tolist()


def _tiles(
    rows: pd.DataFrame, theme: Theme, title: str, style: Callable[[pd.Series], tuple[str, str, str]], hover: list[str]
) -> go.Figure:
    """A tile per run; `style` gives its fill, the colour of its text and the text."""
    columns = slots(rows)
    cells = rows["cell"].drop_duplicates().tolist()
    drawn = row_figure(
        theme, title=title, x="", cells=cells, n_lanes=[1] * len(cells), lane=44, below=8, heads=columns, width=36
    )
    fig, half = drawn.figure, drawn.lane / 2
    tiles, texts = [], []
    for _, row in rows.iterrows():
        column, y = columns.index(row["slot"]), drawn.lanes[cells.index(row["cell"])][0]
        fill, ink, text = style(row)
        tiles.append({
            "type": "rect", "x0": column - 0.48, "x1": column + 0.48, "y0": y - half, "y1": y + half, "fillcolor": fill,
            "layer": "below", "line": {"color": theme.muted, "width": 1, "dash": "dot" if text == "–" else "solid"},
        })  # fmt: skip
        texts.append((column, y, text, ink))
    fig.add_trace(
        go.Scatter(
            x=[text[0] for text in texts], y=[text[1] for text in texts], text=[text[2] for text in texts],
            mode="text", textfont={"color": [text[3] for text in texts], "size": theme.font_size}, showlegend=False,
            hovertext=hover, hovertemplate="%{hovertext}<extra></extra>",
        )
    )  # fmt: skip
    fig.update_layout(
        shapes=tiles, margin_r=2, xaxis={"visible": False, "range": [-0.5, len(columns) - 0.5], "fixedrange": True}
    )
    return fig


def _hover(row: pd.Series) -> str:
    tested = "not testable" if pd.isna(row["audited_p"]) and pd.isna(row["paper_p"]) else _p_hover(row)
    return (
        f"{row['run']}<br>{row['n_samples']:,} samples, accuracy {row['accuracy']:.4f}, raw ECE {row['raw_ece']:.4f}"
        f"<br>{tested}"
    )


def _p_hover(row: pd.Series) -> str:
    return "<br>".join(
        f"{name}: p = {row[f'{test}_p']:.3g} (Holm {row[f'{test}_p_holm']:.3g})"
        for test, name in TEST_LABELS.items()
        if pd.notna(row[f"{test}_p"])
    )


def measure_grid(rows: pd.DataFrame, measure: str, theme: Theme) -> go.Figure:
    """Accuracy or raw ECE of every run, darker for larger values."""
    values = rows[measure].astype(float)
    low, high = values.min(), values.max()
    strength = (values - low) / (high - low) if high > low else values * 0
    shade = dict(zip(rows["run_id"], _FAINTEST + (_STRONGEST - _FAINTEST) * strength, strict=True))

    def style(row: pd.Series) -> tuple[str, str, str]:
        return translucent(theme.text, round(shade[row["run_id"]], 3)), theme.text, f"{row[measure]:.3f}"

    title = f"{MEASURES[measure]} runs from {low:.3f} to {high:.3f}"
    return _tiles(rows, theme, title, style, [_hover(row) for _, row in rows.iterrows()])


def _short_p(p: float) -> str:
    if pd.isna(p):
        return "–"
    return "&lt;.001" if p < 0.001 else f"{p:.3f}".removeprefix("0") if p < 0.1 else f"{p:.2f}".removeprefix("0")


def p_grid(rows: pd.DataFrame, verdict: CacheVerdict, theme: Theme) -> go.Figure:
    """Both p-values of every run: a solid tile is rejected after Holm by either test, a grey one only before."""
    alpha = verdict.alpha
    corrected = (rows[["paper_p_holm", "audited_p_holm"]] <= alpha).any(axis=1)

    def style(row: pd.Series) -> tuple[str, str, str]:
        if pd.isna(row["audited_p"]) and pd.isna(row["paper_p"]):
            return "rgba(0,0,0,0)", theme.muted, "–"
        text = f"● {_short_p(row['audited_p'])}<br>○ {_short_p(row['paper_p'])}"
        if min(row["audited_p_holm"], row["paper_p_holm"]) <= alpha:
            return theme.text, theme.paper, text
        strength = _STRONGEST if row["audited_rejects"] or row["paper_rejects"] else _FAINTEST
        return translucent(theme.text, strength), theme.text, text

    title = f"p-values: {int(corrected.sum())} of {verdict.n_tested} rejected after Holm"
    return _tiles(rows, theme, title, style, [_hover(row) for _, row in rows.iterrows()])


def rejections(verdict: CacheVerdict, chance: Mapping[str, tuple[int, int]], theme: Theme) -> go.Figure:
    """Runs rejected by each test without and with correction; `chance` is the range that chance gives without."""
    counts = verdict.counts
    if not verdict.n_tested:
        return empty_figure(theme, "No run can be tested with this feature.")
    tests = [test for test in ("audited", "paper") if counts.loc[test, "n_tested"]]
    lead = counts.loc[tests[0]]
    drawn = row_figure(
        theme,
        title=f"{TEST_LABELS[tests[0]].capitalize()} rejects {int(lead['nominal'])} of {int(lead['n_tested'])}; "
        f"chance gives {lead['expected_by_chance']:.1f}",
        x="runs rejected",
        cells=[label.format(alpha=verdict.alpha) for label in _CORRECTIONS.values()],
        n_lanes=[len(tests)] * len(_CORRECTIONS),
        lane=24,
        below=128,
    )
    fig, half = drawn.figure, drawn.lane / 2
    for lane, test in enumerate(tests):
        low, high = chance[test]
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
                x=values, y=[lanes[lane] for lanes in drawn.lanes], mode="markers+text", name=TEST_LABELS[test],
                text=[f" {value}" for value in values], textposition="middle right", cliponaxis=False,
                marker=mark_of(test, theme),
                hovertemplate=f"{TEST_LABELS[test]}: %{{x}} runs<extra></extra>",
            )
        )  # fmt: skip
    top = max(int(counts[list(_CORRECTIONS)].to_numpy().max()), *(high for _, high in chance.values()), 1)
    fig.update_xaxes(range=[-0.04 * top, top * 1.12], tickformat="d", dtick=max(1, -(-top // 8)))
    return fig
