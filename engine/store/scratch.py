"""Caches of one run for one person: in a folder that only this user can read, removed when they are done with it."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from pathlib import Path

from engine.store.atomic import HOST, is_abandoned
from engine.store.publish import publish
from engine.store.record import RunRecord
from engine.store.shard import write_shard

_PREFIX = "routecal-own"
_FOLDER = re.compile(rf"{_PREFIX}-(?P<host>[0-9a-f]{{8}})-(?P<process>\d+)-\w+")
_live: set[Path] = set()


def publish_own(record: RunRecord) -> Path:
    """Publish one run into a folder of its own and return the path of the cache."""
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{HOST}-{os.getpid()}-"))
    _live.add(folder)
    try:
        write_shard(record, folder / "shards")
        publish(folder / "shards", folder / "own.duckdb")
        shutil.rmtree(folder / "shards")
    except BaseException:
        remove_own(folder / "own.duckdb")
        raise
    return folder / "own.duckdb"


def remove_own(path: Path) -> None:
    """Remove such a cache with its folder."""
    shutil.rmtree(path.parent, ignore_errors=True)
    _live.discard(path.parent)


def remove_abandoned_own() -> None:
    """Remove what a killed process left behind; a number of our own that we do not know is an earlier life's."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}-*"):
        parts = _FOLDER.fullmatch(folder.name)
        if parts is None or folder in _live:
            continue
        process = int(parts["process"])
        ours = parts["host"] == HOST and process == os.getpid()
        if ours or is_abandoned(folder, parts["host"], process):
            shutil.rmtree(folder, ignore_errors=True)


@atexit.register
def _remove_all() -> None:
    for folder in tuple(_live):
        shutil.rmtree(folder, ignore_errors=True)
