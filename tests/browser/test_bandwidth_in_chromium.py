"""The Bandwidth lab's sliders: one under the curves that it moves, the others give exact numbers."""

from __future__ import annotations

import re
from contextlib import suppress

from playwright.sync_api import TimeoutError, expect

from tests.browser.conftest import assert_no_text_is_cut

ADDRESS = "bandwidth?variant=Full-AR"


def test_arrow_keys_move_the_curves_above_the_slider_and_the_link_reproduces_them(visit, idle):
    page = visit(ADDRESS)
    lines = "() => JSON.stringify(document.querySelector('.js-plotly-plot').data.map(trace => trace.y))"
    before, slider = page.evaluate(lines), page.get_by_role("slider", name="Bandwidth, in multiples of Scott's")
    top, bottom = slider.bounding_box()["y"], page.locator(".js-plotly-plot").first.bounding_box()
    assert 0 <= top - bottom["y"] - bottom["height"] < 120
    slider.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"[?&]h="))
    idle(page)
    after = page.evaluate(lines)
    assert after != before
    assert visit(page.url).evaluate(lines) == after


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
