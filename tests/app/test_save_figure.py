"""A figure of a page as a file for a paper, and what it shows in words."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest

from app.export.browser import WIDTHS, NoBrowser, figure_file, find_browser, in_light
from app.plots.theme import Theme, figure, translucent
from app.registry import PAGES
from tests.app.driver import open_app, shown
from tests.app.test_report import BROWSER

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium")


@pytest.fixture
def drawn() -> go.Figure:
    dark = Theme(dark=True)
    fig = figure(dark, title="", x="</script><b>confidence", y="accuracy", height=400)
    return fig.add_scatter(x=[0, 1], y=[0.2, 0.9], line={"color": translucent(dark.text, 0.5)})


@needs_browser
def test_files_have_the_width_of_the_column(drawn: go.Figure):
    browser, tall = find_browser(), 400 * 8 / 72 / 14
    svg = ElementTree.fromstring(figure_file(drawn, "SVG", 3.25, browser))
    assert svg.get("width") == "3.25in"
    assert float(svg.get("height").removesuffix("in")) == pytest.approx(tall, abs=0.01)
    png = figure_file(drawn, "PNG", 3.25, browser)
    assert struct.unpack(">II", png[16:24]) == pytest.approx((3.25 * 300, tall * 300), abs=3)
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", figure_file(drawn, "PDF", 3.25, browser))
    assert [float(end) / 72 for end in box.groups()] == pytest.approx([3.25, tall], abs=0.02)


def test_they_are_drawn_in_the_colours_of_paper(drawn: go.Figure):
    spec = in_light(drawn.to_json())
    assert Theme().text in spec
    assert translucent(Theme().text, 0.5).replace(" ", "") in spec.replace(" ", "")
    assert not [colour for colour in Theme(dark=True).colours if colour in spec]


def test_a_page_offers_its_figures(cache_of_kinds: Path, monkeypatch: pytest.MonkeyPatch):
    made = []
    monkeypatch.setattr("app.shell.save_figure.find_browser", lambda _what: "a browser")
    monkeypatch.setattr("app.shell.save_figure.figure_file", lambda *given: made.append(given) or b"file")
    app = open_app(cache_of_kinds, monkeypatch, "reliability", backbone="toy", variant="Full-AR")
    assert "save-figure-which" not in app.session_state
    app.session_state["save-figure"] = True
    app.run()
    assert any(option.startswith("ECE ") for option in app.selectbox(key="save-figure-which").options)
    app.radio(key="save-figure-kind").set_value("PNG").run()
    app.button(key="start-save-figure").click().run()
    ((_, kind, inches, _),) = made
    assert (kind, inches) == ("PNG", next(iter(WIDTHS.values())))
    assert "Save" in [button.label for button in app.get("download_button")]

    def none(_what: str) -> str:
        raise NoBrowser("none")

    monkeypatch.setattr("app.shell.save_figure.find_browser", none)
    app.run()
    assert "camera button" in shown(app)


@pytest.mark.parametrize("page", ["gap", "null", "reliability", "sweep", "mechanism"])
def test_alternative_texts_state_the_finding(page: str, cache_of_kinds: Path, monkeypatch: pytest.MonkeyPatch):
    assert page in {entry.name for entry in PAGES}
    app = open_app(cache_of_kinds, monkeypatch, page, backbone="toy", variant="Full-AR")
    written = " ".join(each.value for each in app.markdown).replace("\u00a0", " ").replace("\\", "")
    findings = re.findall(r"\*\*(.*?)\*\*", written)
    alts = [chart.proto.alt for chart in app.get("plotly_chart")]
    assert alts
    for alt in alts:
        assert alt.startswith(tuple(findings)), alt
