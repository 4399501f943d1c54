"""The folders and the device that train, extract and sweep share as options."""

from __future__ import annotations

import argparse
from pathlib import Path

from cache_builder.one_run import Places
from cache_builder.precision import MODES
from engine.core import validation
from engine.store import default_shards_directory


def add_places(parser: argparse.ArgumentParser) -> None:
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
    validation.whole("--threads", arguments.threads, 1)
    return Places(arguments.data, arguments.runs, arguments.shards, arguments.device, arguments.threads, arguments.amp)
