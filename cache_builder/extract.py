"""Turns trained or loaded models into run records, ready to be written as shards."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp, softmax
from torch import Tensor, nn

from cache_builder.checkpoint import check_images, load_weights, read_weights
from cache_builder.config import RunConfig
from cache_builder.datasets import ImageData, StoredData, Watched, to_input
from cache_builder.datasets import moments as moments_of
from cache_builder.devices import pick_device
from cache_builder.evaluate import EVALUATION_BATCH, Outputs, evaluate
from cache_builder.models.registry import backbone as backbone_named
from cache_builder.models.registry import create_model
from cache_builder.progress import quiet
from cache_builder.provenance import describe
from cache_builder.tapped_run import extract_run as extract_run
from cache_builder.taps import NormTap, Place, RoutedTap, routing_places
from cache_builder.train import Trained, build_model, input_size
from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.types import Progress
from engine.store import Layer, RunRecord
from engine.store.half import MANY_CLASSES

TRAINED = "cache_builder train"
Data = ImageData | StoredData
"""A data set in memory, or as it lies on disk."""


def _captured_fields(outputs: Outputs, places: tuple[Place, ...]) -> dict[str, Any]:
    """A routing profile goes to `entropies`, block norms to extra columns."""
    if outputs.is_routing:
        layers = [Layer(place.name, place.n_sources) for place in places]
        return {"entropies": outputs.captured, "layers": layers, "capture": RoutedTap().describe()}
    return {"extra": dict(zip(outputs.names, outputs.captured.T, strict=True)), "capture": NormTap().describe()}


def _history_fields(history: dict[str, list[Any]]) -> dict[str, Any]:
    metrics = {"epoch": history["metric_epoch"], "name": history["name"], "value": history["value"]}
    fields = {"epoch_metrics": pd.DataFrame(metrics)}
    if history["epoch"]:
        columns = ("epoch", "layer", "mean_entropy", "std_entropy")
        fields["epochs"] = pd.DataFrame({name: history[name] for name in columns})
    return fields


def _record(
    config: RunConfig, labels: NDArray[np.int64], model: nn.Module, outputs: Outputs, /, **others: Any
) -> RunRecord:
    """A run of ours: what follows from its config and outputs, and the other fields, which may replace those."""
    identity = ("run_id", "suite", "backbone", "dataset", "variant", "block_size", "seed")
    fields = {
        **{name: getattr(config, name) for name in identity},
        "epoch": config.epochs,
        "logits": outputs.logits,
        "labels": labels,
        **_captured_fields(outputs, routing_places(model)),
        "config": config.as_dict(),
    }
    return RunRecord(**{**fields, **others})


def trained_record(config: RunConfig, data: ImageData, trained: Trained, device: torch.device) -> RunRecord:
    """The run as its last epoch left it, or the epoch chosen on validation images, which its config then names."""
    chosen = {} if config.validation is None else {"chosen_epoch": trained.epoch}
    return _record(
        config,
        data.test.take(config.limit_test).labels,
        trained.model,
        trained.outputs,
        **_history_fields(trained.history),
        epoch=trained.epoch,
        config={**config.as_dict(), **chosen},
        provenance=_trained_provenance(TRAINED, data, trained, device),
    )


def _trained_provenance(source: str, data: ImageData, trained: Trained, device: torch.device) -> dict[str, Any]:
    return {**describe(source, device, trained.seconds, data.fingerprint), "precision": trained.precision}


def mean_probability_logits(members: list[Outputs]) -> NDArray[np.float32]:
    """log of the members' mean probability: its softmax is the ensemble's prediction."""
    stacked = np.stack([log_softmax(member.logits.astype(np.float64), axis=1) for member in members])
    return (logsumexp(stacked, axis=0) - np.log(len(members))).astype(np.float32)


def ensemble_record(config: RunConfig, data: ImageData, trained: Trained, device: torch.device) -> RunRecord:
    """The ensemble of the last sampled epochs of one run: mean probabilities, mean routing profile.

    It is a run of its own in the suite `<suite>-last<number of members>`, so that it never mixes with single models.
    One of many classes keeps confidence and predictions but no logits, which would be most of its bytes.
    """
    profile = np.stack([member.captured for member in trained.members]).mean(axis=0, dtype=np.float64)
    merged = replace(
        trained.members[-1], logits=mean_probability_logits(trained.members), captured=profile.astype(np.float32)
    )
    suffix = f"last{len(trained.members)}"
    instead: dict[str, Any] = {}
    if data.n_classes >= MANY_CLASSES:
        probability = softmax(merged.logits.astype(np.float64), axis=1)
        instead = {
            "logits": None,
            "n_classes": data.n_classes,
            "predictions": probability.argmax(axis=1),
            "confidence": probability.max(axis=1),
        }
    return _record(
        config,
        data.test.take(config.limit_test).labels,
        trained.model,
        merged,
        **instead,
        run_id=f"{config.run_id}-{suffix}",
        suite=f"{config.suite}-{suffix}",
        config={**config.as_dict(), "member_epochs": trained.member_epochs},
        provenance=_trained_provenance("cache_builder train, ensemble", data, trained, device),
    )


@dataclass(frozen=True)
class Subset:
    """`limit` random images of the test set, the same ones for the same seed, in their order; None: all of them."""

    limit: int | None = None
    seed: int = 42

    def rows(self, n_samples: int) -> NDArray[np.int64] | None:
        if self.limit is None:
            return None
        validation.whole("--limit", self.limit, 1)
        return np.sort(np.random.default_rng(self.seed).permutation(n_samples)[: self.limit])

    def fields(self) -> dict[str, int]:
        return {} if self.limit is None else {"subset": self.limit, "subset_seed": self.seed}


WHOLE = Subset()


def extract_checkpoint(
    state: Mapping[str, Any],
    data: Data,
    *,
    run_id: str | None = None,
    subset: Subset = WHOLE,
    device: str = "auto",
    progress: Progress = quiet,
) -> RunRecord:
    """Evaluate a checkpoint of ours, as `load_checkpoint` read it, again; the config, and so the model, are in it.

    Only the test images are read, batch by batch; how they are scaled is in the checkpoint too.
    """
    config = RunConfig.from_mapping(state["config"])
    if data.name != config.dataset:
        raise InvalidInput("data", f"the images of {config.dataset}, which the checkpoint was trained on", data.name)
    chosen = pick_device(device)
    model = build_model(config, state["n_classes"], state["channels"])
    best = state["best"]
    load_weights(model, (best or state)["model"], f"{config.run_id}: its checkpoint does not fit its config")
    started = time.perf_counter()
    kept = np.arange(len(data.test.labels))[: config.limit_test]
    rows = subset.rows(len(kept))
    images = Watched(data.test, kept if rows is None else rows)
    outputs = evaluate(model.to(chosen), images, state["moments"], input_size(config), chosen, progress)
    if subset.limit is None:
        check_images(state["test_fingerprint"], images.fingerprint, config.run_id, "point --data to those")
    return _record(
        config,
        images.labels,
        model,
        outputs,
        run_id=run_id or config.run_id,
        epoch=(best or state)["epoch"],
        **_history_fields(state["history"]),
        config={**config.as_dict(), **subset.fields(), **({"chosen_epoch": best["epoch"]} if best else {})},
        provenance=describe(
            "cache_builder extract",
            chosen,
            time.perf_counter() - started,
            state["fingerprint"] if subset.limit is None else images.fingerprint,
        ),
    )


def _scale(name: str, values: Sequence[float], channels: int) -> list[float]:
    """One number for each channel, or one for all of them."""
    if len(values) not in (1, channels):
        raise InvalidInput(name, f"1 or {channels} numbers, as the images have channels", f"{len(values)}")
    return [validation.number(name, value, 0.0, 1.0) for value in values] * (channels // len(values))


def _of_timm(backbone: str) -> list[list[float]]:
    usual = backbone_named(backbone)
    return [list(usual.mean), list(usual.std)]


def _in_pixels(means: Sequence[float], deviations: Sequence[float]) -> tuple[Tensor, Tensor]:
    """The same for pixels of 0..255, as `to_input` takes them."""
    first, second = ((torch.tensor(v, dtype=torch.float64) * 255).float().view(-1, 1, 1) for v in (means, deviations))
    return first, second


def _normalisation(
    data: Data, backbone: str | None, mean: Sequence[float] | None, std: Sequence[float] | None
) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel in 0..1: as given, else those of timm's weights, else the data's."""
    channels, own = data.test.channels, [[], []] if backbone is None else _of_timm(backbone)
    if len(own[0]) != channels and (mean is None or std is None):
        own = [(moment.flatten().double() / 255).tolist() for moment in moments_of(data.training())]
    means = own[0] if mean is None else _scale("--mean", mean, channels)
    deviations = own[1] if std is None else _scale("--std", std, channels)
    if min(deviations) <= 0:
        raise InvalidInput("--std", "numbers above 0", validation.shown(deviations))
    return means, deviations


