"""What `import` and `extract` share: a run that exists is never replaced in passing."""

from __future__ import annotations

from pathlib import Path

from engine.core.errors import InvalidInput
from engine.store.shard import shard_path


def refuse_taken(shards: Path, run_id: str) -> None:
    target = shard_path(shards, run_id)
    if target.exists():
        raise InvalidInput("--run-id", "a name that is not taken", f"{run_id!r}, which exists as {target}")
