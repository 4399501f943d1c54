"""Trains one run, epoch by epoch, so that a killed run goes on from its last epoch to the same final weights.

Nothing random outlives an epoch: each one draws its order, augmentation, stochastic depth and token pairs from
seeds made of (seed, epoch). The checkpoint therefore holds no random state, only weights, optimiser and history.
"""

import math
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cache_builder.checkpoint import check_images, load_weights, resume_state, save_checkpoint
from cache_builder.config import RunConfig
from cache_builder.datasets import ImageData, Split, augment, split_fingerprint, to_input
from cache_builder.devices import pick_device
from cache_builder.evaluate import Outputs, evaluate
from cache_builder.initial import start_from
from cache_builder.models.moe import balance_loss
from cache_builder.models.registry import backbone, create_model
from cache_builder.models.seams import token_grid
from cache_builder.precision import Precision
from cache_builder.progress import UNDER_WAY, quiet
from engine.core.errors import CacheError, InvalidInput
from engine.core.types import Progress
from engine.metrics import ece
from engine.store.record import top_probability

CHECKPOINT = "checkpoint.pt"
NO_DECAY = ("pos_embed", "cls_token", "dist_token", "relative_position_bias_table", "queries", "norm_weights")


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished run: the model and its outputs, those of the last sampled epochs (oldest first), and its history.

    `epoch` is the one that model and outputs belong to: the last, or the best on the validation images.
    """

    model: nn.Module
    outputs: Outputs
    epoch: int
    members: list[Outputs]
    member_epochs: list[int]
    history: dict[str, list[Any]]
    seconds: float
    precision: str


def derived_seed(*parts: int) -> int:
    """A seed for one purpose, unrelated to its neighbours."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def input_size(config: RunConfig) -> int:
    return config.image_size or backbone(config.backbone).image_size


