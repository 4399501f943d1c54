"""HTML to PDF by the Chromium that is on this machine."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from engine.core.errors import RouteCalError

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
BROWSER_VARIABLE = "BROWSER_PATH"
"""Names a browser that is not on the path; Plotly's own export reads the same variable."""
_PATIENCE = 180


class NoBrowser(RouteCalError):
    """A PDF was asked for and there is nothing to print it with."""


class PrintFailed(RouteCalError):
    """The browser did not print."""


def find_browser() -> str:
    """The browser to print with."""
    named = os.environ.get(BROWSER_VARIABLE)
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        what = f"{named!r}, which {BROWSER_VARIABLE} names, is no program" if named else "no Chromium or Chrome is here"
        raise NoBrowser(
            f"PDF cannot be made: {what}; install one (on Debian: apt-get install chromium), name it in "
            f"{BROWSER_VARIABLE}, or make HTML and print it from any browser"
        )
    return found


def print_to_pdf(text: str, browser: str) -> bytes:
    """The HTML as a reader would print it."""
    with tempfile.TemporaryDirectory(prefix="routecal-") as name:
        folder = Path(name)
        source, target = folder / "report.html", folder / "report.pdf"
        source.write_text(text, encoding="utf-8")
        command = [
            browser, "--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--no-first-run", f"--user-data-dir={folder / 'profile'}", "--no-pdf-header-footer",
            f"--print-to-pdf={target}",
        ]  # fmt: skip
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium refuses to run as root with one
        try:
            finished = subprocess.run([*command, source.as_uri()], capture_output=True, text=True, timeout=_PATIENCE)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PrintFailed(f"PDF cannot be made: {Path(browser).name} did not finish ({error})") from error
        if not target.is_file():
            said = (finished.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise PrintFailed(
                f"PDF cannot be made: {Path(browser).name} wrote no file ({said[:200]}); "
                "make HTML and print it from any browser"
            )
        return target.read_bytes()
