"""The dashboard served for real and a Chromium to look at it with."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.windows import find_chromium, launch

ROOT = Path(__file__).resolve().parents[2]
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


def cut_text(page: Page) -> list[str]:
    """What a reader cannot read in full, in words."""
    return page.evaluate(CUT_TEXT)


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
def server(cache_of_kinds: Path) -> Iterator[str]:
    """The address of a dashboard over a cache with every kind of run."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"ROUTECAL_CACHE": str(cache_of_kinds)}, stdout=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_healthy(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_until_healthy(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert process.poll() is None, "the dashboard did not start"
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=1)
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError("the dashboard did not answer in 90 s")


def wait_until_idle(page: Page, patience: float = 90.0) -> None:
    """The script has run, nothing is stale, for 120 ms on end; fails after `patience` seconds."""
    quiet, deadline = 0, time.monotonic() + patience
    while quiet < 3:
        assert time.monotonic() < deadline, "the page did not come to rest"
        quiet = quiet + 1 if page.evaluate(IDLE) else 0
        page.wait_for_timeout(60)


@pytest.fixture
def visit(browser: Browser, server: str) -> Iterator[Callable[..., Page]]:
    """Open an address of the dashboard in a fresh window and wait until it is drawn."""
    contexts = []

    def open_(address: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.goto(address if address.startswith("http") else f"{server}/{address}")
        page.wait_for_selector('[data-testid="stApp"]', timeout=60_000)
        wait_until_idle(page)
        return page

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture
def idle() -> Callable[[Page], None]:
    """Wait until a page has come to rest after an action."""
    return wait_until_idle
