"""The dashboard served for real and a Chromium to look at it with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.windows import find_chromium, launch
from tests.serving import Served, serve

PATIENCE = 240.0
"""Seconds that a page may take, on a machine with much else to do."""
expect.set_options(timeout=1000 * PATIENCE)

IDLE = """() => {
    const app = document.querySelector('[data-testid="stApp"]');
    return app && app.getAttribute('data-test-script-state') === 'notRunning'
        && app.getAttribute('data-test-connection-state') === 'CONNECTED'
        && !document.querySelector('[data-stale="true"]') && !document.querySelector('[data-testid="stSkeleton"]')
        && !document.querySelector('[data-testid="stProgress"]');
}"""


# A page wider than its window, and figure text that leaves its figure.
CUT_TEXT = """() => {
    const faults = [];
    const wide = document.documentElement.scrollWidth - window.innerWidth;
    if (wide > 2) faults.push(`page is ${wide} px wider than the window`);
    for (const figure of document.querySelectorAll('.js-plotly-plot .main-svg')) {
        const box = figure.getBoundingClientRect();
        for (const text of figure.querySelectorAll('text')) {
            const own = text.getBoundingClientRect();
            if (!text.textContent.trim() || own.width === 0) continue;
            if (own.left < box.left - 3 || own.right > box.right + 3 || own.bottom > box.bottom + 3)
                faults.push(`cut: ${text.textContent}`);
        }
    }
    return faults;
}"""


def assert_no_text_is_cut(page: Page, kind: str = "") -> None:
    """A reader can read everything in full, once figures have found their size; `kind`: faults that begin so."""
    deadline = time.monotonic() + 30
    while found := [fault for fault in page.evaluate(CUT_TEXT) if fault.startswith(kind)]:
        assert time.monotonic() < deadline, found
        page.wait_for_timeout(100)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Without Chromium these tests are skipped, except in CI, which must have it."""
    if find_chromium() is None:
        message = "no Chromium on this machine; `make chromium` installs Debian's"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        launched = launch(playwright)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def server(cache_of_kinds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard over a cache with every kind of run."""
    with serve(cache_of_kinds, tmp_path_factory.mktemp("server") / "log") as served:
        yield served


def wait_until_idle(page: Page, patience: float = PATIENCE) -> None:
    """The script has run, nothing is stale, for 120 ms on end; fails after `patience` seconds, or on an error."""
    quiet, deadline = 0, time.monotonic() + patience
    while quiet < 3:
        assert time.monotonic() < deadline, "the page did not come to rest"
        quiet = quiet + 1 if page.evaluate(IDLE) else 0
        page.wait_for_timeout(60)
    assert not page.get_by_test_id("stException").count(), "the page shows an error"


@pytest.fixture(scope="session")
def person(browser: Browser) -> Callable[..., BrowserContext]:
    """Somebody with a screen of this size and theme, the same each time: who comes back need not load all scripts."""

    @cache
    def of(width: int, height: int, dark: bool) -> BrowserContext:
        return browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )

    return of


@pytest.fixture
def visit(browser: Browser, person: Callable[..., BrowserContext], server: Served) -> Iterator[Callable[..., Page]]:
    """Open an address of the dashboard in a new window and wait until it is drawn; `stranger` has never been here.

    What a server logs meanwhile is printed, for whoever reads why a test failed: a page shows no more than a type.
    """
    strangers: list[BrowserContext] = []
    windows: list[Page] = []
    logged: dict[Served, int] = {}

    def open_(
        address: str,
        *,
        of: Served = server,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        stranger: bool = False,
    ) -> Page:
        logged.setdefault(of, len(of.log_lines()))
        if stranger:
            strangers.append(browser.new_context(viewport={"width": width, "height": height}))
        page = strangers[-1].new_page() if stranger else person(width, height, dark).new_page()
        windows.append(page)
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(address if address.startswith("http") else f"{of.address}/{address}")
        page.wait_for_selector('[data-testid="stApp"]')
        wait_until_idle(page)
        return page

    yield open_
    for opened in (*windows, *strangers):
        opened.close()
    for served, n_lines in logged.items():
        print(*served.faults(n_lines), sep="\n")


@pytest.fixture
def idle() -> Callable[[Page], None]:
    """Wait until a page has come to rest after an action."""
    return wait_until_idle
