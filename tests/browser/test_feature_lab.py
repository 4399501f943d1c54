"""The Feature lab as a person uses it: layers are clicked, everything follows, the link reproduces it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

DRAWN = "() => JSON.stringify(document.querySelectorAll('.js-plotly-plot')[2].data.map(trace => trace.y))"


def test_a_scalar_is_built_by_clicking_and_the_link_reproduces_it(visit, idle):
    page = visit("features?backbone=toy&variant=Full-AR&shuffles=100")
    before = page.evaluate(DRAWN)
    page.get_by_role("button", name="2", exact=True).click()
    expect(page.get_by_text("spread of routing entropy over layers 1, 3 to 6 among")).to_be_visible()
    page.get_by_text("Times confidence", exact=True).click()
    expect(page.get_by_text("layers 1, 3 to 6, times confidence among")).to_be_visible()
    idle(page)
    after = page.evaluate(DRAWN)
    assert after != before
    again = visit(page.url)
    expect(again.get_by_text("layers 1, 3 to 6, times confidence among")).to_be_visible()
    assert again.evaluate(DRAWN) == after


def test_the_page_as_a_file_holds_what_is_shown_and_not_a_scalar_that_was_given_up(visit, idle, tmp_path: Path):
    page = visit("features?backbone=toy&variant=Full-AR&shuffles=100&layers6=2")

    def saved() -> str:
        with page.expect_download() as download:
            page.get_by_role("button", name="Download page").click()
        download.value.save_as(tmp_path / "page.html")
        return (tmp_path / "page.html").read_text(encoding="utf-8")

    expect(page.get_by_text("Features that this run has, and yours")).to_be_visible()
    idle(page)
    parts = ("by tertile of the scalar", "routing entropy of layer 2 among", "minus its controls", ", and yours")
    before = saved()
    assert [part for part in parts if part in before] == list(parts)
    page.get_by_role("button", name="2", exact=True).click()
    expect(page.get_by_text("Choose at least one layer.")).to_be_visible()
    idle(page)
    after = saved()
    assert [part for part in parts if part in after] == []
    assert "Features that this run has" in after
