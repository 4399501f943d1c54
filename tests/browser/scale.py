"""How long a viewer waits on a large cache: 300 runs of 50,000 samples, unless told otherwise.

Not a test: a measurement, run by `make scale`. It builds the cache (3 GB with its shards, removed afterwards), serves
it, opens every page on a run that nobody has opened before (cold, on a server at rest), then clicks through the
navigation (warm).
Promises: the page's question on screen at most 1 s later than a bare Streamlit page shows its title in the same browser
(Streamlit's own start, 1.5 to 2 s here, which no page can shorten; timed anew before every page), the verdict and a
figure within 10 s (60 s behind a bar on pages that fit or go over all runs), a warm switch within 1.5 s, the server
below 3 GB.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import psutil
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.registry import PAGES  # noqa: E402
from app.state.links import run_query  # noqa: E402
from app.state.selection import Protocol, Selection, Slice  # noqa: E402
from app.state.view import View  # noqa: E402
from engine.store import Cache, open_cache, publish  # noqa: E402
from tests.bench.data import write_sweep  # noqa: E402
from tests.browser.windows import launch, switch  # noqa: E402
from tests.serving import serve, serve_bare  # noqa: E402

SIGN, FIGURE, LONG, SWITCH, MEMORY = 1.0, 10.0, 60.0, 1.5, 3000.0  # seconds, the first after a bare page; megabytes
PATIENCE = 120.0
AT_REST = 10.0
"""Percent of one core that a server takes which nobody looks at."""
NO_FIGURE = ("yourdata",)
BEHIND_A_BAR = ("overview", "sweep", "paper", "controls", "bandwidth", "calibrators", "probes")
ROUNDS = 2
BARE = """
import streamlit as st

st.title("Bare")
st.progress(0.0, "working")
"""
# Pages on the whole cache share what they compute; another feature keeps the Sweep's first visit cold.
FEATURES = {"sweep": "r_std"}
MARKS = ("sign", "verdict", "figure", "rest")
# Notes when each thing is first seen, in milliseconds after the navigation began; rest may be broken by a bar.
WATCH = """
window.seen = {};
const marks = {
    sign: () => document.querySelector('h1, .st-key-verdict, [data-testid="stProgress"]'),
    verdict: () => document.querySelector('.st-key-verdict'),
    figure: () => document.querySelector('.js-plotly-plot .main-svg'),
    rest: () => document.querySelector('h1')
        && document.querySelector('[data-testid="stApp"][data-test-script-state="notRunning"]')
        && !document.querySelector('[data-testid="stProgress"]'),
};
const look = () => {
    for (const [name, find] of Object.entries(marks)) {
        if (!find()) { if (name === 'rest') delete window.seen.rest; }
        else if (!(name in window.seen)) window.seen[name] = performance.now();
    }
    setTimeout(look, 20);
};
look();
"""


def wait_for_rest(server: psutil.Process) -> None:
    """Until the server has done what the page before asked for, which goes on for a minute when that is closed."""
    until = time.monotonic() + PATIENCE
    while server.cpu_percent(interval=1.0) > AT_REST and time.monotonic() < until:
        pass


class Memory:
    """The most megabytes that the server and its children held, looked at four times a second."""

    def __init__(self, server: psutil.Process) -> None:
        self.most = 0.0
        self._server, self._done = server, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def now(self) -> float:
        total = 0
        for process in (self._server, *self._server.children(recursive=True)):
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total / 2**20

    def _watch(self) -> None:
        while not self._done.wait(0.25):
            try:
                self.most = max(self.most, self.now())
            except psutil.NoSuchProcess:
                return

    def stop(self) -> None:
        self._done.set()
        self._thread.join()


def addresses(cache: Cache) -> dict[str, str]:
    """Every page on the first run of a cell of its own."""
    runs = cache.runs().set_index("run_id", drop=False)
    firsts = runs.index[runs["seed"] == 0]
    found = {}
    for position, entry in enumerate(PAGES):
        run_id, feature = firsts[position % len(firsts)], FEATURES.get(entry.name, "r_agg")
        selection = Selection(cache.fingerprint, run_id, None, feature, Slice(), Protocol())
        query = run_query(View(cache, runs, selection), run_id)
        found[entry.name] = f"{entry.address}?{urlencode(query)}"
    return found


def open_bare(browser: Browser, address: str) -> float:
    """Seconds to the title of a page that has nothing else to do."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(WATCH)
    page.goto(address)
    page.wait_for_function("window.seen.sign", timeout=PATIENCE * 1000)
    took = float(page.evaluate("window.seen.sign")) / 1000
    page.close()
    return took


