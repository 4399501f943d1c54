"""`report`: what the protocol says about a cache, in one file to send; as PDF by the Chromium of this machine."""

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from app.report import Settings, build_report
from engine.commands.command_line import terminal_progress
from engine.core.errors import InvalidInput, RouteCalError
from engine.store import open_cache
from engine.store.atomic import replacing

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


class CannotWrite(RouteCalError):
    """The place for the report cannot be written to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = Settings()
    parser.add_argument("cache", nargs="?", help="cache file (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parser.add_argument(
        "--run", metavar="ID", nargs="+", action="extend", default=[],
        help="runs to show in detail (default: of each cell the one with the lowest seed, at most twelve)",
    )  # fmt: skip
    parser.add_argument("--feature", default=defaults.feature, help="feature or extra column (default: %(default)s)")
    parser.add_argument(
        "--min-support", type=int, default=defaults.min_support, metavar="N",
        help="samples of both groups for a bin to count (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, help="file to write (default: report.html or report.pdf)")
    parser.add_argument("--format", choices=("html", "pdf"), help="default: what --out ends in, or html")


def run(arguments: argparse.Namespace) -> int:
    kind = _kind(arguments)
    out = arguments.out or Path(f"report.{kind}")
    if arguments.min_support < 1:
        raise InvalidInput("--min-support", "a whole number from 1", str(arguments.min_support))
    _check_writable(out)
    browser = find_browser() if kind == "pdf" else ""  # before the work, not after it
    with open_cache(arguments.cache) as cache:
        settings = Settings(arguments.feature, arguments.min_support)
        report = build_report(cache, arguments.run, settings, progress=terminal_progress())
    text = report.html()
    content = print_to_pdf(text, browser) if kind == "pdf" else text.encode()
    try:
        with replacing(out) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise CannotWrite(f"{out}: {error.strerror or error}") from error
    print(f"wrote {out}: {len(content) / 1e6:.1f} MB")
    return 0


def _kind(arguments: argparse.Namespace) -> str:
    suffix = "" if arguments.out is None else arguments.out.suffix.lower().lstrip(".")
    return arguments.format or ("pdf" if suffix == "pdf" else "html")


def _check_writable(out: Path) -> None:
    """Say at once that the report will have no place; the work takes a while."""
    if out.is_dir():
        raise CannotWrite(f"{out}: is a folder; name a file in it")
    if not out.parent.is_dir():
        raise CannotWrite(f"{out}: there is no folder {out.parent}; make it first")
    try:
        tempfile.TemporaryFile(dir=out.parent).close()
    except OSError as error:
        raise CannotWrite(f"{out}: {error.strerror or error}") from error
