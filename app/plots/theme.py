"""One visual language: colours, marks and layout of every figure, for light and dark, screen and projector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

TERTILE_COLOURS = {"low": "#0072B2", "mid": "#8C8C8C", "high": "#D55E00"}
TERTILE_DASHES = {"low": "solid", "mid": "dot", "high": "dash"}
TERTILE_SYMBOLS = {"low": "circle", "mid": "square", "high": "diamond"}
METHOD_COLOURS = {"nw_conf_routing": "#CC79A7", "nw_conf": "#009E73", "nw_conf_entropy": "#56B4E9"}
# A mark of their own too, so that grey print tells them apart.
METHOD_SYMBOLS = {"nw_conf_routing": "diamond", "nw_conf": "square", "nw_conf_entropy": "triangle-up"}
OTHER_METHOD = "#8C8C8C"
OVER_CONFIDENT, UNDER_CONFIDENT = "#C8372D", "#2E6DB4"
# The paper's test is hollow, the primary test filled, in every figure that shows both.
TEST_SYMBOLS = {"paper": "circle-open", "primary": "circle", "verdict": "circle"}
MATCHING_COLOURS = {"equal_width": "#B8860B", "equal_mass": "#7A5195"}


@dataclass(frozen=True)
class Theme:
    """What changes between light and dark, and between a screen and a lab meeting."""

    dark: bool = False
    large: bool = False

    @property
    def text(self) -> str:
        return "#E8E8E8" if self.dark else "#1F1F1F"

    @property
    def muted(self) -> str:
        return "#A8A8A8" if self.dark else "#5F5F5F"

    @property
    def grid(self) -> str:
        return "#3A3D44" if self.dark else "#E3E3E3"

    @property
    def paper(self) -> str:
        """The background of an exported page; on screen the figure lets the page show through."""
        return "#16181D" if self.dark else "#FFFFFF"

    @property
    def band(self) -> str:
        """The null band: light grey on white, dark grey on black."""
        return "rgba(200,200,200,0.22)" if self.dark else "rgba(120,120,120,0.18)"

    def place(self, place: int) -> str:
        """CSS of the cell of a table that comes first (1) or second (2) in its column; empty for the others."""
        shade = "200,200,200" if self.dark else "120,120,120"
        css = {1: f"background-color: rgba({shade},0.4); font-weight: bold", 2: f"background-color: rgba({shade},0.16)"}
        return css.get(place, "")

    @property
    def neutral(self) -> str:
        """The middle of a scale with two ends, neither over- nor under-confident."""
        return "#2A2D34" if self.dark else "#F4F4F4"

    @property
    def colours(self) -> tuple[str, ...]:
        """Everything that light and dark do not share, in one order, so that a drawn figure can be recoloured."""
        return self.text, self.muted, self.grid, self.paper, self.band, self.neutral

    @property
    def font_size(self) -> int:
        return 20 if self.large else 14


def translucent(colour: str, opacity: float) -> str:
    """`#RRGGBB` as an rgba() string."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def figure(
    theme: Theme, *, title: str, x: str, y: str, height: int = 440, layout: Mapping[str, Any] | None = None
) -> go.Figure:
    """An empty figure in the common style; the title says the finding, the axes the quantity and its unit.

    layout : laid over the common style. Much quicker here than by updating the figure, above all many annotations.
    """
    axis = {
        "gridcolor": theme.grid,
        "zeroline": False,
        "linecolor": theme.muted,
        "ticks": "outside",
        "tickcolor": theme.muted,
        "title_standoff": 10,
        "automargin": True,
    }
    common: dict[str, Any] = {
        "template": "none",  # Plotly's own is nine tenths of what a small figure sends, and all of it is set here
        "title": {
            "text": title,
            "x": 0,
            "xanchor": "left",
            "yref": "container",
            "y": 0.97,
            "yanchor": "top",
            "font": {"size": theme.font_size + 2, "color": theme.text},
        },
        "xaxis": {**axis, "title": x},
        "yaxis": {**axis, "title": y},
        "height": round(height * (1.25 if theme.large else 1)),
        "font": {"size": theme.font_size, "color": theme.text, "family": "Source Sans, Source Sans Pro, sans-serif"},
        "paper_bgcolor": "rgba(0,0,0,0)",  # whatever it stands on, the page or an exported file, shows through
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 64, "r": 24, "t": 48, "b": 92},
        "hoverlabel": {"font": {"size": theme.font_size}},
        "legend": {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0.01, "x": 0},
        "bargap": 0.08,
        "dragmode": False,  # nothing is zoomed by accident; the mode bar switches zooming on
    }
    for name, given in (layout or {}).items():
        common[name] = {**common.get(name, {}), **given} if isinstance(given, dict) else given
    return go.Figure(layout=common)


def reference(fig: go.Figure, theme: Theme, **shape: float) -> None:
    """A dashed reference line: the diagonal, the nominal level, zero."""
    fig.add_shape(type="line", line={"dash": "dash", "color": theme.muted, "width": 1.5}, layer="below", **shape)


def observed(fig: go.Figure, theme: Theme, value: float, label: str, side: str = "top right") -> None:
    """The observed value: a single dark line with its number written on it."""
    fig.add_vline(x=value, line={"color": theme.text, "width": 2}, annotation_text=label, annotation_position=side)


def empty_figure(theme: Theme, reason: str) -> go.Figure:
    """A figure that says why there is nothing to draw."""
    fig = figure(theme, title="", x="", y="", height=240)
    fig.update_xaxes(visible=False)
    fig.update_yaxes(visible=False)
    fig.add_annotation(
        text=reason, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font={"color": theme.muted}
    )
    return fig


def list_axis(fig: go.Figure, names: Sequence[str], title: str) -> None:
    """A vertical axis at 0, 1, 2, ... with a name for each, the first at the top. Names need not be distinct."""
    fig.update_yaxes(
        range=[len(names) - 0.5, -0.5], tickmode="array", tickvals=list(range(len(names))), ticktext=list(names),
        title=title, title_standoff=16,
    )  # fmt: skip
