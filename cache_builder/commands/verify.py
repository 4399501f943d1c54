"""`verify`: check shards against their checksums and their own contents, and a sample of the answers beside them."""

import argparse
import random
from pathlib import Path

from engine.core.errors import CacheError
from engine.core.rounding import find_rounding
from engine.store import RunRecord, default_shards_directory, read_shard, shard_paths, verify_shard
from engine.store.diagnoses import diagnoses_path, read_diagnoses
from engine.store.shard import read_digest

PROVENANCE = ("commit", "versions", "device", "seconds", "source", "data_fingerprint")
"""What every run must say about where it came from; the fingerprint is of the images, or of the imported file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, help="shards or directories of shards (default: data/shards)")
    parser.add_argument(
        "--sample", type=int, default=1, metavar="N", help="shards whose stored answers are computed again (default: 1)"
    )


def run(arguments: argparse.Namespace) -> int:
    paths: list[Path] = []
    for given in arguments.paths or [default_shards_directory()]:
        paths += [given] if given.is_file() else shard_paths(given)
    n_bad = 0
    with_answers = [path for path in paths if diagnoses_path(path.parent, path.stem).is_file()]
    sample = random.sample(with_answers, min(arguments.sample, len(with_answers)))
    for path in paths:
        problem, warning = _checked(path)
        if problem is None and path in sample:
            problem = _compared(path)
        n_bad += problem is not None
        print(f"{'ok     ' if problem is None else 'PROBLEM'} {path if problem is None else problem}")
        if warning is not None:
            print(f"WARNING {path}: {warning}")
    print(f"{len(paths)} shards checked, {n_bad} with a problem")
    print(f"answers of {len(sample)} of {len(with_answers)} compared")
    return 1 if n_bad else 0


def _compared(path: Path) -> str | None:
    """Which of the answers beside a shard come out otherwise; None for none."""
    from engine.verdict.answers import differing  # which brings the whole engine

    record, answers = read_shard(path), read_diagnoses(path.parent, path.stem, read_digest(path))
    if not answers:
        print(f"ignored {diagnoses_path(path.parent, path.stem)}: of another shard, or another version of the engine")
    different = differing(record.data(), [layer.name for layer in record.layers], answers)
    return f"{path}: other answers than those stored ({', '.join(different)}); remove them" if different else None


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
