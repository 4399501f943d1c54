"""Training state on disk: one file, replaced whole, that carries its own config."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cache_builder.config import RunConfig
from engine.core.errors import CacheError, first_line
from engine.store.atomic import replacing

FORMAT = "routecal-checkpoint-2"
PARTS = (
    "config", "model", "epoch", "history", "best", "fingerprint", "test_fingerprint", "moments", "n_classes", "channels"
)  # fmt: skip
"""What a checkpoint cannot be used without."""


class RunIsClaimed(CacheError):
    """Another process is training this run."""


def save_checkpoint(path: Path, config: RunConfig, state: dict[str, Any]) -> None:
    """Write `state` (tensors and plain values) with its config."""
    try:
        with replacing(path) as temporary:
            torch.save({"format": FORMAT, "config": config.as_dict(), **state}, temporary)
    except (OSError, RuntimeError) as error:  # torch's own writer raises RuntimeError, for a full disk too
        raise CacheError(
            f"{path}: cannot be written ({first_line(error)}); make room, then start again: "
            "the run goes on from the epoch before"
        ) from error


def read_torch_file(path: Path) -> object:
    """What a torch file holds; only tensors and plain values are constructed."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises its own, pickle's and zip's errors for a damaged file
        raise CacheError(f"{path}: not a readable torch file of tensors ({first_line(error)})") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of ours."""
    state = read_torch_file(path)
    if not isinstance(state, dict) or state.get("format") != FORMAT or not set(PARTS) <= set(state):
        raise CacheError(f"{path}: a torch file, but not a training checkpoint of this release of RouteCal")
    return state


def read_weights(path: Path) -> dict[str, Any]:
    """The parameters in a .safetensors file, or in a torch file of tensors, ours too; nothing in it is executed."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise CacheError(f"{path}: not a readable safetensors file ({first_line(error)})") from error
    state = read_torch_file(path)
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise CacheError(f"{path}: holds no parameters by name; save the model's state_dict()")
    return state


def load_weights(model: nn.Module, weights: Mapping[str, Any], what: str) -> None:
    """Fill a model; `what` names the weights and the model that they should fit."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CacheError(f"{what}: {' '.join(str(error).split())[:300]}") from error


def check_images(expected: str, fingerprint: str, run_id: str, remedy: str) -> None:
    """Refuse other images than those that a checkpoint was trained or evaluated on."""
    if expected != fingerprint:
        raise CacheError(f"{run_id}: its checkpoint was trained on other images; {remedy}")


def resume_state(path: Path, config: RunConfig) -> dict[str, Any] | None:
    """The state to go on from, or None for a fresh start; another config under the same name is an error."""
    if not path.exists():
        return None
    state = load_checkpoint(path)
    differing = config.differing(state["config"])
    if differing:
        raise CacheError(
            f"{path.parent.name}: its checkpoint was made with other settings ({', '.join(differing)}); "
            "remove that run folder to start afresh, or change the suite's name"
        )
    return state


@contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Hold a run's folder for one process; the system releases it when the process dies."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("w")
    except OSError as error:
        raise CacheError(f"{directory}: cannot be written ({first_line(error)}); choose other --runs") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunIsClaimed(f"{directory.name}: another process is training this run") from error
        except OSError as error:  # some network file systems have none
            raise CacheError(
                f"{directory}: its file system has no locks ({first_line(error)}); choose --runs on another one"
            ) from error
        yield
