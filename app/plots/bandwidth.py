"""The kernel family over many bandwidths: a figure that follows its own slider, and the surface at one setting."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.plots.theme import METHOD_COLOURS, METHOD_SYMBOLS, TERTILE_COLOURS, TERTILE_DASHES, Theme, figure
from engine.benchmark import METRICS, BandwidthCurves, Slices
from engine.benchmark.bandwidth import FAMILY, LAB_MULTIPLIERS
from engine.benchmark.smoothing import variation
from engine.kernel import Surface
from engine.kernel.selection import MULTIPLIERS

METHOD_LABELS = {
    "nw_conf_routing": "AR-CondCal",
    "nw_conf": "control: confidence",
    "nw_conf_entropy": "control: confidence + entropy",
}
METHOD_DASHES = {"nw_conf_routing": "solid", "nw_conf": "dashdot", "nw_conf_entropy": "longdash"}
MARK_LABELS = {"scott": "Scott", "cv_nll": "CV-NLL", "oracle_ece": "oracle"}
SHOWN = ("ece", "worst_tertile_ece", "nll")
_TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8)
_LIMIT = 0.95
"""Of the axis of multiples, in powers of ten; its outermost stops are at 0.903."""
_LEAST, _ROW, _GAP, _HEAD, _FOOT = 290, 62, 12, 36, 100
"""Pixels at normal size: the slices, a row of scores, the space between, the names of the marks, the slider."""
_LEFT, _RIGHT = 0.42, 0.55
"""Shares of the width at which the slices end and the scores begin."""


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


@dataclass(frozen=True, eq=False)
class Path:
    """What the live figure shows: the stops of one path with all that moves along them.

    slices and shrinkage have one entry per stop; curves is None for a run without logits or not yet computed.
    """

    name: str
    slices: Sequence[Slices]
    shrinkage: Sequence[float | None]
    curves: BandwidthCurves | None

    @property
    def start(self) -> int:
        return LAB_MULTIPLIERS.index(1.0)

    @property
    def has_routing(self) -> bool:
        return self.shrinkage[0] is not None

    @cached_property
    def by_method(self) -> dict[str, pd.DataFrame]:
        """The scores of each member along the path; none without curves."""
        known = set() if self.curves is None else set(self.curves.table["method"])
        return {method: self.curves.along(self.name, method) for method in FAMILY if method in known}

    @property
    def methods(self) -> list[str]:
        return list(self.by_method)

    @property
    def metrics(self) -> list[str]:
        """Those that there are: without any feature no tertile can be worst."""
        return [] if self.curves is None else [name for name in SHOWN if self.curves.table[name].notna().any()]


def _title(path: Path) -> str:
    if path.curves is None:
        return "What the kernel makes of confidence, as the bandwidth moves"
    parts = []
    for method, row in path.by_method.items():
        best = row.iloc[int(row["ece"].to_numpy().argmin())]
        parts.append(
            f"{METHOD_LABELS[method].removeprefix('control: ')} {best['ece']:.4f} at {best['multiplier']:.2g}×"
        )
    return f"Least ECE on this path: {', '.join(parts)} Scott"


def _range(parts: Sequence[pd.Series]) -> list[float]:
    """Limits that hold everything between a quarter and four times Scott's bandwidth; what is beyond may leave."""
    values = np.concatenate([part.to_numpy() for part in parts])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    pad = 0.08 * (high - low) or 0.01
    return [low - pad, high + pad]


def _changes(path: Path, position: int) -> list[dict[str, object]]:
    """What a frame says about every trace that changes with the slider, at one of its stops; the rest of it stays."""
    found, here = path.slices[position], LAB_MULTIPLIERS[position]
    curves = (*found.tertiles.values(), *found.controls.values())
    changes: list[dict[str, object]] = [{"y": values} for values in curves]
    for metric in path.metrics:
        stops = [rows[metric].iloc[position] for rows in path.by_method.values()]
        written = path.has_routing and np.isfinite(stops[0])
        changes.append(_marked(here, stops, f"{stops[0]:.{METRICS[metric].digits}f}" if written else ""))
    kept = path.shrinkage[position]
    if kept is not None:
        changes.append(_marked(here, [kept], f"{kept:.0%}"))
    return [{"type": "scatter", **change} for change in changes]


def _marked(x: float, values: Sequence[float], text: str) -> dict[str, object]:
    """Where each member stands at this stop, AR-CondCal's number written beside it."""
    return {
        "x": [x] * len(values), "y": list(values), "text": [text] + [""] * (len(values) - 1),
        "textposition": "top right" if x < 4 else "top left",
    }  # fmt: skip


