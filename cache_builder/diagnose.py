"""The default answers of shards, computed where they are missing, on all cores, before a cache is published."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import Progress
from engine.store import PublishReport, default_shards_directory, publish, shard_paths
from engine.store.diagnoses import read_diagnoses, write_diagnoses
from engine.store.shard import read_digest, read_with_digest
from engine.verdict.answers import answers_of, diagnoses_of, is_complete


def diagnose_shard(path: Path) -> None:
    """Answer every question about a run that is still open, and keep the answers beside its shard."""
    keep_blas_to_one_thread()
    record, checksum = read_with_digest(path)
    known = read_diagnoses(path.parent, path.stem, checksum)
    if not is_complete(known):
        write_diagnoses(
            path.parent, path.stem, checksum, answers_of(record.data(), [layer.name for layer in record.layers], known)
        )


def diagnose_shards(paths: Sequence[Path], progress: Progress) -> int:
    """The same for those of many shards that lack an answer; returns how many there were."""
    todo = [path for path in paths if not is_complete(read_diagnoses(path.parent, path.stem, read_digest(path)))]
    workers = min(os.cpu_count() or 1, len(todo))
    if not todo:
        return 0
    # A forked torch may hang in its thread pool.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        started = time.perf_counter()
        waiting: list[Future[None]] = [pool.submit(diagnose_shard, path) for path in todo]
        try:
            for done, future in enumerate(as_completed(waiting), start=1):
                future.result()
                left = (time.perf_counter() - started) / done * (len(todo) - done)
                progress(done / len(todo), f"diagnosed {done} of {len(todo)} new runs, about {left:.0f} s left")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return len(todo)


def publish_with_answers(
    shards: Path | None, cache: Path | None, progress: Progress, *, force: bool = False
) -> PublishReport:
    """Publish a directory of shards with the answers at default settings; only what is new is computed."""
    directory = shards or default_shards_directory()
    diagnose_shards(shard_paths(directory), progress)
    return publish(directory, cache, force=force, diagnose=diagnoses_of)
