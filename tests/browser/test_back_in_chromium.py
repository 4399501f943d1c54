"""Back goes back, a click on a figure opens what lies behind it, and one's own data outlive a reload."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from app.registry import page_for


def test_a_tile_opens_its_run_and_back_returns(visit, idle):
    page = visit("?welcome=0")
    tile = page.locator(".js-plotly-plot .textpoint").nth(1).bounding_box()
    page.mouse.click(tile["x"] + tile["width"] / 2, tile["y"] + tile["height"] / 2)
    expect(page.get_by_role("heading", name=page_for("gap").question)).to_be_visible()
    idle(page)
    page.go_back()
    expect(page.get_by_role("heading", name=page_for("overview").question)).to_be_visible()


def test_a_bin_opens_its_drawer_and_can_be_the_slice(visit, idle):
    page = visit("reliability?variant=Full-AR&run=seed+0")
    bars = page.locator(".js-plotly-plot").first.locator(".xy2 .point path, .x2y2 .point path, .barlayer .point path")
    box = bars.last.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.get_by_role("button", name="Slice to these")).to_be_visible()
    page.get_by_role("button", name="Slice to these").click()
    expect(page).to_have_url(re.compile("cells=c"))
    idle(page)
    expect(page.get_by_text("slice: confidence")).to_be_visible()


def test_own_data_are_there_after_a_reload_and_for_nobody_else(visit, idle):
    page = visit("yourdata", stranger=True)
    page.get_by_role("button", name="Try the example").click()
    page.get_by_role("button", name="Use this data").click()
    expect(page.get_by_text("In use on every page")).to_be_visible()
    idle(page)
    page.reload()
    idle(page)
    expect(page.get_by_text("your model").first).to_be_visible()
    other = visit(page.url, stranger=True)
    expect(other.get_by_text("no file of yours is open")).to_be_visible()
