"""Chromium for tests and measurements: where it is, how it is started, when a page has been painted."""

from __future__ import annotations

import shutil

from playwright.sync_api import Browser, Page, Playwright

from app.registry import PageEntry

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip
PATIENCE = 120_000  # milliseconds
AT_REST = '[data-testid="stApp"][data-test-script-state="notRunning"]'
# Resolves with the time of the first frame in which the page of this title shows a figure that has been drawn since, or
# is at rest. Figures of the page before are marked, so that one left on screen is not taken for a new one.
_PAGE_PAINTED = """title => new Promise(resolve => {
    for (const old of document.querySelectorAll('.js-plotly-plot .main-svg')) old.dataset.old = 'yes';
    const look = () => {
        const heading = document.querySelector('h1');
        const figure = document.querySelector('.js-plotly-plot .main-svg:not([data-old])');
        const atRest = document.querySelector('[data-testid="stApp"][data-test-script-state="notRunning"]');
        const drawn = figure ? !figure.closest('[data-stale="true"]') : atRest;
        if (heading && heading.textContent.includes(title) && drawn)
            requestAnimationFrame(() => resolve(performance.now()));
        else setTimeout(look, 5);
    };
    look();
})"""


def find_chromium() -> str | None:
    """Where Chromium is, or one of its kin."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def launch(playwright: Playwright) -> Browser:
    """A browser without a screen."""
    path = find_chromium()
    if path is None:
        raise FileNotFoundError("no Chromium on this machine; `make chromium` installs Debian's")
    return playwright.chromium.launch(executable_path=path, args=list(_FLAGS))


def switch(window: Page, entry: PageEntry) -> float:
    """Seconds from a click on a page's link in the navigation to the painted page."""
    link = window.get_by_test_id("stSidebarNav").get_by_role("link", name=entry.title, exact=True)
    link.wait_for(timeout=PATIENCE)
    asked = f"title => ({{ clicked: performance.now(), painted: ({_PAGE_PAINTED})(title) }})"
    waiting = window.evaluate_handle(asked, entry.question)
    link.click()
    took = window.evaluate("async waiting => await waiting.painted - waiting.clicked", waiting)
    window.wait_for_selector(AT_REST, timeout=PATIENCE)
    window.wait_for_timeout(300)
    return float(took) / 1000
