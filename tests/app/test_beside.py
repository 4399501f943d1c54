"""A run beside another on every page about a run: both as each is by itself, on the same axes, under one legend."""

from __future__ import annotations

import json
from pathlib import Path

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from app.compute.own_data import OWN
from app.plots.beside import legend, match
from app.registry import PAGES
from tests.app.driver import bodies, numbers, open_app, shown

OTHER = "toy · dice · Full-AR · seed 1"
CHOSEN = {"variant": "Full-AR", "run": "seed 0"}
MAIN = {
    "reliability": "main", "mechanism": "depth", "gap": "effect", "null": "null", "controls": "power",
    "bandwidth": "live", "features": "search", "calibrators": "panel-ece", "probes": "scores",
}  # fmt: skip
WITHOUT_A_RUN = {"overview", "sweep", "paper"}


def drawn(app: AppTest) -> dict[str, dict]:
    """Every figure by its key."""
    return {
        chart.proto.id.split("figure-", 1)[1]: json.loads(chart.proto.spec)
        for chart in app.get("plotly_chart")
        if "figure-" in chart.proto.id
    }


def values(figure: dict) -> list[list[list[float]]]:
    """The numbers of every trace."""
    found = []
    for trace in figure["data"]:
        for axis in "xy":
            try:
                found.append(numbers(trace.get(axis) or []).tolist())
            except (TypeError, ValueError):
                found.append(list(trace[axis]))
    return found


def test_every_page_about_a_run_is_looked_at():
    assert {page.name for page in PAGES} - WITHOUT_A_RUN - {"yourdata"} == set(MAIN)


@pytest.mark.parametrize("page", MAIN)
def test_two_runs_stand_side_by_side_on_the_same_axes(page: str, cache_of_kinds: Path, monkeypatch):
    both = open_app(cache_of_kinds, monkeypatch, page, **CHOSEN, **{"with": OTHER})
    alone = open_app(cache_of_kinds, monkeypatch, page, **CHOSEN | {"run": "seed 1"})
    first, second = (drawn(both)[f"{MAIN[page]}{of}"] for of in ("", "-other"))
    assert repr(values(second)) == repr(values(drawn(alone)[MAIN[page]]))
    assert repr(values(first)) != repr(values(second))
    for axis in (name for name in first["layout"] if name.startswith(("xaxis", "yaxis"))):
        assert first["layout"][axis].get("range") == second["layout"][axis].get("range")
    assert first["layout"]["height"] == second["layout"]["height"]
    assert first["layout"]["showlegend"] is second["layout"]["showlegend"] is False
    assert any(OTHER in body for body in bodies(both))


def test_one_legend_stands_under_both(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "mechanism", **CHOSEN, **{"with": OTHER})
    (said,) = [body for body in bodies(app) if 'class="legend"' in body and "wrong predictions" in body]
    assert said.count("mean of wrong predictions") == 1


@pytest.mark.parametrize("page", [*MAIN, "yourdata"])
def test_a_run_that_lacks_what_the_page_needs_says_so_beside_the_one_that_has_it(page, cache_of_kinds, monkeypatch):
    """An imported run without logits, routing and classes."""
    names = open_app(cache_of_kinds, monkeypatch, page, **CHOSEN).selectbox(key="with").options
    for name in names[1:]:
        open_app(cache_of_kinds, monkeypatch, page, **CHOSEN, **{"with": name})


def figure(y: list[float], **layout: object) -> go.Figure:
    return go.Figure(go.Scatter(x=[0, 1], y=y, name="a", mode="markers"), {"height": 400, "margin_b": 92, **layout})


def test_axes_hold_both_with_their_intervals():
    first, second = figure([0, 1]), figure([2, 3])
    second.data[0].error_y = {"array": [0, 1], "arrayminus": [0, 0]}
    match(first, second)
    assert first.layout.yaxis.range == second.layout.yaxis.range
    low, high = first.layout.yaxis.range
    assert low == pytest.approx(-0.05)  # 5 % of [0, 1]
    assert high == pytest.approx(4.1)  # and of [2, 4]


def test_a_falling_axis_still_falls_and_names_stay():
    first, second = figure([0, 1], yaxis={"range": [1, 0]}), figure([0, 1], yaxis={"range": [3, 0]})
    match(first, second)
    assert first.layout.yaxis.range == second.layout.yaxis.range == (3, 0)
    named = [figure([0, 1], yaxis={"range": [n, 0], "ticktext": ["b"] * n}) for n in (1, 3)]
    match(*named)
    assert [each.layout.yaxis.range for each in named] == [(1, 0), (3, 0)]


def test_the_legend_has_the_marks_of_the_figure():
    drawn = figure([0, 1])
    drawn.data[0].marker = {"symbol": "diamond-open", "color": "#123456"}
    drawn.add_scatter(x=[0], y=[0], name="b", mode="lines", line={"dash": "dash", "color": "red"})
    drawn.add_scatter(x=[0], y=[0], name="hidden", showlegend=False)
    assert legend(drawn) == [("◇", "#123456", "a"), ("╍", "red", "b")]


def test_own_data_stand_beside_a_bundled_run_and_an_earlier_file(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "yourdata")
    next(button for button in app.button if button.label == "Try the example").click().run()
    next(button for button in app.button if button.label == "Use this data").click().run()
    assert app.selectbox(key="cache").value == OWN[0]
    offered = app.selectbox(key="with").options
    assert any(OTHER in option for option in offered)
    name = next(option for option in offered if OTHER in option)
    app.selectbox(key="with").set_value(name).run()
    assert not app.exception
    assert "cannot be shown" not in shown(app)
