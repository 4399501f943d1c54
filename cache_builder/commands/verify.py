"""`verify`: check shards against their checksums and their own contents."""

import argparse
from pathlib import Path

from engine.core.errors import CacheError
from engine.core.rounding import find_rounding
from engine.store import RunRecord, default_shards_directory, shard_paths, verify_shard

PROVENANCE = ("commit", "versions", "device", "seconds", "source", "data_fingerprint")
"""What every run must say about where it came from; the fingerprint is of the images, or of the imported file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, help="shards or directories of shards (default: data/shards)")


def run(arguments: argparse.Namespace) -> int:
    paths: list[Path] = []
    for given in arguments.paths or [default_shards_directory()]:
        paths += [given] if given.is_file() else shard_paths(given)
    n_bad = 0
    for path in paths:
        problem, warning = _checked(path)
        n_bad += problem is not None
        print(f"{'ok     ' if problem is None else 'PROBLEM'} {path if problem is None else problem}")
        if warning is not None:
            print(f"WARNING {path}: {warning}")
    print(f"{len(paths)} shards checked, {n_bad} with a problem")
    return 1 if n_bad else 0


def _checked(path: Path) -> tuple[str | None, str | None]:
    """What is wrong with a shard, and what makes tests on it doubtful; None for nothing.

    Checksum, ranges and finite values are checked on reading; confidence, correctness, counts and accuracy are
    derived again from the logits.
    """
    try:
        record: RunRecord = verify_shard(path)
    except CacheError as error:
        return str(error), None
    missing = [key for key in PROVENANCE if record.provenance.get(key) in (None, "", {})]  # 0 seconds are a value
    problem = f"{path}: the provenance lacks {', '.join(missing)}; build or import the run again" if missing else None
    rounding = find_rounding(record.confidence)
    return problem, None if rounding is None else rounding.sentence
