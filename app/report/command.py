"""`report`: what the protocol says about a cache, in one file to send; as PDF by the Chromium of this machine."""

import argparse
import tempfile
from pathlib import Path

from app.export.browser import find_browser, print_to_pdf
from app.report import Settings, build_report
from engine.commands.command_line import terminal_progress
from engine.core.errors import InvalidInput, RouteCalError
from engine.store import open_cache
from engine.store.atomic import replacing


class CannotWrite(RouteCalError):
    """The place for the report cannot be written to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = Settings()
    parser.add_argument("cache", nargs="?", help="cache file (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parser.add_argument(
        "--run", metavar="ID", nargs="+", action="extend", default=[],
        help="runs to show in detail (default: those that reject, then where to look first, at most three)",
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