class ImageBatches:
    """Normalised test images with their labels, batch by batch, as `extract_run` takes them."""

    def __init__(
        self,
        data: Data,
        image_size: int,
        backbone: str | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        subset: Subset = WHOLE,
    ) -> None:
        self.images = Watched(data.test, subset.rows(len(data.test.labels)))
        self.image_size, self.moments = image_size, _in_pixels(*_normalisation(data, backbone, mean, std))

    def __len__(self) -> int:
        return -(-len(self.images.labels) // EVALUATION_BATCH)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        labels = torch.split(torch.from_numpy(self.images.labels), EVALUATION_BATCH)
        for pixels, some in zip(self.images.batches(EVALUATION_BATCH), labels, strict=True):
            yield to_input(torch.from_numpy(pixels), self.moments, self.image_size), some


def extract_timm(
    path: str | Path,
    data: Data,
    *,
    backbone: str,
    image_size: int,
    run_id: str,
    suite: str = "timm",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    subset: Subset = WHOLE,
    device: str = "auto",
    progress: Progress = quiet,
) -> RunRecord:
    """Evaluate a timm checkpoint of a plain model; without routing, its per-block norms become extra columns."""
    means, deviations = _normalisation(data, backbone, mean, std)
    chosen = pick_device(device)
    weights = read_weights(Path(path))
    model = create_model(backbone, n_classes=data.n_classes, image_size=image_size, channels=data.test.channels)
    load_weights(
        model, weights, f"{path}: does not fit {backbone} with {data.n_classes} classes at {image_size} pixels"
    )
    started = time.perf_counter()
    images = Watched(data.test, subset.rows(len(data.test.labels)))
    outputs = evaluate(model.to(chosen), images, _in_pixels(means, deviations), image_size, chosen, progress)
    return RunRecord(
        run_id=run_id,
        suite=suite,
        backbone=backbone,
        dataset=data.name,
        variant="baseline",
        logits=outputs.logits,
        labels=images.labels,
        **_captured_fields(outputs, ()),
        config={
            "backbone": backbone,
            "checkpoint": Path(path).name,
            "image_size": image_size,
            "mean": means,
            "std": deviations,
            **subset.fields(),
        },
        provenance=describe("cache_builder extract", chosen, time.perf_counter() - started, images.fingerprint),
    )
