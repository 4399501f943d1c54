"""`site`: every page for every run as a folder of files, to open without Python, a server or a network."""

import argparse
from pathlib import Path

from app.report.blind import BlindCache
from app.site.build import build, check_place, plan
from app.site.data import names_left
from app.site.supplement import size_in_bytes, write_supplement
from engine.commands.command_line import terminal_progress
from engine.core.errors import RouteCalError
from engine.core.labels import counted, listed
from engine.store import open_cache


class NamesLeft(RouteCalError):
    """A site that should name nobody does."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cache", nargs="?", help="cache file (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parser.add_argument("--out", type=Path, default=Path("site"), help="folder to write (default: %(default)s)")
    for name, what in (("runs", "ids of runs"), ("pages", "names of pages"), ("features", "features of the tests")):
        parser.add_argument(f"--{name}", metavar="NAME", nargs="+", default=[], help=f"{what} (default: all)")
    parser.add_argument(
        "--anonymous", action="store_true", help="search what was written for names, and list the words removed"
    )
    parser.add_argument(
        "--with-shards", action="store_true",
        help="also write a zip beside the folder: the site, its shards, checksums and how to make the numbers again",
    )  # fmt: skip
    parser.add_argument("--limit", default="50MB", metavar="SIZE", help="of the zip (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    out, limit = arguments.out, size_in_bytes(arguments.limit)
    check_place(out)  # before the work, not after it
    with open_cache(arguments.cache) as cache:
        planned = plan(cache, arguments.runs, arguments.pages, arguments.features)
        removed = build(cache.path, planned, out, progress=terminal_progress())
        blind = BlindCache(cache)
        if arguments.anonymous:
            left = names_left(out, blind.scrub)
            if left:
                raise NamesLeft(f"{out}: names are left in it: {listed(left)}; do not send it, and report this")
            words = [f"{word} ({instead})" for word, instead in removed.items()]
            print(f"anonymous: removed {counted(len(words), 'word')}{': ' + ', '.join(words) if words else ''}")
        n_bytes = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
        print(f"wrote {out}: {counted(len(planned.features), 'run')}, {n_bytes / 1e6:.1f} MB; open {out}/index.html")
        if arguments.with_shards:
            target, run_ids = out.with_name(f"{out.name}.zip"), blind.clean_ids(planned.features)
            left_out = write_supplement(out, blind, run_ids, target, limit)
            print(f"wrote {target}: {target.stat().st_size / 1e6:.1f} MB")
            if left_out:
                print(f"left out, for want of room: shards of {', '.join(left_out)}")
    return 0
