"""What a viewer has chosen: one run, a second one, a feature, a slice, the protocol's settings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.core.binning import N_BINS, TERTILE_QUANTILES, TERTILES, tertiles
from engine.core.splitting import split
from engine.core.types import BoolArray, FloatArray, RunData
from engine.features import FEATURES
from engine.gaps.settings import MIN_SUPPORT, TestSettings
from engine.sweep import ensemble_size, is_ensemble

VARIANTS = {
    "baseline": "plain residual",
    "full_ar": "Full-AR",
    "block_ar": "Block-AR",
    "drloc": "DrLoc control",
}
BACKBONES = {"micro_swin": "Swin (micro)", "micro_deit": "DeiT (micro)", "micro_vit": "ViT (micro)"}
DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "fashion-mnist": "Fashion-MNIST", "digits": "Digits"}
POPULATIONS = {"diagnostic": "diagnostic (all samples)", "benchmark": "benchmark (held-out half)"}
OUTCOMES = {"all": "all", "correct": "correct only", "wrong": "wrong only"}


def variant_label(variant: str, block_size: object) -> str:
    """`Block-AR (b = 2)`, `Full-AR`, or the name as it is for other people's models."""
    label = VARIANTS.get(variant, variant)
    return label if pd.isna(block_size) else f"{label} (b = {block_size})"


def feature_label(name: str) -> str:
    """How a feature is shown; an extra column goes by its own name."""
    return FEATURES[name].label if name in FEATURES else name


def telling_first(runs: pd.DataFrame) -> pd.DataFrame:
    """The order in which runs are offered: with routing and many samples first, single models before ensembles."""
    return runs.assign(
        ensemble=is_ensemble(runs["suite"]), unrouted=runs["n_layers"] == 0, small=runs["n_samples"] < 5000
    ).sort_values(["unrouted", "small", "ensemble", "backbone", "dataset", "variant", "seed"], kind="stable")


@dataclass(frozen=True)
class RunName:
    """How a run is shown, each part as its box in the sidebar has it. No other run of its cache is called the same."""

    backbone: str
    dataset: str
    variant: str
    run: str

    @property
    def full(self) -> str:
        """`DeiT (micro) · CIFAR-10 · Full-AR · seed 0`."""
        return f"{self.backbone} · {self.dataset} · {self.variant} · {self.run}"


def run_names(runs: pd.DataFrame) -> dict[str, RunName]:
    """The name of every run, by its id.

    Runs are told apart by their seed, with the suite where two have the same, with the id where even that is the same:
    a select box leads all options of one name to the last of them.
    """
    rows = list(runs.to_dict("records"))
    names = [
        RunName(
            BACKBONES.get(row["backbone"], row["backbone"]),
            DATASETS.get(row["dataset"], row["dataset"]),
            variant_label(row["variant"], row["block_size"]),
            _seed_label(row),
        )
        for row in rows
    ]
    for addition in (" ({suite})", " · {run_id}"):
        count = Counter(names)
        names = [
            name if count[name] == 1 else replace(name, run=name.run + addition.format(**row))
            for name, row in zip(names, rows, strict=True)
        ]
    return dict(zip(runs["run_id"], names, strict=True))


def _seed_label(row: dict[str, Any]) -> str:
    """The seed, or the run's own id where nobody knows the seed, with `last-5 ensemble` where it is one."""
    label = row["run_id"] if pd.isna(row["seed"]) else f"seed {row['seed']}"
    size = ensemble_size(str(row["suite"]))
    return label if size is None else f"{label}, last-{size} ensemble"


@dataclass(frozen=True)
class Slice:
    """Which samples of a run are looked at; the default is all of them."""

    tertile: str = "all"
    band: tuple[float, float] = (0.0, 1.0)
    label: str = "all"
    outcome: str = "all"

    @property
    def everything(self) -> bool:
        return self == Slice()

    def describe(self) -> str:
        """The slice in words, empty for all samples."""
        parts = []
        if self.tertile != "all":
            parts.append(f"{self.tertile} tertile")
        if self.band != (0.0, 1.0):
            parts.append(f"confidence {self.band[0]:.2f} to {self.band[1]:.2f}")
        if self.label != "all":
            parts.append(f"class {self.label}")
        if self.outcome != "all":
            parts.append(f"{self.outcome} predictions")
        return ", ".join(parts)

    def rows(self, run: RunData, rho: FloatArray | None) -> BoolArray:
        """(n,) which samples are in the slice."""
        kept = (run.confidence >= self.band[0]) & (run.confidence <= self.band[1])
        if self.outcome != "all":
            kept &= run.correct == (self.outcome == "correct")
        if self.label != "all" and run.labels is not None:
            kept &= run.labels == int(self.label)
        if self.tertile != "all" and rho is not None:
            kept &= tertiles(rho).index == TERTILES.index(self.tertile)
        return kept


@dataclass(frozen=True)
class Protocol:
    """The settings of the paper's test, adjustable; the defaults are the paper's."""

    n_bins: int = N_BINS
    min_support: int = MIN_SUPPORT
    quantiles: tuple[float, float] = TERTILE_QUANTILES
    population: str = "diagnostic"

    def describe(self) -> str:
        """The settings in words."""
        low, high = self.quantiles
        cuts = "tertile cuts" if self.quantiles == TERTILE_QUANTILES else f"cuts at {low:.2f} and {high:.2f}"
        return f"{self.n_bins} bins, at least {self.min_support} samples a side, {cuts}"

    @property
    def test_settings(self) -> TestSettings:
        """What the engine's functions take of the settings."""
        return TestSettings(self.n_bins, self.min_support, self.quantiles)

    def rows(self, n_samples: int) -> BoolArray:
        """(n,) which samples belong to the population."""
        kept = np.ones(n_samples, dtype=bool)
        if self.population == "benchmark" and n_samples > 1:  # a single sample cannot be halved
            kept[split(n_samples)[0]] = False
        return kept


@dataclass(frozen=True)
class Selection:
    """Everything that a page depends on; equal selections over equal caches give equal pages."""

    fingerprint: str
    run_id: str
    compare_id: str | None
    feature: str
    slice: Slice
    protocol: Protocol

    @property
    def alone(self) -> Selection:
        """Without the run to compare with, which no result of this one depends on."""
        return replace(self, compare_id=None)

    @property
    def of_any_feature(self) -> Selection:
        """What decides on the samples and settings of a result about other features than the chosen one.

        The chosen one still counts where a tertile of it is looked at.
        """
        cut_by = self.feature if self.slice.tertile != "all" else ""
        return replace(self.alone, feature=cut_by)
