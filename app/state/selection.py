"""What a viewer has chosen: one run, a second one, a feature, a slice, the protocol's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.core.binning import N_BINS, TERTILE_QUANTILES, TERTILES, split, tertiles
from engine.core.labels import is_ensemble
from engine.core.types import BoolArray, FloatArray, RunData
from engine.features import FEATURES
from engine.gaps.settings import MIN_SUPPORT, TestSettings

N_SIMULATIONS = 400
"""Data sets that tests are tried on: one number, so that a verdict agrees with the figures beside it."""
POPULATIONS = {"diagnostic": "diagnostic (all samples)", "benchmark": "benchmark (held-out half)"}
OUTCOMES = {"all": "all", "correct": "correct only", "wrong": "wrong only"}


def feature_label(name: str) -> str:
    """How a feature is shown; an extra column goes by its own name."""
    return FEATURES[name].label if name in FEATURES else name


def known_features(row: pd.Series) -> list[str]:
    """The features that a run has what it takes for, its extra columns last, told by its line in the table of runs."""
    two_classes = row["has_logits"] and row["n_classes"] > 1  # one has no entropy
    has = {"profile": row["n_layers"] > 0, "logits": two_classes, "confidence": True}
    return [name for name, entry in FEATURES.items() if has[entry.needs]] + list(row["extra_names"])


def telling_first(runs: pd.DataFrame) -> pd.DataFrame:
    """The order in which runs are offered: with routing and many samples first, single models before ensembles."""
    return runs.assign(
        ensemble=is_ensemble(runs["suite"]), unrouted=runs["n_layers"] == 0, small=runs["n_samples"] < 5000
    ).sort_values(["unrouted", "small", "ensemble", "backbone", "dataset", "variant", "seed"], kind="stable")


@dataclass(frozen=True)
class Slice:
    """Which samples of a run are looked at; the default is all of them.

    `label` (the true class) and `outcome` are not known when a prediction is made. In a world in which correctness
    depends on confidence alone, samples of one true class are correct exactly where they are predicted as it, so
    anything that varies with the prediction "explains" their correctness. Nothing is tested on such a slice.
    """

    tertile: str = "all"
    band: tuple[float, float] = (0.0, 1.0)
    predicted: str = "all"
    label: str = "all"
    outcome: str = "all"

    @property
    def everything(self) -> bool:
        return self == Slice()

    @property
    def refusal(self) -> str:
        """Why nothing is tested on this slice; empty if it was chosen without the outcome."""
        if self.label != "all":
            return "Selecting by true class uses the outcome, so tests on it reject without cause."
        if self.outcome != "all":
            return f"Selecting {self.outcome} predictions uses the outcome, which leaves nothing to test."
        return ""

    def describe(self) -> str:
        """The slice in words, empty for all samples."""
        parts = []
        if self.tertile != "all":
            parts.append(f"{self.tertile} tertile")
        if self.band != (0.0, 1.0):
            parts.append(f"confidence {self.band[0]:.2f} to {self.band[1]:.2f}")
        if self.predicted != "all":
            parts.append(f"predicted class {self.predicted}")
        if self.label != "all":
            parts.append(f"true class {self.label}")
        if self.outcome != "all":
            parts.append(f"{self.outcome} predictions")
        return ", ".join(parts)

    def rows(self, run: RunData, rho: FloatArray | None) -> BoolArray:
        """(n,) which samples are in the slice."""
        kept = (run.confidence >= self.band[0]) & (run.confidence <= self.band[1])
        if self.outcome != "all":
            kept &= run.correct == (self.outcome == "correct")
        if self.predicted != "all" and run.predictions is not None:
            kept &= run.predictions == int(self.predicted)
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
        return f"{self.n_bins} bins, at least {self.min_support} samples in each outer third, {cuts}"

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
