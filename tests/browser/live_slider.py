"""The Bandwidth lab's sliders, measured: key press to painted surface beside a bare page, and curves per second.

Not a test: a measurement for a quiet machine, `python tests/browser/live_slider.py CACHE`. Both are taken in one run,
one after the other, so that their ratio means something on a machine that is busy with other things too.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser.dragging import drag_live_slider  # noqa: E402
from tests.browser.latency import BARE, serve  # noqa: E402

PRESSES, ROUNDS, DRAGS = 10, 3, 5
BARE_PORT, APP_PORT = 8773, 8774
# Resolves with the time of the first frame after the last figure of the page has new data.
NEXT_PAINT = """() => new Promise(resolve => {
    const data = () => {
        const figure = [...document.querySelectorAll('.js-plotly-plot')].at(-1);
        return figure && figure.data ? JSON.stringify(figure.data.map(trace => trace.z || trace.y)) : null;
    };
    const before = data();
    const look = () => {
        const now = data();
        if (now && now !== before) requestAnimationFrame(() => resolve(performance.now()));
        else setTimeout(look, 5);
    };
    look();
})"""


def latencies(page: Page, slider: str) -> list[float]:
    """Milliseconds from each key press to the first frame with the new figure."""
    times = []
    control = page.get_by_role("slider", name=slider)
    control.focus()
    for press in range(PRESSES):
        start = page.evaluate("() => performance.now()")
        waiting = page.evaluate_handle(f"() => ({{ painted: ({NEXT_PAINT})() }})")
        control.press("ArrowRight" if press % 2 else "ArrowLeft")
        times.append(page.evaluate("async handle => await handle.painted", waiting) - start)
        page.wait_for_timeout(250)
    return times


def opened(browser: Browser, address: str, slider: str, n_figures: int) -> Page:
    """The page with its figures drawn and no long work left."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.get_by_role("slider", name=slider).wait_for(timeout=120_000)
    page.wait_for_function(
        "n => document.querySelectorAll('.js-plotly-plot .main-svg').length >= n"
        " && !document.querySelector('[data-testid=\"stProgress\"]')",
        arg=n_figures,
        timeout=600_000,
    )
    page.wait_for_timeout(2000)
    return page


def main(cache: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "bare.py"
        script.write_text(BARE)
        servers = [serve(script, BARE_PORT, cache), serve(ROOT / "app/main.py", APP_PORT, cache)]
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
                )
                bare = opened(browser, f"http://127.0.0.1:{BARE_PORT}", "Planted gap", 1)
                lab = opened(browser, f"http://127.0.0.1:{APP_PORT}/bandwidth", "Bandwidth", 2)
                latencies(bare, "Planted gap")  # warm both up
                latencies(lab, "Bandwidth")
                pairs = [(latencies(bare, "Planted gap"), latencies(lab, "Bandwidth")) for _ in range(ROUNDS)]
                floor = statistics.median([time for pair in pairs for time in pair[0]])
                surface = statistics.median([time for pair in pairs for time in pair[1]])
                print(f"bare page          {floor:6.0f} ms")
                print(f"surface            {surface:6.0f} ms  {surface / floor:.2f} x the bare page")
                drags = [drag_live_slider(lab, 2.0) for _ in range(DRAGS)]
                best = max(drags, key=lambda drag: drag.frames_per_second)
                middle = statistics.median(drag.frames_per_second for drag in drags)
                print(f"dragging           {middle:6.1f} curves a second (median of {DRAGS} drags), {best} at best")
                browser.close()
        finally:
            for server in servers:
                server.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
