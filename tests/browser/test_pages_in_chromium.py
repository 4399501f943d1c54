"""The dashboard as a person sees it: navigation, controls, links, both themes, wide and narrow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.registry import PAGES, page_for
from app.shell.tour import STOPS
from tests.browser.conftest import assert_no_text_is_cut

ROOT = Path(__file__).resolve().parents[2]

DRAWN = """() => [...document.querySelectorAll('.js-plotly-plot')].map(
    figure => JSON.stringify([figure.data.map(trace => [trace.x, trace.y, trace.text]),
        (figure.layout.annotations || []).map(note => note.text)]))"""


HEIGHT = 900
WITHOUT_FIGURE = {"yourdata"}  # as long as nobody has brought a file
BOTTOM = "() => document.querySelector('.js-plotly-plot').getBoundingClientRect().bottom"
LENGTH = """() => document.querySelector('[data-testid="stMain"]').scrollHeight"""
# Wide and light for everybody; the two others are the same pages once more.
WINDOWS = [
    pytest.param(1440, False, id="wide"),
    pytest.param(1440, True, id="dark", marks=pytest.mark.faults),
    pytest.param(390, False, id="narrow", marks=pytest.mark.faults),
]


def figures(page: Page) -> list[str]:
    """What is drawn, as text: the data and the words of every figure."""
    return page.evaluate(DRAWN)


def test_every_page_opens_from_the_navigation(visit, idle):
    page = visit("")
    for entry in PAGES:
        page.get_by_test_id("stSidebarNav").get_by_role("link", name=entry.title, exact=True).click()
        expect(page.get_by_role("heading", name=entry.question)).to_be_visible()
        idle(page)


def test_the_first_page_also_answers_to_its_name(visit):
    page = visit(f"{PAGES[0].name}?support=7")
    assert page.get_by_role("dialog").count() == 0
    expect(page.get_by_role("heading", name=PAGES[0].question)).to_be_visible()
    assert "at least 7 samples in each outer third" in page.get_by_test_id("stCaptionContainer").first.inner_text()


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.name)
@pytest.mark.parametrize(("width", "dark"), WINDOWS)
def test_a_page_fits_its_window(visit, idle, entry, width: int, dark: bool):
    """In every tab no text is cut; on a wide screen the main figure lies in the first screen, the page in three."""
    page = visit(f"{entry.address}?welcome=0&variant=Full-AR", width=width, dark=dark)
    wide = width > HEIGHT
    if wide and entry.name not in WITHOUT_FIGURE:
        assert page.evaluate(BOTTOM) <= HEIGHT
    assert_no_text_is_cut(page)
    for tab in page.get_by_test_id("stMain").get_by_role("tab").all():
        tab.click()
        idle(page)
        assert_no_text_is_cut(page)
        assert not wide or page.evaluate(LENGTH) <= 3 * HEIGHT, tab.inner_text()


def test_the_head_names_product_paper_and_page(visit):
    page = visit("gap")
    expect(page).to_have_title("Matched-confidence gap · RouteCal")
    paper = page.get_by_role("link", name=re.compile("Routing-Conditional Calibration"))
    expect(paper).to_have_attribute("href", "https://arxiv.org/abs/2605.09850")


def test_a_slider_changes_the_figure_and_the_link_reproduces_it(visit, idle):
    page = visit("controls")
    before = figures(page)
    slider = page.get_by_role("slider", name="Planted gap")
    slider.focus()
    for _ in range(8):
        slider.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"delta=0\.18\b"))
    idle(page)
    after = figures(page)
    assert after[2] != before[2]
    again = visit(page.url)
    assert figures(again)[2] == after[2]


def choose_feature(page: Page, words: str) -> None:
    page.get_by_role("combobox", name="Feature").click()
    page.keyboard.type(words)
    page.get_by_role("option").filter(has_text=words).first.click()


@pytest.mark.parametrize(
    ("name", "choice"),
    [("overview", None), ("mechanism", None), ("sweep", None), ("reliability", "equal mass"), ("null", "weighted gap")],
)
def test_the_main_control_changes_the_figures_and_the_link_reproduces_them(visit, idle, name: str, choice: str | None):
    page = visit(page_for(name).address)
    before = figures(page)
    if choice is None:
        choose_feature(page, "spread of")
    else:
        page.get_by_test_id("stMain").get_by_text(choice, exact=True).first.click()
    page.wait_for_url(lambda address: "?" in address)
    page.wait_for_function(f"before => JSON.stringify(({DRAWN})()) !== JSON.stringify(before)", arg=before)
    idle(page)
    assert figures(visit(page.url)) == figures(page)


def test_choosing_a_feature_changes_the_page_and_the_printed_link_works(visit, idle):
    page = visit("gap")
    before = figures(page)
    choose_feature(page, "spread of")
    expect(page.get_by_text("feature: spread of routing entropy over depth")).to_be_visible()
    idle(page)
    assert figures(page) != before
    page.get_by_role("button", name="Link to this view").click()
    link = page.get_by_test_id("stCode").last.inner_text().strip()
    again = visit(link)
    assert figures(again) == figures(page)


def test_a_choice_survives_a_page_switch(visit, idle):
    page = visit("gap?support=7&variant=Block-AR+%28b+%3D+2%29")
    page.get_by_test_id("stSidebarNav").get_by_role("link", name="Permutation null", exact=True).click()
    expect(page.get_by_role("heading", name="Could that gap be chance?")).to_be_visible()
    idle(page)
    caption = page.get_by_test_id("stCaptionContainer").first.inner_text()
    assert "Block-AR (b = 2)" in caption
    assert "at least 7 samples in each outer third" in caption


def test_presenter_mode_hides_the_sidebar_and_turns_pages(visit):
    page = visit("gap?present=1")
    expect(page.get_by_test_id("stSidebar")).not_to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("heading", name="Could that gap be chance?")).to_be_visible()
    assert "present=1" in page.url
    page.get_by_role("button", name="Run and feature").click()
    expect(page.get_by_role("combobox", name="Feature")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+ArrowLeft")
    expect(page.get_by_role("heading", name="At the same confidence")).to_be_visible()


def test_the_tour_leads_through_five_pages_by_keyboard_and_survives_a_reload(visit, idle):
    page = visit("?tour=1")
    for number, stop in enumerate(STOPS, start=1):
        expect(page.get_by_text(f"Tour, {number} of {len(STOPS)}.")).to_be_visible()
        expect(page.get_by_role("heading", name=page_for(stop.page).question)).to_be_visible()
        if number == 2:
            page.reload()
            expect(page.get_by_text("Tour, 2 of 5.")).to_be_visible()
        idle(page)
        if number < len(STOPS):
            page.keyboard.press("Control+ArrowRight")
    page.get_by_role("button", name="End").click()
    expect(page.get_by_text("Tour, 5 of 5.")).to_have_count(0)


def test_the_welcome_card_starts_the_tour_and_stays_closed(visit, idle):
    page = visit("", stranger=True)
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.get_by_text("New here?")).to_have_count(0)
    idle(page)
    page.reload()
    idle(page)
    expect(page.get_by_text("New here?")).to_have_count(0)


def test_download_page_is_self_contained(visit, tmp_path: Path):
    page = visit("gap")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download page").click()
    target = tmp_path / "page.html"
    download.value.save_as(target)
    requests: list[str] = []
    offline = page.context.new_page()
    offline.on("request", lambda request: requests.append(request.url))
    errors: list[str] = []
    offline.on("pageerror", lambda error: errors.append(str(error)))
    offline.goto(target.as_uri())
    offline.wait_for_selector(".js-plotly-plot .main-svg")
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []
    offline.close()