def open_cold(browser: Browser, address: str) -> dict[str, float]:
    """Seconds to the first sign of life, the verdict, the first figure and rest; what never came is missing."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(WATCH)
    page.goto(address)
    until = time.monotonic() + PATIENCE
    seen: dict[str, float] = {}
    while time.monotonic() < until:
        page.wait_for_timeout(250)
        seen = page.evaluate("window.seen")
        # At rest without a figure: this page has none to show (or waits for a button).
        if "rest" in seen and ("figure" in seen or page.evaluate("performance.now()") > seen["rest"] + 8000):
            break
    page.close()
    return {name: milliseconds / 1000 for name, milliseconds in seen.items()}


def shown(seconds: float | None, limit: float) -> str:
    if seconds is None:
        return f"{'–':>9} "
    return f"{seconds:8.2f} s{' ' if seconds <= limit else '!'}"


def measure(cache: Path) -> int:
    """Print the table; 1 if a promise was missed."""
    with open_cache(cache) as opened:
        sizes, places = opened.runs()["n_samples"], addresses(opened)
    missed = 0
    with serve_bare(BARE, cache) as bare, serve(cache) as app, sync_playwright() as playwright:
        server = psutil.Process(app.process.pid)
        memory = Memory(server)
        browser = launch(playwright)
        print(f"{len(sizes)} runs, {sizes.sum():,} samples; load average {os.getloadavg()[0]:.1f}")
        print(
            f"{'page':<26}{'bare page':>9}{'first sign':>13}{'verdict':>11}{'figure':>11}{'at rest':>11}{'server':>12}"
        )
        for name, place in places.items():
            wait_for_rest(server)
            floor = open_bare(browser, bare.address)
            seen = open_cold(browser, f"{app.address}/{place}")
            drawn = LONG if name in BEHIND_A_BAR else FIGURE
            limits = {"sign": floor + SIGN, "verdict": drawn} | ({} if name in NO_FIGURE else {"figure": drawn})
            missed += sum(seen.get(mark, PATIENCE) > limit for mark, limit in limits.items())
            columns = (shown(seen.get(mark), limits.get(mark, PATIENCE)) for mark in MARKS)
            print(f"{name:<26}{floor:7.2f} s {' '.join(columns)}{memory.now():9.0f} MB", flush=True)
        print("Warm switch")
        window = browser.new_page(viewport={"width": 1280, "height": 900})
        window.goto(app.address)
        window.get_by_test_id("stSidebarNav").wait_for(timeout=PATIENCE * 1000)
        times: dict[str, list[float]] = {entry.name: [] for entry in PAGES}
        for _ in range(ROUNDS + 1):
            for entry in (*PAGES[1:], PAGES[0]):
                times[entry.name].append(switch(window, entry))
        for name, (_, *warm) in times.items():
            missed += median(warm) > SWITCH
            print(f"{name:<26}{shown(median(warm), SWITCH)}", flush=True)
        browser.close()
        memory.stop()
    missed += memory.most > MEMORY
    print(f"server: at most {memory.most:.0f} MB; load average {os.getloadavg()[0]:.1f}; {missed} promises missed")
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cache", type=Path, help="a cache to measure on, in place of a made-up one")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--samples", type=int, default=50_000)
    chosen = parser.parse_args()
    if chosen.cache is not None:
        return measure(chosen.cache.resolve())
    with tempfile.TemporaryDirectory(prefix="routecal-scale-") as folder:
        write_sweep(Path(folder) / "shards", chosen.runs, chosen.samples)
        print(publish(Path(folder) / "shards", Path(folder) / "cache.duckdb"), flush=True)
        return measure(Path(folder) / "cache.duckdb")


if __name__ == "__main__":
    sys.exit(main())