def _moving(path: Path, theme: Theme) -> list[dict[str, object]]:
    """Every trace that changes with the slider, at its start."""
    found = path.slices[path.start]
    curve = {
        "x": found.confidence, "mode": "lines",
        "hovertemplate": "confidence %{x:.2f}: %{y:.3f}<extra>%{fullData.name}</extra>",
    }  # fmt: skip
    styles: list[dict[str, object]] = [
        curve | {
            "name": f"{name} tertile",
            "line": {"color": TERTILE_COLOURS[name], "dash": TERTILE_DASHES[name], "width": 2.5},
        }
        for name in found.tertiles
    ]  # fmt: skip
    styles += [
        curve | {
            "name": METHOD_LABELS[method], "legendgroup": method,
            "line": {"color": METHOD_COLOURS[method], "dash": METHOD_DASHES[method], "width": 2},
        }
        for method in found.controls
    ]  # fmt: skip
    members = [path.methods for _ in path.metrics] + [["nw_conf_routing"]] * path.has_routing
    styles += [_mark_style(methods, row, theme) for row, methods in enumerate(members, start=2)]
    return [style | change for style, change in zip(styles, _changes(path, path.start), strict=True)]


def _mark_style(methods: Sequence[str], row: int, theme: Theme) -> dict[str, object]:
    return {
        "xaxis": "x2", "yaxis": f"y{row}", "mode": "markers+text", "showlegend": False,
        "textfont": {"color": theme.text},
        "marker": {
            "color": [METHOD_COLOURS[method] for method in methods], "size": 11,
            "symbol": [METHOD_SYMBOLS[method] for method in methods], "line": {"color": theme.text, "width": 1.5},
        },
        "hoverinfo": "skip", "cliponaxis": False,
    }  # fmt: skip


def _resting(path: Path) -> tuple[list[go.Scatter], list[str], list[list[float]]]:
    """The curves against the multiple, with the title and range of each row."""
    traces, titles, ranges = [], [], []
    within = [min(MULTIPLIERS) <= multiplier <= max(MULTIPLIERS) for multiplier in LAB_MULTIPLIERS]
    if path.curves is not None:
        for metric in path.metrics:
            row = len(titles) + 2
            parts = []
            for method, part in path.by_method.items():
                parts.append(part.loc[within, metric])
                traces.append(
                    go.Scatter(
                        x=part["multiplier"], y=part[metric], xaxis="x2", yaxis=f"y{row}", mode="lines",
                        name=METHOD_LABELS[method], legendgroup=method,
                        showlegend=row == 2 and method == "nw_conf_routing",
                        line={"color": METHOD_COLOURS[method], "dash": METHOD_DASHES[method], "width": 2},
                        hovertemplate=f"%{{x:.3g}}× Scott: %{{y:.4f}}<extra>{METHOD_LABELS[method]}</extra>",
                    )
                )  # fmt: skip
            titles.append(METRICS[metric].label.replace("-tertile ", "-<br>tertile "))
            ranges.append(_range(parts))
    if path.has_routing:
        traces.append(
            go.Scatter(
                x=list(LAB_MULTIPLIERS), y=list(path.shrinkage), xaxis="x2", yaxis=f"y{len(titles) + 2}", mode="lines",
                line={"color": METHOD_COLOURS["nw_conf_routing"], "width": 2}, showlegend=False,
                hovertemplate="%{x:.3g}× Scott: %{y:.1%} of a gap is kept<extra></extra>",
            )
        )  # fmt: skip
        titles.append("gap<br>kept")
        ranges.append([-0.08, 1.28])
    return traces, titles, ranges


