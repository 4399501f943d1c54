"""On a phone: a swipe that begins on a figure scrolls the page, and nothing of a page is wider than the window."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import PATIENCE, wait_until_idle
from tests.serving import Served

SCROLLED = """() => document.querySelector('[data-testid="stMain"]').scrollTop"""
PHONE = {
    "viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True,
    "user_agent": "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/140 Mobile Safari/537.36",
}  # fmt: skip


@pytest.fixture
def phone(browser: Browser, server: Served) -> Iterator[Page]:
    context = browser.new_context(base_url=server.address, **PHONE)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    yield page
    context.close()


@pytest.mark.parametrize("name", ["gap", "reliability", "overview", "bandwidth"])
def test_a_swipe_on_a_figure_scrolls_the_page(phone: Page, name: str):
    phone.goto(f"/{'' if name == 'overview' else name}?welcome=0&variant=Full-AR")
    phone.wait_for_selector(".js-plotly-plot .nsewdrag")
    wait_until_idle(phone)
    figure = phone.locator(".js-plotly-plot .nsewdrag").first
    figure.evaluate("figure => figure.scrollIntoView({block: 'center'})")
    box, before = figure.bounding_box(), phone.evaluate(SCROLLED)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    finger = phone.context.new_cdp_session(phone)  # a made-up gesture moves nothing in a Chromium without a head
    for kind, moved in [("touchStart", 0), *(("touchMove", 14 * step) for step in range(1, 16)), ("touchEnd", None)]:
        points = [] if moved is None else [{"x": x, "y": y - moved}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    phone.wait_for_function(f"before => ({SCROLLED})() - before > 100", arg=before)
    assert not phone.locator(".modebar-container").first.is_visible()
