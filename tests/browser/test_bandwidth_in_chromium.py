"""The Bandwidth lab's two kinds of slider: one moves the curves while it is dragged, the others give exact numbers."""

from __future__ import annotations

import re
from contextlib import suppress

from playwright.sync_api import TimeoutError, expect

from tests.browser.conftest import assert_no_text_is_cut
from tests.browser.dragging import drag_live_slider

ADDRESS = "bandwidth?variant=Full-AR"


def test_dragging_moves_the_curves_without_the_server(visit, idle):
    page = visit(ADDRESS)
    expect(page.locator(".slider-grip-rect").first).to_be_attached()
    idle(page)
    sent: list[str] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    page.on("request", lambda request: sent.append(request.url))
    found = drag_live_slider(page, 2.0)
    # Each stop that the mouse was seen at is painted; how many of the 25 it is seen at depends on the machine.
    assert found.n_distinct >= min(8, found.n_moves // 2)
    assert found.n_distinct > 3
    assert sent == []
    assert page.locator(".slider-label-group, .slider-labels").first.is_visible()


def test_no_text_is_cut_with_every_row_drawn(visit):
    """The walk over all pages opens a run without logits first; here all rows of the live figure are drawn."""
    page = visit(ADDRESS, width=390)
    assert_no_text_is_cut(page)
    assert page.evaluate("() => document.querySelectorAll('.js-plotly-plot')[0]._fullLayout.yaxis5.title.text") != ""


def test_arrow_keys_change_the_surface_and_the_link_reproduces_it(visit, idle):
    page = visit(f"{ADDRESS}&linked=false")
    surface = "() => JSON.stringify([...document.querySelectorAll('.js-plotly-plot')].at(1).data[0].z)"
    before = page.evaluate(surface)
    slider = page.get_by_role("slider", name="Bandwidth on routing")
    slider.focus()
    for _ in range(12):  # four steps away; a key pressed while the page is being redrawn may be lost
        address = page.url
        slider.press("ArrowRight")
        with suppress(TimeoutError):
            page.wait_for_url(lambda url, address=address: url != address, timeout=10_000)
        idle(page)
        if re.search(r"hr=2\b(?!\.)", page.url):
            break
    expect(page).to_have_url(re.compile(r"hr=2\b"))
    idle(page)
    after = page.evaluate(surface)
    assert after != before
    again = visit(page.url)
    assert again.evaluate(surface) == after
