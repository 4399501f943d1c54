"""`python -m engine tables CACHE --out DIR`: the paper's tables for the runs of a cache, as CSV and LaTeX."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.benchmark.setup import MIN_SAMPLES
from engine.commands.command_line import terminal_progress
from engine.core.errors import InvalidInput
from engine.paper import Evidence, gather, single_runs
from engine.paper.counterparts import COUNTERPARTS, FURTHER, Table, written_tables
from engine.store import open_cache
from engine.store.atomic import replacing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cache", nargs="?", help="cache file (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables; made if missing")
    parser.add_argument("--runs", nargs="+", metavar="RUN_ID", help="only these runs (default: all but ensembles)")


def run(arguments: argparse.Namespace) -> int:
    sources = dict.fromkeys(name for item in (*COUNTERPARTS.values(), *FURTHER.values()) for name in item.sources)
    with open_cache(arguments.cache) as cache:
        runs = single_runs(cache.runs(), arguments.runs)
        # The scores with intervals are those without them, too.
        asked = [name for name in sources if name != "scores"]
        found = gather(cache, asked, runs=runs, progress=terminal_progress()).found
    tables, left_out = written_tables(Evidence(runs, {**found, "scores": found["intervals"]}))
    if not tables:
        raise InvalidInput("runs", "at least one run", "none")
    for path in write_tables(tables, arguments.out):
        print(path)
    for row in runs.to_dict("records"):
        if not row["has_logits"] or row["n_samples"] < MIN_SAMPLES:
            reason = f"fewer than {MIN_SAMPLES} samples" if row["has_logits"] else "no logits"
            print(f"run without calibrators: {row['run_id']} ({reason})", file=sys.stderr)
    for name, reason in left_out.items():
        print(f"table left out: {name} ({reason})", file=sys.stderr)
    return 0


def write_tables(tables: Sequence[Table], directory: Path) -> list[Path]:
    """Write each table as NAME.csv and NAME.tex; a file appears whole or not at all."""
    written = []
    for table in tables:
        for suffix, text in ((".csv", table.frame.to_csv(index=False)), (".tex", table.latex)):
            target = directory / f"{table.name}{suffix}"
            try:
                with replacing(target) as temporary:
                    temporary.write_text(text, encoding="utf-8")
            except OSError as error:
                raise InvalidInput("--out", "a folder that can be written to", f"{directory} ({error})") from error
            written.append(target)
    return written