def epoch_length(config: RunConfig, n_train: int) -> tuple[int, int]:
    """Samples and optimiser steps of one epoch on so many training images."""
    samples = min(config.epoch_samples or n_train, n_train)
    return samples, max(1, samples // config.batch_size)


def build_model(config: RunConfig, n_classes: int, channels: int) -> nn.Module:
    """The model of a config with the fresh weights of its seed."""
    torch.manual_seed(derived_seed(config.seed))
    return create_model(
        config.backbone,
        variant=config.variant,
        block_size=config.block_size,
        n_experts=config.n_experts,
        top_k=config.top_k,
        n_classes=n_classes,
        image_size=config.image_size,
        channels=channels,
    )


def loss_of(model: nn.Module, images: Tensor, labels: Tensor, config: RunConfig) -> Tensor:
    """Cross entropy with label smoothing; `drloc` and `moe` add their auxiliary loss."""
    if config.variant != "drloc":
        loss = cross_entropy(model(images), labels, label_smoothing=config.label_smoothing)
        return loss + config.balance_weight * balance_loss(model) if config.variant == "moe" else loss
    tokens = model.forward_features(images)  # type: ignore[operator]
    loss = cross_entropy(model.forward_head(tokens), labels, label_smoothing=config.label_smoothing)  # type: ignore[operator]
    return loss + config.drloc_weight * model.drloc(token_grid(model, tokens))  # type: ignore[operator]


class Trainer:
    """The state of one training run, and the steps that change it."""

    def __init__(
        self, config: RunConfig, data: ImageData, directory: Path, device: torch.device, amp: str = "auto"
    ) -> None:
        self.config = config
        self.data = data
        self.device = device
        self.path = directory / CHECKPOINT
        held = None if config.validation is None else data.held_out(config.validation)
        self.train_split = (held or data).train.take(config.limit_train)
        self.validation_split = None if held is None else held.test
        self.test_split = data.test.take(config.limit_test)
        self.model = build_model(config, data.n_classes, data.channels).to(device)
        self.optimizer = make_optimizer(
            self.model, config.learning_rate, config.weight_decay, config.query_learning_rate
        )
        self.precision = Precision(amp, device)
        self.scaler = self.precision.scaler()
        self.epoch_samples, self.steps_per_epoch = epoch_length(config, len(self.train_split.labels))
        self.epoch = 0
        self.seconds = 0.0
        self.members: list[tuple[int, Outputs]] = []
        self.best: dict[str, Any] = {}
        """Of the sampled epoch with the smallest validation ECE: that, its weights and outputs."""
        self.history: dict[str, list[Any]] = {
            name: [] for name in ("epoch", "layer", "mean_entropy", "std_entropy", "metric_epoch", "name", "value")
        }

    def resume(self) -> None:
        """Take up the last finished epoch, or start from the weights that the config names."""
        state = resume_state(self.path, self.config)
        if state is None:
            if self.config.init is not None:
                start_from(self.model, self.config.init)
            return
        run_id = self.path.parent.name
        check_images(state["fingerprint"], self.data.fingerprint, run_id, "remove that run folder")
        load_weights(self.model, state["model"], f"{run_id}: its checkpoint does not fit its config")
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:  # empty where nothing was scaled, which a scaler that is on would refuse
            self.scaler.load_state_dict(state["scaler"])
        self.epoch, self.seconds, self.history = state["epoch"], state["seconds"], state["history"]
        self.members = [(epoch, Outputs.from_plain(plain)) for epoch, plain in state["members"]]
        self.best = state["best"]

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "epoch": self.epoch,
            "seconds": self.seconds,
            "history": self.history,
            "members": [(epoch, outputs.as_plain()) for epoch, outputs in self.members],
            "best": self.best,
            "fingerprint": self.data.fingerprint,
            "test_fingerprint": self.test_fingerprint,
            "moments": self.data.moments,
            "n_classes": self.data.n_classes,
            "channels": self.data.channels,
        }
        save_checkpoint(self.path, self.config, state)

    def train_epoch(self, progress: Progress) -> float:
        """One epoch; returns the mean training loss."""
        config = self.config
        torch.manual_seed(derived_seed(config.seed, self.epoch, 0))  # stochastic depth, token pairs
        generator = torch.Generator().manual_seed(derived_seed(config.seed, self.epoch, 1))
        order = torch.randperm(len(self.train_split.labels), generator=generator)[: self.epoch_samples]
        images, labels = torch.from_numpy(self.train_split.images), torch.from_numpy(self.train_split.labels)
        flips = self.data.flips if config.flips is None else config.flips
        shift = self.data.shift if config.shift is None else config.shift
        n_steps = self.steps_per_epoch * config.epochs
        n_warmup = round(self.steps_per_epoch * config.warmup_epochs)
        self.model.train()
        total = torch.zeros((), device=self.device)
        for step in range(self.steps_per_epoch):
            rows = order[step * config.batch_size : (step + 1) * config.batch_size]
            pixels = augment(images[rows], flips=flips, shift=shift, generator=generator).to(self.device)
            done = self.epoch * self.steps_per_epoch + step
            set_rate(self.optimizer, cosine_with_warmup(done, n_steps, n_warmup))
            with self.precision.autocast():
                batch = to_input(pixels, self.data.moments, input_size(config))
                loss = loss_of(self.model, batch, labels[rows].to(self.device), config)
            self.optimizer.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            if config.clip_gradient_norm is not None:
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_gradient_norm)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            total += loss.detach()
            if step % 50 == 0:
                progress((done + 1) / n_steps, f"epoch {self.epoch + 1}/{config.epochs}{UNDER_WAY}")
        mean_loss = float(total) / self.steps_per_epoch
        if not np.isfinite(mean_loss):
            raise CacheError(
                f"{config.run_id}: the loss became {mean_loss} in epoch {self.epoch + 1}; lower learning_rate"
            )
        return mean_loss

    @cached_property
    def test_fingerprint(self) -> str:
        return split_fingerprint(self.test_split)

    def evaluated(self, split: Split) -> Outputs:
        return evaluate(self.model, split, self.data.moments, input_size(self.config), self.device)

    def sample(self, mean_loss: float) -> Outputs:
        """Evaluate, and add this epoch's rows to the history."""
        outputs = self.evaluated(self.test_split)
        self.members = [*self.members, (self.epoch, outputs)][-max(1, self.config.ensemble_last) :]
        history = self.history
        if outputs.is_routing:
            profile = outputs.captured.astype(np.float64)
            n_layers = profile.shape[1]
            history["epoch"] += [self.epoch] * n_layers
            history["layer"] += list(range(1, n_layers + 1))
            history["mean_entropy"] += profile.mean(axis=0).tolist()
            history["std_entropy"] += profile.std(axis=0).tolist()
        accuracy = outputs.accuracy(self.test_split.labels)
        metrics = {"train_loss": mean_loss, "test_accuracy": accuracy}
        if self.validation_split is not None:
            metrics["validation_ece"] = self._validate(self.validation_split, outputs)
        for name, value in metrics.items():
            history["metric_epoch"].append(self.epoch)
            history["name"].append(name)
            history["value"].append(value)
        return outputs

    def _validate(self, split: Split, outputs: Outputs) -> float:
        """ECE on the validation images; the weights and outputs of the smallest so far are kept."""
        held = self.evaluated(split)
        error = ece(top_probability(held.logits), held.logits.argmax(axis=1) == split.labels)
        if not self.best or error < self.best["ece"]:
            model = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
            self.best = {"ece": error, "epoch": self.epoch, "model": model, "outputs": outputs.as_plain()}
        return error

    def finished(self) -> Trained:
        """The last epoch, or the best on the validation images."""
        epochs, members = zip(*self.members, strict=True)
        outputs, epoch = members[-1], self.epoch
        if self.best:
            outputs, epoch = Outputs.from_plain(self.best["outputs"]), self.best["epoch"]
            self.model.load_state_dict(self.best["model"])
        return Trained(
            self.model, outputs, epoch, list(members), list(epochs), self.history, self.seconds, self.precision.mode
        )

    def is_sampled(self) -> bool:
        """Epochs counted back from the last one, at the stride, so that the final epoch is always among them."""
        return (self.config.epochs - self.epoch) % self.config.entropy_stride == 0


