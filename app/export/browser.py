"""What this machine's Chromium makes of HTML: reports as PDF, figures as PDF, PNG and SVG. No Streamlit in here."""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import unquote

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from app.plots.theme import Theme
from engine.core.errors import RouteCalError

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
BROWSER_VARIABLE = "BROWSER_PATH"
"""Names a browser that is not on the path; Plotly's own export reads the same variable."""
_PATIENCE = 180
WIDTHS = {"one column (3.25 in)": 3.25, "text width (5.5 in)": 5.5, "two columns (6.75 in)": 6.75}
"""Inches, as templates of conferences have them."""
KINDS = {"PDF": "application/pdf", "SVG": "image/svg+xml", "PNG": "image/png"}
_DPI, _POINTS = 300, 8


class NoBrowser(RouteCalError):
    """A file was asked for that only a browser can make."""


class PrintFailed(RouteCalError):
    """The browser did not make it."""


def find_browser(what: str = "PDF") -> str:
    """The browser to print with."""
    named = os.environ.get(BROWSER_VARIABLE)
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        why = f"{named!r}, which {BROWSER_VARIABLE} names, is no program" if named else "no Chromium or Chrome is here"
        raise NoBrowser(
            f"{what} cannot be made: {why}; install one (on Debian: apt-get install chromium), name it in "
            f"{BROWSER_VARIABLE}, or make HTML and print it from any browser"
        )
    return found


def print_to_pdf(text: str, browser: str) -> bytes:
    """The HTML as a reader would print it."""
    return _run(text, browser, "PDF", "--no-pdf-header-footer", "--print-to-pdf={target}")


def _run(text: str, browser: str, what: str, *options: str) -> bytes:
    """The file that the browser writes to `{target}`, or what it says where no option names that."""
    with tempfile.TemporaryDirectory(prefix="routecal-") as name:
        source, target = Path(name) / "page.html", Path(name) / f"made.{what.lower()}"
        source.write_text(text, encoding="utf-8")
        command = [
            browser, "--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--no-first-run", f"--user-data-dir={Path(name) / 'profile'}", "--hide-scrollbars",
            *(option.format(target=target) for option in options),
        ]  # fmt: skip
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium refuses to run as root with one
        try:
            finished = subprocess.run([*command, source.as_uri()], capture_output=True, timeout=_PATIENCE)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PrintFailed(f"{what} cannot be made: {Path(browser).name} did not finish ({error})") from error
        made = target.read_bytes() if target.is_file() else b""
        if "{target}" not in "".join(options):
            made = finished.stdout
        if not made:
            said = (finished.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            raise PrintFailed(
                f"{what} cannot be made: {Path(browser).name} wrote no file ({said[:200]}); "
                "make HTML and print it from any browser"
            )
        return made


def in_light(spec: str) -> str:
    """A drawn figure as JSON, in the colours of paper."""
    for dark, light in zip(Theme(dark=True).colours, Theme().colours, strict=True):
        spec = spec.replace(dark, light)
        if dark.startswith("#"):  # where it is drawn translucent
            before, after = (",".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5)) for colour in (dark, light))
            spec = spec.replace(f"rgba({before},", f"rgba({after},")
    return spec


def figure_file(figure: go.Figure, kind: str, inches: float, browser: str) -> bytes:
    """A figure for a paper: in light colours, `inches` wide, its text 8 points high, 300 dots an inch where it has any.

    kind : of `KINDS`.
    """
    shrink = _POINTS / 72 * 96 / Theme().font_size
    height = figure.layout.height or 440
    width, size = round(96 * inches / shrink), (96 * inches, height * shrink)
    layout = {"width": width, "height": height, "autosize": False, "paper_bgcolor": "white"}
    spec = json.loads(in_light(go.Figure(figure).update_layout(**layout).to_json()))
    text = json.dumps(spec).replace("<", "\\u003c")  # nothing in a name can end the script that holds it
    after = "" if kind != "SVG" else (
        ".then(() => Plotly.toImage(place, {format: 'svg', width: spec.layout.width, height: spec.layout.height}))"
        ".then((image) => document.body.textContent = image)"
    )  # fmt: skip
    page = (
        f'<!doctype html><meta charset="utf-8"><style>@page {{size: {size[0]}px {size[1]}px; margin: 0}} '
        f'body {{margin: 0; zoom: {shrink}}}</style><div id="place"></div><script>{get_plotlyjs()}</script>'
        f"<script>const spec = {text};"
        f"Plotly.newPlot(place, spec.data, spec.layout, {{staticPlot: true}}){after}</script>"
    )
    if kind == "PDF":
        return print_to_pdf(page, browser)
    if kind == "PNG":
        window = f"--window-size={round(size[0])},{round(size[1])}"
        return _run(page, browser, kind, window, f"--force-device-scale-factor={_DPI / 96}", "--screenshot={target}")
    said = _run(page, browser, kind, "--virtual-time-budget=20000", "--dump-dom").decode()
    found = re.search(r"data:image/svg\+xml,([^<]*)", said)
    if found is None:
        raise PrintFailed(f"SVG cannot be made: {Path(browser).name} drew nothing; use the camera button of the figure")
    drawn = unquote(html.unescape(found[1]))
    return re.sub(
        r'(<svg[^>]*?) width="[\d.]+" height="[\d.]+"',
        rf'\1 width="{inches}in" height="{size[1] / 96:.4f}in"',
        drawn,
        count=1,
    ).encode()
