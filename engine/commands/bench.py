"""`python -m engine bench`: everything that claims to be fast, beside its best peer, in one run."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from pathlib import Path

from engine.bench.runner import Timing, measure

# Each module exposes CASES; a module's name is also what `--only` takes.
MODULES = ("metrics", "gaps", "sweep", "store", "kernel", "calibrators", "probes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=MODULES, default=list(MODULES), help="parts to run")
    parser.add_argument("--json", type=Path, default=Path("bench.json"), help="file for the figures")


def _line(timing: Timing) -> str:
    ours = f"{timing.seconds * 1e3:10.2f} ms"
    if timing.ratio is None:
        best = ""
    else:
        name = min(timing.peers, key=lambda peer: timing.peers[peer])
        best = f"{timing.ratio:8.1f}x  {name}"
    promise = []
    if timing.target is not None:
        promise.append(f">= {timing.target:g}x")
    if timing.limit_seconds is not None:
        promise.append(f"<= {timing.limit_seconds * 1e3:g} ms")
    kept = {True: "kept", False: "MISSED", None: ""}[timing.kept]
    return f"{timing.name:<46.46}{ours}  {best:<46.46}{' '.join(promise):<14}{kept}"


def run(arguments: argparse.Namespace) -> int:
    print(f"{'work':<46}{'ours':>13}  {'fastest peer takes':<46}{'promise':<14}")
    timings = []
    for name in arguments.only:
        for case in importlib.import_module(f"engine.bench.{name}").CASES:
            timing = measure(case)
            timings.append({"part": name, **_record(timing)})
            print(_line(timing), flush=True)
    scaling = None
    if "store" in arguments.only:
        scaling = _print_scaling()
    figures = {"python": platform.python_version(), "timings": timings, "contingency_scaling": scaling}
    arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"figures written to {arguments.json}", file=sys.stderr)
    return 0


def _record(timing: Timing) -> dict[str, object]:
    return {
        "name": timing.name,
        "seconds": timing.seconds,
        "peers": dict(timing.peers),
        "ratio": timing.ratio,
        "target": timing.target,
        "limit_seconds": timing.limit_seconds,
        "kept": timing.kept,
    }


def _print_scaling() -> list[dict[str, float]]:
    from engine.bench.store import contingency_scaling

    rows = []
    print("\ncontingency in SQL, equal-width bins")
    for row in contingency_scaling():
        rows.append({"n": row.n, "seconds": row.seconds, "peak_mb": row.peak_mb})
        per_row = row.seconds / row.n * 1e9
        print(
            f"  {row.n:>12,} rows {row.seconds:8.3f} s  {per_row:7.0f} ns per row  {row.peak_mb:7.0f} MB peak",
            flush=True,
        )
    return rows
