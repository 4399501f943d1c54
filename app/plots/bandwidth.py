"""Names and dashes of the kernel family, and its regression surface."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.plots.theme import Theme, figure
from engine.benchmark.smoothing import variation
from engine.kernel import Surface

METHOD_LABELS = {
    "nw_conf_routing": "AR-CondCal",
    "nw_conf": "control: confidence",
    "nw_conf_entropy": "control: confidence + entropy",
}
METHOD_DASHES = {"nw_conf_routing": "solid", "nw_conf": "dashdot", "nw_conf_entropy": "longdash"}
MARK_LABELS = {"scott": "Scott", "cv_nll": "CV-NLL", "oracle_ece": "oracle"}


def stop_label(multiplier: float) -> str:
    """`0.5×`, `1.41×`."""
    return f"{multiplier:.3g}×"


def surface(found: Surface, cells: pd.DataFrame, feature: str, theme: Theme) -> go.Figure:
    """g(c, rho) with the calibration samples gathered in dots, coloured by the same scale; blank where it rests on
    less than one sample."""
    fig = figure(
        theme,
        title=f"At the same confidence the surface moves by {variation(found):.3f} (root mean square) with the feature",
        x="confidence",
        y=feature,
        height=460,
    )
    colours = {"colorscale": "Cividis", "cmin": 0, "cmax": 1}
    fig.add_trace(
        go.Heatmap(
            x=found.first, y=found.second, z=found.value.T, colorscale="Cividis", zmin=0, zmax=1,
            colorbar={"title": {"text": "accuracy", "side": "top"}, "thickness": 12, "tickformat": ".0%"},
            hovertemplate=f"confidence %{{x:.2f}}, {feature} %{{y:.3g}}: %{{z:.3f}}<extra></extra>",
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=cells["confidence"], y=cells["feature"], mode="markers", showlegend=False,
            marker={
                "color": cells["accuracy"], "size": 3 + 1.1 * np.sqrt(cells["count"].clip(upper=120)), **colours,
                "line": {"color": theme.paper, "width": 1},
            },
            customdata=cells[["count", "accuracy"]],
            hovertemplate="%{customdata[0]:,} calibration samples, accuracy %{customdata[1]:.0%}<extra></extra>",
        )
    )  # fmt: skip
    fig.update_xaxes(showgrid=False, range=[found.first[0], found.first[-1]])
    fig.update_yaxes(showgrid=False)
    fig.update_layout(margin={"b": 60})
    return fig