def live(path: Path, theme: Theme) -> go.Figure:
    """Slices along confidence, beside them scores over the slider that moves both while it is dragged.

    The slider needs no server: every stop is a frame of the figure, so it also works in an exported page.
    """
    scale = theme.font_size / 14
    resting, titles, ranges = _resting(path)
    moving = _moving(path, theme)
    rows = len(titles)
    pixels = max(_LEAST, _HEAD + rows * _ROW + (rows - 1) * _GAP)
    fig = figure(theme, title=_title(path), x="confidence", y="accuracy, smoothed")
    axes = {}
    bottom = 0.0
    for row in reversed(range(rows)):
        axes[f"yaxis{row + 2}"] = {
            **fig.layout.yaxis.to_plotly_json(), "domain": [bottom / pixels, (bottom + _ROW) / pixels],
            "anchor": "x2", "title": {"text": titles[row]}, "range": ranges[row], "nticks": 4,
        }  # fmt: skip
        bottom += _ROW + _GAP
    if rows:
        axes["xaxis2"] = {
            **fig.layout.xaxis.to_plotly_json(), "anchor": f"y{rows + 1}", "type": "log", "range": [-_LIMIT, _LIMIT],
            "tickvals": _TICKS, "ticktext": [f"{tick:g}" for tick in _TICKS],
            "domain": [_RIGHT, 1], "title": None,  # the slider below it says what it shows
        }  # fmt: skip
        if titles[-1] == "gap<br>kept":
            axes[f"yaxis{rows + 1}"]["tickformat"] = ".0%"
            axes[f"yaxis{rows + 1}"]["tickvals"] = [0, 0.5, 1]
    fig.update_layout(
        **axes,
        yaxis={"range": [0, 1.02]},
        xaxis={"anchor": "y", "domain": [0, _LEFT if rows else 1]},
        height=round((pixels + _FOOT + 40) * scale),
        margin={"l": 70, "r": 16, "t": 16, "b": round(_FOOT * scale)},
        legend={"orientation": "h", "yref": "paper", "yanchor": "bottom", "y": 1.01, "x": 0},
        sliders=[_slider(path.start, _RIGHT if rows else 0, theme)],
        annotations=_mark_labels(path, pixels, theme) if rows else (),
        shapes=_mark_lines(path, pixels, theme) if rows else (),
    )
    fig.add_traces([*resting, *moving])
    places = list(range(len(resting), len(resting) + len(moving)))
    fig.frames = [
        {"name": str(position), "traces": places, "data": _changes(path, position)}
        for position in range(len(LAB_MULTIPLIERS))
    ]
    return fig


def _slider(start: int, left: float, theme: Theme) -> dict[str, object]:
    steps = [
        {
            "label": stop_label(multiplier), "method": "animate",
            "args": [
                [str(position)],
                {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}},
            ],
        }
        for position, multiplier in enumerate(LAB_MULTIPLIERS)
    ]  # fmt: skip
    share = (1 - left) * np.log10(LAB_MULTIPLIERS[-1]) / _LIMIT  # the handle stands under its place on the axis
    return {
        "active": start, "steps": steps, "x": (1 + left - share) / 2, "len": share, "y": 0, "yanchor": "top",
        "pad": {"t": 28 * theme.font_size / 14}, "bgcolor": theme.grid, "bordercolor": theme.muted,
        "activebgcolor": METHOD_COLOURS["nw_conf_routing"], "tickcolor": theme.muted, "minorticklen": 4,
        "font": {"color": theme.text}, "transition": {"duration": 0},
        "currentvalue": {"prefix": "Drag the bandwidth: ", "suffix": " Scott's", "font": {"size": theme.font_size}},
    }  # fmt: skip


def _marks_of(path: Path) -> dict[str, float]:
    """Modes choose a multiple for both axes at once, so only that path can show them all."""
    if path.curves is None or path.name != "both":
        return {"scott": 1.0}
    return dict(path.curves.marks)


def _mark_lines(path: Path, pixels: float, theme: Theme) -> list[dict[str, object]]:
    top = 1 - _HEAD / pixels
    return [
        {
            "type": "line", "xref": "x2", "yref": "paper", "x0": value, "x1": value, "y0": 0, "y1": top,
            "layer": "below", "line": {"dash": "dash", "color": theme.muted, "width": 1.5},
        }
        for value in set(_marks_of(path).values())
    ]  # fmt: skip


def _mark_labels(path: Path, pixels: float, theme: Theme) -> list[dict[str, object]]:
    names: dict[float, list[str]] = {}
    for mode, value in _marks_of(path).items():
        names.setdefault(value, []).append(MARK_LABELS[mode])
    top = 1 - _HEAD / pixels
    return [
        {
            "text": " = ".join(labels), "xref": "x2", "yref": "paper", "x": np.log10(value), "y": top,
            "yanchor": "bottom", "showarrow": False, "borderpad": 0, "font": {"color": theme.muted},
            # neighbours may be closer than their names are long
            "yshift": 17 * (position % 2) * theme.font_size / 14,
        }
        for position, (value, labels) in enumerate(sorted(names.items()))
    ]  # fmt: skip