def train(
    config: RunConfig,
    data: ImageData,
    directory: str | Path,
    *,
    device: str = "auto",
    amp: str = "auto",
    progress: Progress = quiet,
) -> Trained:
    """Train a run to its last epoch, or go on from where its folder says it stopped; `amp` as in `Precision`."""
    if config.dataset != data.name:
        raise InvalidInput("data", f"the images of {config.dataset}", f"those of {data.name}")
    Path(directory).mkdir(parents=True, exist_ok=True)
    trainer = Trainer(config, data, Path(directory), pick_device(device), amp)
    trainer.resume()
    while trainer.epoch < config.epochs:
        started = time.perf_counter()
        mean_loss = trainer.train_epoch(progress)
        trainer.epoch += 1
        report = f"epoch {trainer.epoch}/{config.epochs}, loss {mean_loss:.3f}"
        if trainer.is_sampled():
            report += f", test accuracy {trainer.sample(mean_loss).accuracy(trainer.test_split.labels):.4f}"
        trainer.seconds += time.perf_counter() - started
        trainer.save()
        left = trainer.seconds / trainer.epoch * (config.epochs - trainer.epoch)
        progress(trainer.epoch / config.epochs, f"{report}, {left / 60:.1f} min left")
    return trainer.finished()


def cosine_with_warmup(step: int, n_steps: int, n_warmup: int) -> float:
    """Linear from 0 to 1 over the warm-up, then (1 + cos(pi * progress)) / 2 down to 0; `step` counts from 0."""
    if step < n_warmup:
        return (step + 1) / n_warmup
    return 0.5 * (1 + math.cos(math.pi * (step - n_warmup) / max(1, n_steps - n_warmup)))


def make_optimizer(
    model: nn.Module, learning_rate: float, weight_decay: float, query_learning_rate: float | None
) -> torch.optim.AdamW:
    """AdamW; biases, norms, embeddings, queries and norm weights are not decayed. Each group keeps its `base_rate`."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        leaf = name.rpartition(".")[2]
        decay = 0.0 if parameter.ndim <= 1 or leaf in NO_DECAY else weight_decay
        is_query = leaf == "queries" and query_learning_rate is not None
        rate = float(query_learning_rate) if is_query else learning_rate  # type: ignore[arg-type]
        groups.setdefault((rate, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": rate, "base_rate": rate, "weight_decay": decay}
            for (rate, decay), parameters in groups.items()
        ],
        fused=True,
    )


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["base_rate"] * factor
