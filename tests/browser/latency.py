"""How long a viewer waits: from an arrow key to a painted figure, and from a click in the navigation to a painted page.

Not a test: a measurement for a quiet machine, run by `make latency`. Sliders are compared with a bare Streamlit page of
one slider and one small figure, pressed in turn with them, so that a busy moment hits both.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.registry import PAGES, page_for  # noqa: E402
from tests.browser.dragging import drag_live_slider  # noqa: E402
from tests.browser.windows import AT_REST, PATIENCE, launch, switch  # noqa: E402
from tests.serving import serve, serve_bare  # noqa: E402

PRESSES, ROUNDS = 14, 3
SWITCH_LIMIT = 1.0  # seconds
VISIT_LIMITS = (1.6, 1.2)
"""How many bare pages the first and the second visit of a page may take."""
NO_FIGURE = ("yourdata",)


@dataclass(frozen=True)
class Slider:
    """A slider that redraws one figure of a page (by place), and how many bare pages that may take."""

    page: str
    label: str
    limit: float
    query: str = ""
    figure: int = 0


SLIDERS = (
    Slider("controls", "Planted gap", 2.0),
    Slider("null", "Permutations", 2.0, "method=simulated+counts"),
    Slider("bandwidth", "Bandwidth", 2.5, figure=-1),
)
DRAGS, DRAG_SECONDS, CURVES_PER_SECOND = 5, 2.0, 8
BARE = """
import plotly.graph_objects as go
import streamlit as st

value = st.slider("Value", 0.0, 0.3, 0.1, 0.01)
st.plotly_chart(go.Figure(go.Scatter(x=[0, 1, 2], y=[0, value, 1])), key="figure")
"""
# Resolves with the time of the first frame after a figure was given new data. Data are compared by identity: the text
# of a surface takes longer to compare than to draw.
NEXT_PAINT = """place => new Promise(resolve => {
    const data = () => [...document.querySelectorAll('.js-plotly-plot')].at(place)?.data;
    const before = data();
    const look = () => {
        const now = data();
        if (now && now !== before) requestAnimationFrame(() => resolve(performance.now()));
        else setTimeout(look, 5);
    };
    look();
})"""


def open_with_slider(browser: Browser, address: str, label: str) -> Page:
    """A window at rest with its slider in focus."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.get_by_role("slider", name=label).wait_for(timeout=PATIENCE)
    page.wait_for_selector(".js-plotly-plot .main-svg", timeout=PATIENCE)
    page.wait_for_selector(AT_REST, timeout=PATIENCE)
    page.wait_for_selector('[data-testid="stProgress"]', state="detached", timeout=600_000)
    page.wait_for_timeout(2000)
    page.get_by_role("slider", name=label).focus()
    return page


def press(page: Page, key: str, figure: int) -> float:
    """Milliseconds from a key press to the first frame with the new figure."""
    page.bring_to_front()
    asked = f"place => ({{ pressed: performance.now(), painted: ({NEXT_PAINT})(place) }})"
    waiting = page.evaluate_handle(asked, figure)
    page.keyboard.press(key)
    took = page.evaluate("async waiting => await waiting.painted - waiting.pressed", waiting)
    page.wait_for_timeout(250)
    return float(took)


def measure_slider(browser: Browser, bare: str, app: str, slider: Slider) -> None:
    """Press the bare page's slider and this one in turn; print both medians and their ratio."""
    windows = {
        "bare": open_with_slider(browser, bare, "Value"),
        "page": open_with_slider(browser, f"{app}/{slider.page}?{slider.query}", slider.label),
    }
    times: dict[str, list[float]] = {"bare": [], "page": []}
    for number in range(PRESSES + 2):
        for name, window in windows.items():
            took = press(window, "ArrowRight" if number % 2 else "ArrowLeft", slider.figure)
            if number >= 2:  # the first two warm up
                times[name].append(took)
    for window in windows.values():
        window.close()
    floor, latency = (statistics.median(times[name]) for name in ("bare", "page"))
    ratio = latency / floor
    title = f"{page_for(slider.page).title}, {slider.label}"
    print(
        f"{title:<40} {latency:6.0f} ms   bare page {floor:5.0f} ms   {ratio:.2f} x"
        f"   (promise {slider.limit:g} x{'' if ratio <= slider.limit else ', MISSED'})",
        flush=True,
    )


def measure_dragging(browser: Browser, app: str) -> None:
    """Curves per second painted while the Bandwidth lab's live slider is dragged."""
    window = open_with_slider(browser, f"{app}/bandwidth", "Bandwidth")
    drags = [drag_live_slider(window, DRAG_SECONDS) for _ in range(DRAGS)]
    window.close()
    rate = statistics.median(drag.frames_per_second for drag in drags)
    verdict = "" if rate >= CURVES_PER_SECOND else ", MISSED"
    print(
        f"{'curves a second, median of 5 drags':<40} {rate:6.1f}     (promise {CURVES_PER_SECOND}{verdict})", flush=True
    )


def measure_switches(browser: Browser, app: str) -> None:
    """Click through the navigation; the first round warms up, the others are timed."""
    window = browser.new_page(viewport={"width": 1280, "height": 900})
    window.goto(app)
    times: dict[str, list[float]] = {entry.name: [] for entry in PAGES}
    for number in range(ROUNDS + 1):
        for entry in (*PAGES[1:], PAGES[0]):
            took = switch(window, entry)
            if number:
                times[entry.name].append(took)
    window.close()
    for entry in PAGES:
        seconds = statistics.median(times[entry.name])
        verdict = "" if seconds < SWITCH_LIMIT else ", MISSED"
        print(f"{'to ' + entry.title:<40} {seconds:6.2f} s   (promise below {SWITCH_LIMIT:g} s{verdict})", flush=True)


def first_figure(browser: Browser, address: str) -> float:
    """Seconds from the call of a page in a new window to its first figure."""
    window = browser.new_page(viewport={"width": 1280, "height": 900})
    started = time.perf_counter()
    window.goto(address)
    window.wait_for_selector(".js-plotly-plot .main-svg", timeout=PATIENCE)
    took = time.perf_counter() - started
    window.close()
    return took


def measure_visits(browser: Browser, cache: Path) -> None:
    """The first and the second visit of every page after a start of the server, beside a bare page's."""
    for entry in PAGES:
        if entry.name in NO_FIGURE:
            continue
        with serve_bare(BARE, cache) as bare, serve(cache) as app:
            times = [(first_figure(browser, bare.address), first_figure(browser, f"{app.address}/{entry.name}"))]
            times.append((first_figure(browser, bare.address), first_figure(browser, f"{app.address}/{entry.name}")))
        said = [
            f"{visit} {took:5.2f} s, bare {floor:5.2f} s, {took / floor:4.2f} x"
            f" (promise {limit:g} x{'' if took / floor <= limit else ', MISSED'})"
            for visit, limit, (floor, took) in zip(("first", "second"), VISIT_LIMITS, times, strict=True)
        ]
        print(f"{entry.title:<28} {'   '.join(said)}", flush=True)


def main(cache: Path) -> None:
    with serve_bare(BARE, cache) as bare, serve(cache) as app, sync_playwright() as playwright:
        browser = launch(playwright)
        print("Slider to painted figure")
        for slider in SLIDERS:
            measure_slider(browser, bare.address, app.address, slider)
        print("Dragging the live slider of the Bandwidth lab")
        measure_dragging(browser, app.address)
        print("Warm page switch to painted figure")
        measure_switches(browser, app.address)
        print("Visits to first figure")
        measure_visits(browser, cache)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
