"""Turns trained or loaded models into run records, ready to be written as shards."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from cache_builder.checkpoint import load_checkpoint
from cache_builder.config import RunConfig
from cache_builder.datasets import ImageData
from cache_builder.evaluate import Outputs, evaluate
from cache_builder.models.registry import create_model
from cache_builder.provenance import describe
from cache_builder.routing import RoutingLayer, routing_layers
from cache_builder.train import Trained, build_model, input_size, pick_device
from engine.errors import CacheError, InvalidInput
from engine.store import Layer, RunRecord


def _captured_fields(outputs: Outputs, layers: list[RoutingLayer]) -> dict[str, Any]:
    """A routing profile goes to `entropies`, block norms to extra columns."""
    if outputs.is_routing:
        return {"entropies": outputs.captured, "layers": [Layer(layer.name, layer.n_sources) for layer in layers]}
    return {"extra": dict(zip(outputs.names, outputs.captured.T, strict=True))}


def _history_fields(history: dict[str, list[Any]]) -> dict[str, Any]:
    metrics = {"epoch": history["metric_epoch"], "name": history["name"], "value": history["value"]}
    fields = {"epoch_metrics": pd.DataFrame(metrics)}
    if history["epoch"]:
        columns = ("epoch", "layer", "mean_entropy", "std_entropy")
        fields["epochs"] = pd.DataFrame({name: history[name] for name in columns})
    return fields


def _identity(config: RunConfig) -> dict[str, Any]:
    names = ("backbone", "dataset", "variant", "block_size", "seed")
    return {name: getattr(config, name) for name in names}


def trained_record(config: RunConfig, data: ImageData, trained: Trained, device: torch.device) -> RunRecord:
    """The run as its last epoch left it."""
    return RunRecord(
        run_id=config.run_id,
        suite=config.suite,
        **_identity(config),
        epoch=config.epochs,
        logits=trained.members[-1].logits,
        labels=data.test.take(config.limit_test).labels,
        **_captured_fields(trained.members[-1], routing_layers(trained.model)),
        **_history_fields(trained.history),
        config=config.as_dict(),
        provenance=describe("cache_builder train", device, trained.seconds, data.fingerprint),
    )


def mean_probability_logits(members: list[Outputs]) -> NDArray[np.float32]:
    """log of the members' mean probability: its softmax is the ensemble's prediction."""
    stacked = np.stack([log_softmax(member.logits.astype(np.float64), axis=1) for member in members])
    return (logsumexp(stacked, axis=0) - np.log(len(members))).astype(np.float32)


def ensemble_record(config: RunConfig, data: ImageData, trained: Trained, device: torch.device) -> RunRecord:
    """The ensemble of the last sampled epochs of one run: mean probabilities, mean routing profile.

    It is a run of its own in the suite `<suite>-last<number of members>`, so that it never mixes with single models.
    """
    profile = np.stack([member.captured for member in trained.members]).mean(axis=0, dtype=np.float64)
    merged = replace(
        trained.members[-1], logits=mean_probability_logits(trained.members), captured=profile.astype(np.float32)
    )
    suffix = f"last{len(trained.members)}"
    return RunRecord(
        run_id=f"{config.run_id}-{suffix}",
        suite=f"{config.suite}-{suffix}",
        **_identity(config),
        epoch=config.epochs,
        logits=merged.logits,
        labels=data.test.take(config.limit_test).labels,
        **_captured_fields(merged, routing_layers(trained.model)),
        config={**config.as_dict(), "member_epochs": trained.member_epochs},
        provenance=describe("cache_builder train, ensemble", device, trained.seconds, data.fingerprint),
    )


def extract_checkpoint(path: str | Path, data: ImageData, *, device: str = "auto") -> RunRecord:
    """Evaluate a checkpoint of ours again; the config, and so the model, come from the file."""
    state = load_checkpoint(Path(path))
    config = RunConfig.from_mapping(state["config"])
    if data.name != config.dataset:
        raise InvalidInput("data", f"the images of {config.dataset}, which the checkpoint was trained on", data.name)
    chosen = pick_device(device)
    model = build_model(config, data)
    model.load_state_dict(state["model"])
    started = time.perf_counter()
    split = data.test.take(config.limit_test)
    outputs = evaluate(model.to(chosen), split, data.moments, input_size(config), chosen)
    return RunRecord(
        run_id=config.run_id,
        suite=config.suite,
        **_identity(config),
        epoch=state["epoch"],
        logits=outputs.logits,
        labels=split.labels,
        **_captured_fields(outputs, routing_layers(model)),
        **_history_fields(state["history"]),
        config=config.as_dict(),
        provenance=describe("cache_builder extract", chosen, time.perf_counter() - started, data.fingerprint),
    )


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The parameters in a .safetensors file, or in a torch file of tensors; nothing in it is executed."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except SafetensorError as error:
            raise CacheError(f"{path}: not a readable safetensors file ({error})") from error
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises its own, pickle's and zip's errors for a damaged file
        raise CacheError(
            f"{path}: not a readable torch file of tensors ({str(error).splitlines()[0][:150]})"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    return dict(state)


def extract_timm(
    path: str | Path,
    data: ImageData,
    *,
    backbone: str,
    image_size: int,
    run_id: str,
    suite: str = "timm",
    device: str = "auto",
) -> RunRecord:
    """Evaluate a timm checkpoint of a plain model; without routing, its per-block norms become extra columns."""
    weights = _read_weights(Path(path))
    model = create_model(backbone, n_classes=data.n_classes, image_size=image_size, channels=data.channels)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        detail = " ".join(str(error).split())[:300]
        raise CacheError(
            f"{path}: does not fit {backbone} with {data.n_classes} classes at {image_size} pixels: {detail}"
        ) from error
    chosen = pick_device(device)
    started = time.perf_counter()
    outputs = evaluate(model.to(chosen), data.test, data.moments, image_size, chosen)
    return RunRecord(
        run_id=run_id,
        suite=suite,
        backbone=backbone,
        dataset=data.name,
        variant="baseline",
        logits=outputs.logits,
        labels=data.test.labels,
        **_captured_fields(outputs, []),
        config={"backbone": backbone, "checkpoint": Path(path).name},
        provenance=describe("cache_builder extract", chosen, time.perf_counter() - started, data.fingerprint),
    )
