"""What several commands share: the folders and the device, and that no run is replaced in passing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core import validation
from engine.core.errors import InvalidInput
from engine.store import default_shards_directory
from engine.store.shard import shard_path

if TYPE_CHECKING:
    from cache_builder.one_run import Places


def add_places(parser: argparse.ArgumentParser) -> None:
    from cache_builder.precision import MODES  # brings torch, which `import` does without

    parser.add_argument("--data", type=Path, default=Path("."), help="the folder that holds the image data sets")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where checkpoints go (default: runs)")
    parser.add_argument("--shards", type=Path, default=default_shards_directory(), help="where finished runs go")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1 (default: auto)")
    parser.add_argument("--threads", type=int, default=1, help="processor threads per run (default: 1)")
    parser.add_argument(
        "--amp",
        choices=MODES,
        default="auto",
        help="mixed precision while training (default: auto, which is bf16 or fp16 on a GPU and off elsewhere)",
    )


def places_from(arguments: argparse.Namespace) -> Places:
    from cache_builder.one_run import Places  # so does this

    validation.whole("--threads", arguments.threads, 1)
    return Places(arguments.data, arguments.runs, arguments.shards, arguments.device, arguments.threads, arguments.amp)


def refuse_taken(shards: Path, run_id: str) -> None:
    target = shard_path(shards, run_id)
    if target.exists():
        raise InvalidInput("--run-id", "a name that is not taken", f"{run_id!r}, which exists as {target}")
