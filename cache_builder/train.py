"""Trains one run, epoch by epoch, so that a killed run goes on from its last epoch to the same final weights.

Nothing random outlives an epoch: each one draws its order, augmentation, stochastic depth and token pairs from
seeds made of (seed, epoch). The checkpoint therefore holds no random state, only weights, optimiser and history.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cache_builder.checkpoint import check_images, load_weights, resume_state, save_checkpoint
from cache_builder.config import RunConfig
from cache_builder.datasets import ImageData, augment, to_input
from cache_builder.devices import pick_device
from cache_builder.evaluate import Outputs, evaluate
from cache_builder.models.registry import backbone, create_model
from cache_builder.models.seams import token_grid
from cache_builder.precision import Precision
from cache_builder.progress import UNDER_WAY, quiet
from cache_builder.schedule import cosine_with_warmup, make_optimizer, set_rate
from engine.errors import CacheError, InvalidInput
from engine.types import Progress

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished run: the model, the outputs of the last sampled epochs (oldest first), and its history."""

    model: nn.Module
    members: list[Outputs]
    member_epochs: list[int]
    history: dict[str, list[Any]]
    seconds: float


def derived_seed(*parts: int) -> int:
    """A seed for one purpose, unrelated to its neighbours."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def input_size(config: RunConfig) -> int:
    return config.image_size or backbone(config.backbone).image_size


def build_model(config: RunConfig, data: ImageData) -> nn.Module:
    """The model of a config with the fresh weights of its seed."""
    torch.manual_seed(derived_seed(config.seed))
    return create_model(
        config.backbone,
        variant=config.variant,
        block_size=config.block_size,
        n_classes=data.n_classes,
        image_size=config.image_size,
        channels=data.channels,
    )


def loss_of(model: nn.Module, images: Tensor, labels: Tensor, config: RunConfig) -> Tensor:
    """Cross entropy with label smoothing; `drloc` adds its auxiliary loss on the output tokens."""
    if config.variant != "drloc":
        return cross_entropy(model(images), labels, label_smoothing=config.label_smoothing)
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
        self.train_split = data.train.take(config.limit_train)
        self.test_split = data.test.take(config.limit_test)
        self.model = build_model(config, data).to(device)
        self.optimizer = make_optimizer(
            self.model, config.learning_rate, config.weight_decay, config.query_learning_rate
        )
        self.precision = Precision(amp, device)
        self.scaler = self.precision.scaler()
        samples = min(config.epoch_samples or len(self.train_split.labels), len(self.train_split.labels))
        self.epoch_samples = samples
        self.steps_per_epoch = max(1, samples // config.batch_size)
        self.epoch = 0
        self.seconds = 0.0
        self.members: list[tuple[int, Outputs]] = []
        self.history: dict[str, list[Any]] = {
            name: [] for name in ("epoch", "layer", "mean_entropy", "std_entropy", "metric_epoch", "name", "value")
        }

    def resume(self) -> None:
        """Take up the last finished epoch, if there is one."""
        state = resume_state(self.path, self.config)
        if state is None:
            return
        run_id = self.path.parent.name
        check_images(state, self.data.fingerprint, run_id, "remove that run folder")
        load_weights(self.model, state["model"], f"{run_id}: its checkpoint does not fit its config")
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:  # empty where nothing was scaled, which a scaler that is on would refuse
            self.scaler.load_state_dict(state["scaler"])
        self.epoch, self.seconds, self.history = state["epoch"], state["seconds"], state["history"]
        self.members = [
            (epoch, Outputs(logits.numpy(), captured.numpy(), tuple(names), is_routing))
            for epoch, logits, captured, names, is_routing in state["members"]
        ]

    def save(self) -> None:
        members = [
            (epoch, torch.from_numpy(out.logits), torch.from_numpy(out.captured), list(out.names), out.is_routing)
            for epoch, out in self.members
        ]
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "epoch": self.epoch,
            "seconds": self.seconds,
            "history": self.history,
            "members": members,
            "fingerprint": self.data.fingerprint,
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

    def sample(self, mean_loss: float) -> Outputs:
        """Evaluate, and add this epoch's rows to the history."""
        outputs = evaluate(self.model, self.test_split, self.data.moments, input_size(self.config), self.device)
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
        for name, value in (("train_loss", mean_loss), ("test_accuracy", accuracy)):
            history["metric_epoch"].append(self.epoch)
            history["name"].append(name)
            history["value"].append(value)
        return outputs

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
    epochs, members = zip(*trainer.members, strict=True)
    return Trained(trainer.model, list(members), list(epochs), trainer.history, trainer.seconds)
