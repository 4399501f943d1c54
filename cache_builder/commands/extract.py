"""`extract`: a checkpoint, ours or timm's, evaluated into a shard."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from cache_builder.checkpoint import load_checkpoint
from cache_builder.commands.shared_options import refuse_taken
from cache_builder.config import RunConfig
from cache_builder.datasets import open_dataset
from cache_builder.extract import Subset, extract_checkpoint, extract_timm
from cache_builder.models.registry import backbone
from cache_builder.progress import console
from cache_builder.train import input_size
from engine.core import validation
from engine.core.errors import InvalidInput
from engine.store import RunRecord, default_shards_directory, write_shard


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="a checkpoint.pt of ours, or a timm .safetensors or .pth file")
    parser.add_argument("--run-id", help="the name of the run (default: the checkpoint's own, or backbone-dataset)")
    parser.add_argument("--backbone", help="for a timm checkpoint: the model it belongs to")
    parser.add_argument("--dataset", help="for a timm checkpoint: the images to evaluate it on")
    parser.add_argument("--image-size", type=int, help="for a timm checkpoint: its input size (default: the model's)")
    for name, what in (("mean", "mean"), ("std", "standard deviation")):
        parser.add_argument(
            f"--{name}",
            type=float,
            nargs="+",
            metavar="NUMBER",
            help=f"for a timm checkpoint: the {what} to normalise each channel with, in 0..1 "
            "(default: what timm says of the model, or the training images' own)",
        )
    parser.add_argument("--limit", type=int, metavar="N", help="evaluate N random images only, such as 5000")
    parser.add_argument("--subset-seed", type=int, default=42, help="which ones --limit takes (default: 42)")
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder that holds the image data sets")
    parser.add_argument("--shards", type=Path, default=default_shards_directory(), help="where the run goes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, help="processor threads (default: torch's own choice)")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.checkpoint.is_file():
        raise InvalidInput("checkpoint", "an existing file", str(arguments.checkpoint))
    if arguments.threads is not None:
        torch.set_num_threads(validation.whole("--threads", arguments.threads, 1))
    record = (_ours if arguments.backbone is None else _timms)(arguments)
    path = write_shard(record, arguments.shards)
    print(f"{record.run_id}: {record.n_samples} samples, accuracy {record.accuracy:.4f}, written to {path.name}")
    return 0


def _ours(arguments: argparse.Namespace) -> RunRecord:
    for name in ("mean", "std"):
        if getattr(arguments, name) is not None:
            raise InvalidInput(f"--{name}", "none without --backbone: a model of ours is fed as it was trained", "one")
    state = load_checkpoint(arguments.checkpoint)
    config = RunConfig.from_mapping(state["config"])
    run_id = arguments.run_id or config.run_id
    refuse_taken(arguments.shards, run_id)
    data = open_dataset(config.dataset, arguments.data, folder_side=input_size(config))
    return extract_checkpoint(
        state, data, run_id=run_id, subset=_subset(arguments), device=arguments.device, progress=console()
    )


def _subset(arguments: argparse.Namespace) -> Subset:
    return Subset(arguments.limit, validation.whole("--subset-seed", arguments.subset_seed, 0))


def _timms(arguments: argparse.Namespace) -> RunRecord:
    if arguments.dataset is None:
        raise InvalidInput("--dataset", "the images to evaluate on, beside --backbone", "none")
    if arguments.image_size is not None:
        validation.whole("--image-size", arguments.image_size, 1)
    side = arguments.image_size or backbone(arguments.backbone).image_size
    run_id = arguments.run_id or f"{arguments.backbone}-{arguments.dataset}"
    refuse_taken(arguments.shards, run_id)
    return extract_timm(
        arguments.checkpoint,
        open_dataset(arguments.dataset, arguments.data, folder_side=side),
        backbone=arguments.backbone,
        image_size=side,
        run_id=run_id,
        mean=arguments.mean,
        std=arguments.std,
        subset=_subset(arguments),
        device=arguments.device,
        progress=console(),
    )
