"""`python -m engine bench`: everything that claims to be fast, beside its best peer, in one run.

`--scale` measures instead how the store and the tests grow with samples, runs and classes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from pathlib import Path

from engine.bench.runner import Timing, measure
from engine.commands.bench_scale import run_scale

# Each module exposes CASES; a module's name is also what `--only` takes.
MODULES = ("metrics", "gaps", "sweep", "store", "kernel", "calibrators", "probes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=MODULES, default=list(MODULES), help="parts to run")
    parser.add_argument("--json", type=Path, default=Path("bench.json"), help="file for the figures")
    parser.add_argument("--scale", action="store_true", help="measure growth with samples, runs and classes instead")
    parser.add_argument("--out", type=Path, default=Path("bench-scale"), help="folder for figures and plots of --scale")
    parser.add_argument(
        "--largest", type=int, metavar="N", help="with --scale: leave out caches of more than N samples in all"
    )


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
    if arguments.scale:
        return run_scale(arguments.out, arguments.largest)
    print(f"{'work':<46}{'ours':>13}  {'fastest peer takes':<46}{'promise':<14}")
    timings = []
    for name in arguments.only:
        for case in importlib.import_module(f"engine.bench.{name}").CASES:
            timing = measure(case)
            timings.append({"part": name, **_record(timing)})
            print(_line(timing), flush=True)
    figures = {"python": platform.python_version(), "timings": timings}
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
