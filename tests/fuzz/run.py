"""`make fuzz`: every target in turn, with new random examples, until the time is up.

python tests/fuzz/run.py --minutes 10 [--only WORDS] [--seed N]

A failing example is made small, printed and kept under .hypothesis/fuzz; the next run of its target starts with it.
Making it small may take a few minutes beyond the time asked for.
"""

from __future__ import annotations

import argparse
import logging
import random
import secrets
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz import address_targets, engine_targets, files, import_targets, store_targets
from tests.fuzz.target import Target, counted

GROUPS = {
    "engine": engine_targets,
    "store": store_targets,
    "import": import_targets,
    "files": files,
    "pages": address_targets,
}
SHOWN = 6000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--only", default="", help="targets whose name or group (engine, store, import, files, pages) contains this"
    )
    parser.add_argument("--seed", type=int, default=None, help="to draw the examples of an earlier run again")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    chosen = [
        target
        for group, module in GROUPS.items()
        for target in module.TARGETS
        if arguments.only in target.name or arguments.only == group
    ]
    if not chosen:
        parser.error(f"no target is called {arguments.only!r}")
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {len(chosen)} targets, {arguments.minutes:g} minutes", flush=True)
    failed = _fuzz(chosen, seed, time.monotonic() + 60 * arguments.minutes)
    width = max(len(target.name) for target in chosen)
    for target in chosen:
        outcome = "FAILED" if target.name in failed else "ok" if counted[target.name] else "not reached"
        print(f"{target.name:<{width}}  {counted[target.name]:>7,} examples  {outcome}")
    print(", ".join(f"{n:,} {end}" for end, n in sorted(files.ended.items())))
    print(f"{sum(counted.values()):,} examples, {len(failed)} targets failed; seed {seed}")
    return 1 if failed else 0


def _fuzz(targets: list[Target], seed: int, end: float) -> set[str]:
    """First a short turn of each, then long ones in a new order every time; a target that failed is done."""
    rng = random.Random(seed)
    failed: set[str] = set()
    first = True
    try:
        while len(failed) < len(targets):
            for target in rng.sample(targets, len(targets)):
                if time.monotonic() >= end:
                    return failed
                if target.name not in failed and not _turn(target, target.quick if first else target.round, rng):
                    failed.add(target.name)
            first = False
    except KeyboardInterrupt:
        print("stopped")
    return failed


def _turn(target: Target, n: int, rng: random.Random) -> bool:
    seed = rng.getrandbits(32)
    try:
        target.run(n, seed=seed)
    except Exception as found:
        print(f"\n{target.name} FAILED; to see it again: make fuzz ONLY='{target.name}'")
        for error in found.exceptions if isinstance(found, ExceptionGroup) else [found]:
            notes = "\n".join(getattr(error, "__notes__", ()))
            print(f"{type(error).__name__}: {error}\n{_place(error)}\n{notes[:SHOWN]}\n", flush=True)
        return False
    return True


def _place(error: BaseException) -> str:
    """Where in our own code it was raised."""
    root, places, step = Path(__file__).resolve().parents[2], [], error.__traceback__
    while step is not None:
        path = Path(step.tb_frame.f_code.co_filename)
        if path.is_relative_to(root) and ".venv" not in path.parts:
            places.append(f"  {path.relative_to(root)}:{step.tb_lineno}")
        step = step.tb_next
    return "\n".join(places[-4:])


if __name__ == "__main__":
    sys.exit(main())
