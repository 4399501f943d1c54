"""Axes that list names."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go


def list_axis(fig: go.Figure, names: Sequence[str], title: str) -> None:
    """A vertical axis at 0, 1, 2, ... with a name for each, the first at the top. Names need not be distinct."""
    fig.update_yaxes(
        range=[len(names) - 0.5, -0.5], tickmode="array", tickvals=list(range(len(names))), ticktext=list(names),
        title=title, title_standoff=16,
    )  # fmt: skip
