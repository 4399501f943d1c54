"""A person brings a file: it works on every page for them, nobody else can see it, and it is gone when they go."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.importing.examples import example_csv
from tests.browser.conftest import PATIENCE, assert_no_text_is_cut


def kept() -> set[Path]:
    """What sessions keep on disk at the moment."""
    return set(Path(tempfile.gettempdir()).glob("routecal-own-*"))


def bring(page: Page, idle, content: bytes = b"", name: str = "my-model.csv") -> None:
    page.locator('input[type="file"]').set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": content or example_csv()}
    )
    expect(page.get_by_text("as they were read")).to_be_visible()
    idle(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_bringing_a_file(visit, idle, width: int):
    before = kept()
    page = visit("yourdata", width=width)
    bring(page, idle)
    expect(page.get_by_text("my-model.csv: 4,000 rows")).to_be_visible()
    page.get_by_role("button", name="Use this data").click()
    expect(page.get_by_text("In use on every page")).to_be_visible()
    idle(page)
    assert_no_text_is_cut(page)
    assert "No evidence beyond confidence" in page.get_by_test_id("stMain").inner_text()
    assert len(kept() - before) == 1

    if width > 800:
        page.get_by_test_id("stSidebarNav").get_by_role("link", name="Matched-confidence gap", exact=True).click()
        expect(page.get_by_role("heading", name="At the same confidence")).to_be_visible()
        idle(page)
        assert "your model · my-model · uploaded" in page.get_by_test_id("stCaptionContainer").first.inner_text()

        other = visit("gap?cache=your+data", stranger=True)
        assert "your model" not in other.get_by_test_id("stMain").inner_text()
        expect(other.get_by_text("Your data was removed")).to_be_visible()
        assert other.get_by_role("combobox", name="Cache").count() == 0

    page.close()
    deadline = time.monotonic() + PATIENCE
    while kept() - before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert kept() <= before


def test_a_refused_file_says_why_and_the_page_lives_on(visit, idle):
    page = visit("yourdata")
    chooser = page.locator('input[type="file"]')
    chooser.set_input_files({"name": "a.npz", "mimeType": "application/zip", "buffer": b"\x80\x04K\x01."})
    expect(page.get_by_text("pickles are never read)")).to_be_visible()
    example = page.get_by_role("button", name="Try the example")
    expect(example).to_be_disabled()
    page.get_by_test_id("stFileChipDeleteBtn").click()
    expect(example).to_be_enabled()
    example.click()
    expect(page.get_by_role("heading", name="rows")).to_be_visible()
    idle(page)


def test_sql_and_its_csv_are_inert(visit, idle, tmp_path: Path):
    page = visit("yourdata")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.get_by_role("textbox", name="One SELECT").fill(
        "SELECT '=1+1' AS \"=name\", '<img src=x onerror=alert(1)>' AS \"<b>bold</b>\", -0.5 AS number"
    )
    page.get_by_role("textbox", name="One SELECT").press("Control+Enter")
    idle(page)
    page.get_by_role("button", name="Run query", exact=True).click()
    button = page.get_by_role("button", name="CSV", exact=True)
    expect(button).to_be_visible()
    idle(page)
    with page.expect_download() as download:
        button.click()
    download.value.save_as(tmp_path / "answer.csv")
    assert (tmp_path / "answer.csv").read_text().splitlines() == [
        "'=name,<b>bold</b>,number",
        "'=1+1,<img src=x onerror=alert(1)>,-0.5",
    ]
    assert dialogs == []
