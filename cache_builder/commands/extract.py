"""`extract`: a checkpoint of ours, timm's, or any model of one's own, evaluated into a shard."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cache_builder.checkpoint import load_checkpoint, load_weights, read_weights
from cache_builder.commands.shared_options import refuse_taken
from cache_builder.config import RunConfig
from cache_builder.datasets import open_dataset
from cache_builder.extract import ImageBatches, Subset, extract_checkpoint, extract_run, extract_timm
from cache_builder.models.registry import backbone, create_model
from cache_builder.progress import console
from cache_builder.taps import SoftmaxTap
from cache_builder.taps.parse import imported, parse_tap
from cache_builder.train import input_size
from engine.core import validation
from engine.core.errors import InvalidInput
from engine.store import RunRecord, default_shards_directory, read_shard, write_shard


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A model of one's own: --model mymodule:build --tap softmax:axis=0,rank=3, with --dataset or --loader. "
        "--tap survey lists the softmaxes of one batch and proposes taps."
    )
    parser.add_argument(
        "checkpoint", type=Path, nargs="?", help="a checkpoint.pt of ours, or a timm .safetensors or .pth file"
    )
    parser.add_argument("--checkpoint", type=Path, dest="weights", help="weights for --model (default: as it is built)")
    parser.add_argument("--run-id", help="the name of the run (default: the checkpoint's own, or backbone-dataset)")
    parser.add_argument("--model", metavar="MODULE:FUNCTION", help="a function that builds a model; its code is run")
    parser.add_argument(
        "--loader", metavar="MODULE:FUNCTION", help="a function that gives batches of inputs and labels"
    )
    parser.add_argument(
        "--tap",
        help="how its routing is read: softmax, module, router, attention, routed or norms, with settings such as "
        "softmax:axis=0,rank=3; or survey",
    )
    parser.add_argument("--backbone", help="for a timm checkpoint: the model it belongs to")
    parser.add_argument("--dataset", help="for a timm checkpoint or --model: the images to evaluate it on")
    parser.add_argument("--image-size", type=int, help="for these: the input size (default: the model's; 224)")
    for name, what in (("mean", "mean"), ("std", "standard deviation")):
        parser.add_argument(
            f"--{name}",
            type=float,
            nargs="+",
            metavar="NUMBER",
            help=f"for these: the {what} to normalise each channel with, in 0..1 "
            "(default: what timm says of the model, or the training images' own)",
        )
    parser.add_argument("--limit", type=int, metavar="N", help="evaluate N random images only, such as 5000")
    parser.add_argument("--subset-seed", type=int, default=42, help="which ones --limit takes (default: 42)")
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder that holds the image data sets")
    parser.add_argument("--shards", type=Path, default=default_shards_directory(), help="where the run goes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, help="processor threads (default: torch's own choice)")


def run(arguments: argparse.Namespace) -> int:
    for file in (arguments.checkpoint, arguments.weights):
        if file is not None and not file.is_file():
            raise InvalidInput("checkpoint", "an existing file", str(file))
    if arguments.threads is not None:
        torch.set_num_threads(validation.whole("--threads", arguments.threads, 1))
    if arguments.model is not None or arguments.tap is not None:
        return _tapped(arguments)
    if arguments.checkpoint is None:
        raise InvalidInput("checkpoint", "a file, or --model", "neither")
    record = (_ours if arguments.backbone is None else _timms)(arguments)
    return _told(record, write_shard(record, arguments.shards))


def _told(record: RunRecord, path: Path) -> int:
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


def _side(arguments: argparse.Namespace) -> int:
    if arguments.image_size is not None:
        return validation.whole("--image-size", arguments.image_size, 1)
    return 224 if arguments.backbone is None else backbone(arguments.backbone).image_size


def _timms(arguments: argparse.Namespace) -> RunRecord:
    if arguments.dataset is None:
        raise InvalidInput("--dataset", "the images to evaluate on, beside --backbone", "none")
    run_id = arguments.run_id or f"{arguments.backbone}-{arguments.dataset}"
    refuse_taken(arguments.shards, run_id)
    return extract_timm(
        arguments.checkpoint,
        open_dataset(arguments.dataset, arguments.data, folder_side=_side(arguments)),
        backbone=arguments.backbone,
        image_size=_side(arguments),
        run_id=run_id,
        mean=arguments.mean,
        std=arguments.std,
        subset=_subset(arguments),
        device=arguments.device,
        progress=console(),
    )


def _tapped(arguments: argparse.Namespace) -> int:
    """A model of one's own, or a timm model with another tap than its norms."""
    if arguments.tap is None:
        raise InvalidInput("--tap", "how the routing of --model is read; `--tap survey` proposes something", "none")
    how = None if arguments.tap == "survey" else parse_tap(arguments.tap)
    batches: Iterable[Any]
    if arguments.loader is not None:
        data, batches = None, imported("--loader", arguments.loader)()
    elif arguments.dataset is not None:
        data = open_dataset(arguments.dataset, arguments.data, folder_side=_side(arguments))
        batches = ImageBatches(
            data, _side(arguments), arguments.backbone, arguments.mean, arguments.std, _subset(arguments)
        )
    else:
        raise InvalidInput("--dataset", "images to evaluate on, or --loader", "neither")
    model, weights = _built(arguments, data), arguments.weights or arguments.checkpoint
    if weights is not None:
        load_weights(model, read_weights(weights), f"{weights}: does not fit {arguments.model or arguments.backbone}")
    if how is None:
        first = next(iter(batches))
        print(SoftmaxTap.survey(model.eval(), first[0] if isinstance(first, tuple | list) else first))
        return 0
    name = arguments.backbone or type(model).__name__
    dataset = arguments.dataset or "unknown"
    run_id = arguments.run_id or f"{name}-{dataset}"
    path = extract_run(
        model, batches, tap=how, run_id=run_id, out=arguments.shards, backbone=name, dataset=dataset,
        device=arguments.device, progress=console(),
    )  # fmt: skip
    return _told(read_shard(path), path)


def _built(arguments: argparse.Namespace, data: Any) -> nn.Module:
    if arguments.model is None and (arguments.backbone is None or data is None):
        raise InvalidInput("--model", "a model to tap, or --backbone with --dataset", "neither")
    if arguments.model is None:
        return create_model(
            arguments.backbone, n_classes=data.n_classes, image_size=_side(arguments), channels=data.test.channels
        )
    model = imported("--model", arguments.model)()
    if not isinstance(model, nn.Module):
        raise InvalidInput("--model", "a function that returns a torch module", type(model).__name__)
    return model
