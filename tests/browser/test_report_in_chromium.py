"""The report as its reader sees it: offline, in both themes, wide, narrow and on paper."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from app.plots.theme import Theme
from app.report import build_report
from engine.store import open_cache
from tests.browser.conftest import assert_no_text_is_cut

LOCAL = ("file:", "data:", "blob:")
DRAW_ALL = """async () => {
    for (const place of document.querySelectorAll('.plot')) {
        place.scrollIntoView();
        for (let i = 0; i < 200 && !place.querySelector('.main-svg'); i++) await new Promise(r => setTimeout(r, 20));
    }
    window.scrollTo(0, 0);
}"""
SPECS = """() => [...document.querySelectorAll('.plot')].map(({data, layout}) => JSON.stringify([data, layout]))"""


@pytest.fixture(scope="module")
def reports(cache_of_kinds: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The same report, drawn in light (as it is made) and in dark colours."""
    folder, made = tmp_path_factory.mktemp("report"), {}
    with pytest.MonkeyPatch.context() as patch, open_cache(cache_of_kinds) as cache:
        patch.setattr("app.report.study.N_SIMULATIONS", 20)
        for dark in (False, True):
            patch.setattr("app.report.sections._THEME", Theme(dark=dark))
            made[dark] = folder / f"{'dark' if dark else 'light'}.html"
            made[dark].write_text(build_report(cache).html(), encoding="utf-8")
    return made


@pytest.fixture
def read(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file without a network; any request, error or console message fails the test when it ends."""
    contexts, faults = [], []

    def open_(path: Path, *, width: int = 1280, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if not request.url.startswith(LOCAL) else None)
        page.goto(path.as_uri())
        page.evaluate(DRAW_ALL)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)], ids=["wide", "dark", "narrow"])
def test_it_opens_offline_and_no_text_is_cut(read, reports, width: int, dark: bool):
    page = read(reports[False], width=width, dark=dark)
    assert page.locator(".plot").count() == page.locator(".plot:has(.main-svg)").count() == 19
    assert_no_text_is_cut(page)
    theme = Theme(dark=dark)
    red, green, blue = (int(theme.paper[i : i + 2], 16) for i in (1, 3, 5))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb({red}, {green}, {blue})"
    folder = os.environ.get("ROUTECAL_SCREENSHOTS")
    if folder:
        suffix = "-dark" if dark else "-narrow" if width < 800 else ""
        page.set_viewport_size({"width": width, "height": 5000})
        page.screenshot(path=str(Path(folder) / f"report{suffix}.png"))


def test_in_dark_every_figure_is_as_if_drawn_in_dark(read, reports):
    recoloured = read(reports[False], dark=True).evaluate(SPECS)
    drawn = read(reports[True], dark=True).evaluate(SPECS)
    light = read(reports[False]).evaluate(SPECS)
    assert len(drawn) == 19
    assert [json.loads(spec) for spec in recoloured] == [json.loads(spec) for spec in drawn]
    assert light != recoloured


def test_a_change_of_theme_recolours_what_is_drawn(read, reports):
    page = read(reports[False])
    before = page.evaluate(SPECS)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"before => ({SPECS})()[0] !== before", arg=before[0])
    assert "#E8E8E8" in page.evaluate(SPECS)[0]
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"before => ({SPECS})()[0] === before", arg=before[0])


def test_hover_works(read, reports):
    page = read(reports[False])
    figure = page.locator(".plot[aria-label^='Accuracy against confidence by tertile']").first
    figure.scroll_into_view_if_needed()
    figure.locator(".scatterlayer .points path").nth(4).hover(force=True)
    page.wait_for_selector(".hoverlayer .hovertext")
    assert "samples" in figure.locator(".hoverlayer").text_content()


def test_links_of_the_contents_lead_to_their_sections(read, reports):
    page = read(reports[False])
    links = page.locator("nav a")
    assert links.count() > 8
    for link in links.all():
        assert page.locator(link.get_attribute("href")).inner_text() == link.inner_text()


def test_on_paper_figures_are_light_and_fit(read, reports):
    page = read(reports[False], dark=True)
    screen = page.evaluate(SPECS)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function(f"before => ({SPECS})().every((spec, place) => spec !== before[place])", arg=screen)
    layouts: list[dict[str, Any]] = [json.loads(spec)[1] for spec in page.evaluate(SPECS)]
    assert {layout["width"] for layout in layouts} == {332, 680}
    assert {layout["font"]["color"] for layout in layouts} == {Theme().text}
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert_no_text_is_cut(page, "cut")
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function(f"before => ({SPECS})()[0] === before", arg=screen[0])


def test_the_dashboard_hands_over_the_report_of_a_run(visit, read, tmp_path: Path):
    page = visit("gap?variant=Full-AR")
    page.get_by_role("button", name="Report on this run").click()
    ready = page.get_by_role("button", name="Save the report")
    ready.wait_for()
    with page.expect_download() as download:
        ready.click()
    target = tmp_path / download.value.suggested_filename
    download.value.save_as(target)
    report = read(target)
    assert "toy · dice · Full-AR" in report.locator("h2.section").nth(1).inner_text()
