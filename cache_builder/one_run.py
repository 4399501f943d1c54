"""One run from its config to its shard, by whoever gets to it first."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch

from cache_builder.checkpoint import RunIsClaimed, claimed
from cache_builder.config import RunConfig
from cache_builder.datasets import ImageData, load_dataset
from cache_builder.devices import pick_device
from cache_builder.extract import TRAINED, ensemble_record, trained_record
from cache_builder.provenance import code_version
from cache_builder.train import input_size, train
from engine.core.errors import CacheError, RouteCalError, first_line
from engine.core.types import Progress
from engine.store import write_shard
from engine.store.shard import read_shard, shard_path


@dataclass(frozen=True)
class Places:
    """Where runs are read from and written to: image data, run folders (checkpoints), and finished shards."""

    data: Path
    runs: Path
    shards: Path
    device: str = "auto"
    threads: int = 1
    amp: str = "auto"

    def make_shards_folder(self) -> None:
        try:
            self.shards.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CacheError(f"{self.shards}: cannot be made ({first_line(error)}); choose other --shards") from error


@dataclass(frozen=True)
class Outcome:
    """What became of a run in a sweep, and why if it was not trained."""

    run_id: str
    status: Literal["trained", "skipped", "failed"]
    reason: str = ""


@lru_cache(maxsize=2)
def _dataset(name: str, root: Path, side: int, held_out: int | None) -> ImageData:
    data = load_dataset(name, root, folder_side=side)
    return data if held_out is None else data.held_out(held_out)


def is_finished(config: RunConfig, shards: Path) -> bool:
    """Whether the shard of the run's last epoch is there; one made with other settings is an error, not a skip."""
    path = shard_path(shards, config.run_id)
    if not path.exists():
        return False
    stored = read_shard(path)
    differing = config.differing(stored.config)
    if differing:
        raise CacheError(
            f"{path.name}: made with other settings ({', '.join(differing)}); remove it, or change the suite's name"
        )
    # `extract` makes shards of checkpoints in training, too.
    return stored.epoch == config.epochs or stored.provenance["source"] == TRAINED


@contextmanager
def without_denormals() -> Iterator[None]:
    """Vanishing optimiser moments would slow a CPU down; the setting is the thread's, so it is put back."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def run_one(config: RunConfig, places: Places, progress: Progress) -> bool:
    """Train one run and write its shards, the ensemble's first, so that the run's own shard marks it finished.

    False if another process finished it before this one had its folder.
    """
    torch.set_num_threads(places.threads)
    device = pick_device(places.device)
    code_version()  # what runs now, not what may be committed by the end
    with claimed(places.runs / config.run_id), without_denormals():
        if is_finished(config, places.shards):
            return False
        data = _dataset(config.dataset, places.data, input_size(config), config.held_out)
        trained = train(
            config, data, places.runs / config.run_id, device=places.device, amp=places.amp, progress=progress
        )
        if config.ensemble_last > 1 and len(trained.members) > 1:
            write_shard(ensemble_record(config, data, trained, device), places.shards)
        write_shard(trained_record(config, data, trained, device), places.shards)
    return True


def attempt(config: RunConfig, places: Places, progress: Progress) -> Outcome:
    """Train one run of many: whatever goes wrong with it is its outcome, so that the others go on."""
    try:
        trained = run_one(config, places, progress)
    except RunIsClaimed:
        return Outcome(config.run_id, "skipped", "another process is training it")
    except Exception as error:
        reason = str(error) if isinstance(error, RouteCalError) else f"{type(error).__name__}: {first_line(error)}"
        return Outcome(config.run_id, "failed", reason.removeprefix(f"{config.run_id}: "))
    return Outcome(config.run_id, "trained") if trained else Outcome(config.run_id, "skipped", "finished elsewhere")
