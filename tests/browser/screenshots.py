"""Pictures of every page over a real cache, for the documentation and for whoever changed a page to look at.

`python tests/browser/screenshots.py CACHE FOLDER`, run by `make screenshots`: each page whole, light, dark and narrow.
The light ones are kept in git, so they are reduced to 256 colours.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.registry import PAGES  # noqa: E402
from tests.browser.conftest import wait_until_idle  # noqa: E402
from tests.browser.windows import launch  # noqa: E402
from tests.serving import serve  # noqa: E402

TALLEST, COLOURS = 6000, 256
PATIENCE = 600.0
"""Seconds for a page that computes for a while on its first visit."""


@dataclass(frozen=True)
class Look:
    """One way of looking at a page."""

    suffix: str
    width: int = 1280
    dark: bool = False


LOOKS = (Look(""), Look("-dark", dark=True), Look("-narrow", width=390), Look("-narrow-dark", width=390, dark=True))


def whole_page(browser: Browser, address: str, look: Look) -> bytes:
    """A page from top to bottom, at rest."""
    page = browser.new_page(
        viewport={"width": look.width, "height": 900}, color_scheme="dark" if look.dark else "light"
    )
    page.goto(address)
    page.wait_for_selector('[data-testid="stApp"]', timeout=60_000)
    wait_until_idle(page, PATIENCE)
    _grow(page, look.width)
    wait_until_idle(page, PATIENCE)
    page.wait_for_timeout(800)
    picture = page.screenshot()
    page.close()
    return picture


def _grow(page: Page, width: int) -> None:
    height = page.evaluate("() => document.querySelector('[data-testid=\"stMain\"]').scrollHeight")
    page.set_viewport_size({"width": width, "height": min(int(height), TALLEST)})


def main(cache: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with serve(cache) as app, sync_playwright() as playwright:
        browser = launch(playwright)
        for entry in PAGES:
            for look in LOOKS:
                picture = Image.open(io.BytesIO(whole_page(browser, f"{app.address}/{entry.address}", look))).convert(
                    "RGB"
                )
                target = folder / f"{entry.name}{look.suffix}.png"
                picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(target, optimize=True)
                print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB", flush=True)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
