"""What this machine's Chromium makes of HTML: reports as PDF. No Streamlit in here."""

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
