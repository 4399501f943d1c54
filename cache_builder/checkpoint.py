"""Training state on disk: one file, replaced whole, that carries its own config."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from cache_builder.config import RunConfig
from engine.errors import CacheError
from engine.store.atomic import replacing

FORMAT = "routecal-checkpoint-1"


def save_checkpoint(path: Path, config: RunConfig, state: dict[str, Any]) -> None:
    """Write `state` (tensors and plain values) with its config."""
    with replacing(path) as temporary:
        torch.save({"format": FORMAT, "config": config.as_dict(), **state}, temporary)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of ours; only tensors and plain values are constructed."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises its own, pickle's and zip's errors for a damaged file
        raise CacheError(f"{path}: not a readable checkpoint ({str(error).splitlines()[0][:150]})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CacheError(f"{path}: a torch file, but not a training checkpoint of RouteCal")
    return state


def resume_state(path: Path, config: RunConfig) -> dict[str, Any] | None:
    """The state to go on from, or None for a fresh start; another config under the same name is an error."""
    if not path.exists():
        return None
    state = load_checkpoint(path)
    differing = sorted(name for name, value in config.as_dict().items() if state["config"].get(name) != value)
    if differing:
        raise CacheError(
            f"{path.parent.name}: its checkpoint was made with other settings ({', '.join(differing)}); "
            "remove that run folder to start afresh, or change the suite's name"
        )
    return state


@contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Hold a run's folder for one process; the system releases it when the process dies."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CacheError(f"{directory.name}: another process is training this run") from error
        yield
