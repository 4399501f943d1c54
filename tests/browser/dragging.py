"""Drags the Bandwidth lab's live slider and counts the curves that are painted meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass

from playwright.sync_api import Page

# Notes, frame by frame, when the lines of the slices have changed on screen.
WATCH = """() => {
    const figure = [...document.querySelectorAll('.js-plotly-plot')].find(f => f.querySelector('.slider-grip-rect'));
    const drawn = () => [...figure.querySelectorAll('.xy .scatterlayer .js-line')].map(l => l.getAttribute('d')).join();
    window.paintings = [[performance.now(), drawn()]];
    const look = () => {
        const now = drawn();
        if (now !== window.paintings.at(-1)[1]) window.paintings.push([performance.now(), now]);
        requestAnimationFrame(look);
    };
    look();
}"""


@dataclass(frozen=True)
class Drag:
    """`n_moves` of the mouse, `n_painted` changes of the curves on screen, `n_distinct` curves, over `seconds`."""

    n_moves: int
    n_painted: int
    n_distinct: int
    seconds: float

    @property
    def frames_per_second(self) -> float:
        return self.n_painted / self.seconds


def drag_live_slider(page: Page, seconds: float) -> Drag:
    """From one end of the slider to the other, as fast as the mouse can be moved, in about so many seconds."""
    grip = page.locator(".slider-grip-rect").first
    grip.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    rail, box = page.locator(".slider-rail-rect").first.bounding_box(), grip.bounding_box()
    assert rail is not None
    assert box is not None
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, height)
    page.mouse.down()
    page.mouse.move(rail["x"] + 2, height)
    page.wait_for_timeout(200)
    page.evaluate(WATCH)
    start, n_moves, share = time.monotonic(), 0, 0.0
    while share < 1:
        share = min(1.0, (time.monotonic() - start) / seconds)
        page.mouse.move(rail["x"] + 2 + share * (rail["width"] - 4), height)
        n_moves += 1
    elapsed = time.monotonic() - start
    page.mouse.up()
    page.wait_for_timeout(100)
    painted, distinct = page.evaluate(
        "() => [window.paintings.length - 1, new Set(window.paintings.map(p => p[1])).size]"
    )
    return Drag(n_moves, painted, distinct, elapsed)
