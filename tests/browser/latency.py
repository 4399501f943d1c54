"""How long from an arrow key to a painted figure, beside a bare Streamlit page with one slider and one small figure.

Not a test: a measurement for a quiet machine, run by `make latency`. Prints medians and their ratio.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PRESSES = 12
BARE = """
import plotly.graph_objects as go
import streamlit as st

value = st.slider("Planted gap", 0.0, 0.3, 0.1, 0.01)
st.plotly_chart(go.Figure(go.Scatter(x=[0, 1, 2], y=[0, value, 1])), key="figure")
"""
# Resolves with the time of the first frame after the first figure was redrawn.
NEXT_PAINT = """() => new Promise(resolve => {
    const figure = document.querySelector('.js-plotly-plot');
    const drawn = JSON.stringify(figure.data.map(t => t.y));
    const look = () => {
        const now = document.querySelector('.js-plotly-plot');
        if (now && now.data && JSON.stringify(now.data.map(t => t.y)) !== drawn)
            requestAnimationFrame(() => resolve(performance.now()));
        else setTimeout(look, 5);
    };
    look();
})"""


def serve(script: Path, port: int, cache: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    process = subprocess.Popen(
        [*command, "--server.headless", "true"],
        cwd=ROOT,
        env=os.environ | {"ROUTECAL_CACHE": str(cache)},
        stdout=subprocess.DEVNULL,
    )
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1)
        except OSError:
            time.sleep(0.2)
        else:
            return process
    raise SystemExit(f"{script} did not start")


def median_latency(page: Page, slider: str) -> float:
    """Median milliseconds from key press to the first frame with the new figure."""
    times = []
    control = page.get_by_role("slider", name=slider)
    control.focus()
    for press in range(PRESSES + 2):
        start = page.evaluate("() => performance.now()")
        waiting = page.evaluate_handle(f"() => ({{ painted: ({NEXT_PAINT})() }})")
        control.press("ArrowRight" if press % 2 else "ArrowLeft")
        painted = page.evaluate("async handle => await handle.painted", waiting)
        if press >= 2:  # the first two warm caches up
            times.append(painted - start)
        page.wait_for_timeout(250)
    return statistics.median(times)


def measure(browser: Browser, address: str, slider: str) -> float:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.get_by_role("slider", name=slider).wait_for(timeout=60_000)
    page.wait_for_selector(".js-plotly-plot .main-svg", timeout=60_000)
    page.wait_for_timeout(3000)
    latency = median_latency(page, slider)
    page.close()
    return latency


def main(cache: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE)
        servers = [serve(bare, 8771, cache), serve(ROOT / "app/main.py", 8772, cache)]
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
                )
                floor = measure(browser, "http://127.0.0.1:8771", "Planted gap")
                print(f"bare page          {floor:6.0f} ms")
                for name, slider, query in (
                    ("controls", "Planted gap", ""),
                    ("null", "Permutations", "?method=simulated+counts"),
                ):
                    latency = measure(browser, f"http://127.0.0.1:8772/{name}{query}", slider)
                    print(f"{name:<18} {latency:6.0f} ms  {latency / floor:.2f} x the bare page")
                browser.close()
        finally:
            for server in servers:
                server.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
