"""The Feature lab as a person uses it: layers are clicked, everything follows, the link reproduces it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.xdist_group("browser")
DRAWN = "() => JSON.stringify(document.querySelectorAll('.js-plotly-plot')[2].data.map(trace => trace.y))"


def test_a_scalar_is_built_by_clicking_and_the_link_reproduces_it(visit, idle):
    page = visit("features?backbone=toy&variant=Full-AR&shuffles=100")
    before = page.evaluate(DRAWN)
    page.get_by_role("button", name="2", exact=True).click()
    expect(page.get_by_text("spread of routing entropy over layers 1, 3 to 6 differ")).to_be_visible(timeout=60_000)
    page.get_by_text("Times confidence", exact=True).click()
    expect(page.get_by_text("layers 1, 3 to 6, times confidence differ")).to_be_visible(timeout=60_000)
    idle(page)
    after = page.evaluate(DRAWN)
    assert after != before
    again = visit(page.url)
    expect(again.get_by_text("layers 1, 3 to 6, times confidence differ")).to_be_visible(timeout=60_000)
    assert again.evaluate(DRAWN) == after
