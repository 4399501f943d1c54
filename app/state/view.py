"""What a page works on: the chosen run with its slice, its halves for fitting and judging, or the whole cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeVar

import pandas as pd

from app.compute.cache import feature_of, load_run, names_of
from app.state.selection import POPULATIONS, Protocol, Selection, Slice, feature_label, known_features
from engine.benchmark.setup import TERTILE_FEATURE
from engine.core.binning import N_BINS, SPLIT_SEED
from engine.core.errors import InvalidInput, MissingData
from engine.core.labels import RunName, counted, is_ensemble, listed
from engine.core.types import CELL, BoolArray, FloatArray, RunData
from engine.store import Cache
from engine.sweep import DEFAULT_FEATURE
from engine.sweep.others import other_entropies
from engine.verdict.answers import Question

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class View:
    """One run as the viewer asked for it. `rho` is None, and `missing` says why, if the run lacks the feature."""

    cache: Cache
    runs: pd.DataFrame
    selection: Selection
    heeds: ClassVar[tuple[str, ...] | None] = None
    """Slices and settings that a page with this view heeds, by their keys in the address; None for all."""

    @property
    def kept_by(self) -> str:
        """Of the cache's file: what its results are kept by."""
        return self.cache.kept_by

    def stored(self, question: Question[Result]) -> Callable[[], Result | None]:
        """How to find the answer that the cache holds; a choice other than the default one has none."""
        chosen = self.selection
        usual = chosen.feature == DEFAULT_FEATURE or not question.of_feature
        usual = usual and chosen.slice.everything and chosen.protocol == Protocol()
        return (lambda: question.read(self.cache, chosen.run_id)) if usual else (lambda: None)

    def of_run(self, run_id: str) -> View:
        """The same view of another run."""
        return View(self.cache, self.runs, replace(self.selection, run_id=run_id, compare_id=None))

    @property
    def row(self) -> pd.Series:
        """The run's line in the table of runs."""
        return self.runs.loc[self.selection.run_id]

    @property
    def names(self) -> dict[str, RunName]:
        """How every run of the cache is called."""
        return names_of(self.cache, self.runs)

    @property
    def label(self) -> str:
        return self.names[self.selection.run_id].full

    @property
    def feature_label(self) -> str:
        return feature_label(self.selection.feature)

    def cells(self, *, of_any_suite: bool = False) -> pd.Series:
        """A number for each run, the same for the runs of a cell; suites may tell cells apart or not.

        Runs whose seed nobody knows share only a placeholder for a cell.
        """
        names = CELL[1:] if of_any_suite else CELL
        return self.runs.groupby(list(names), dropna=False, sort=False).ngroup()

    @cached_property
    def _whole(self) -> tuple[FloatArray | None, str]:
        """The feature of all samples of the run, and why there is none."""
        try:
            return feature_of(self.cache, self.selection.run_id, self.selection.feature), ""
        except (MissingData, InvalidInput) as error:
            return None, str(error)

    @property
    def has_feature(self) -> bool:
        """Whether the run has what the feature takes, told without reading its samples."""
        return self.selection.feature in known_features(self.row)

    @cached_property
    def _kept(self) -> BoolArray | None:
        """(n,) which samples of the run are chosen; None for all of them."""
        if self.selection.slice.everything and self.selection.protocol.population == Protocol().population:
            return None
        run = load_run(self.cache, self.selection.run_id)
        kept = self.selection.protocol.rows(run.n_samples)
        if not self.selection.slice.everything:
            kept &= self.selection.slice.rows(run, self._whole[0])
        return None if kept.all() else kept

    def _chosen(self, *, with_logits: bool) -> RunData:
        run = load_run(self.cache, self.selection.run_id, with_logits=with_logits)
        return run if self._kept is None else run.subset(self._kept)

    @cached_property
    def run(self) -> RunData:
        """The chosen samples, without logits."""
        return self._chosen(with_logits=False)

    @cached_property
    def run_with_logits(self) -> RunData:
        """The same samples with their logits (None inside if the run has none)."""
        return self._chosen(with_logits=True)

    @cached_property
    def rho(self) -> FloatArray | None:
        """The chosen feature of the chosen samples."""
        whole, _ = self._whole
        return whole if whole is None or self._kept is None else whole[self._kept]

    @property
    def samples(self) -> tuple[FloatArray, BoolArray, FloatArray]:
        """Confidence, correctness and feature of a run that has the feature."""
        if self.rho is None:
            raise ValueError("the page must check view.missing first")
        return self.run.confidence, self.run.correct, self.rho

    @property
    def missing(self) -> str:
        return self._whole[1]

    def feature(self, name: str) -> FloatArray:
        """Any feature of the chosen samples; raises what the engine raises for one that the run lacks."""
        whole = feature_of(self.cache, self.selection.run_id, name)
        return whole if self._kept is None else whole[self._kept]

    def others(self) -> dict[str, FloatArray]:
        """What other runs know about the chosen samples (`other_entropies`)."""
        whole = other_entropies(self.cache, self.selection.run_id)
        return whole if self._kept is None else {name: values[self._kept] for name, values in whole.items()}

    @property
    def slice_in_force(self) -> Slice:
        """The chosen slice without what this run cannot be cut by: features and classes that it lacks."""
        chosen = self.selection.slice
        return replace(
            chosen,
            tertile="all" if self.rho is None else chosen.tertile,
            predicted="all" if self.run.predictions is None else chosen.predicted,
            label="all" if self.run.labels is None else chosen.label,
        )

    @property
    def testable_slice(self) -> Slice:
        """The slice in force without the outcome: the predicted class, where it is known, in the place of the true."""
        chosen = self.slice_in_force
        predicted = chosen.label if chosen.predicted == "all" and self.run.predictions is not None else chosen.predicted
        return replace(chosen, predicted=predicted, label="all", outcome="all")

    @property
    def refusal(self) -> str:
        """Why nothing is tested on the slice in force, and what to do; empty if it was chosen without the outcome."""
        chosen = self.slice_in_force
        if chosen.label == "all":
            return f"{chosen.refusal} Use all predictions instead." if chosen.refusal else ""
        if self.run.predictions is None:
            return f"{chosen.refusal} This run has no predicted classes to slice by instead."
        return f"{chosen.refusal} Slice by predicted class instead."

    @property
    def ignored_slices(self) -> list[str]:
        """Parts of the chosen slice that this run cannot be cut by, in words."""
        words = {"tertile": "the feature", "predicted": "predicted classes", "label": "true classes"}
        chosen, in_force = self.selection.slice, self.slice_in_force
        return [word for name, word in words.items() if getattr(chosen, name) != getattr(in_force, name)]

    def caption(self) -> str:
        """Run, size, population, settings and cache in one line: the settings in force, whatever the URL said."""
        parts = [self.label, f"{self.run.n_samples:,} samples", POPULATIONS[self.selection.protocol.population]]
        if not self.slice_in_force.everything:
            parts.append(f"slice: {self.slice_in_force.describe()}")
        if self.ignored_slices:
            parts.append(f"this run lacks {listed(self.ignored_slices)}, so that slice is ignored")
        parts += [f"feature: {self.feature_label}", self.selection.protocol.describe()]
        return " · ".join([*parts, f"cache {self.cache.fingerprint}"])


@dataclass(frozen=True, eq=False)
class BenchmarkView(View):
    """One run under the protocol's benchmark, whatever slice or settings the sidebar shows."""

    ignored: ClassVar[str] = "slice, population, feature, bins and cuts"
    heeds: ClassVar[tuple[str, ...] | None] = ()

    @property
    def features_used(self) -> str:
        """What AR-CondCal is fitted with, and whose tertiles are scored."""
        return f"AR-CondCal and worst tertile: {feature_label(TERTILE_FEATURE)}"

    def caption(self) -> str:
        """The population, what is fixed, and which choices of the sidebar have no say here."""
        n_samples = int(self.row["n_samples"])
        half = n_samples // 2
        parts = [
            self.label,
            f"population: benchmark split of all {n_samples:,} samples (seed {SPLIT_SEED}), "
            f"{half:,} for fitting and {n_samples - half:,} for evaluation",
            f"ECE over {N_BINS} equal-width bins",
            self.features_used,
            f"this page ignores the sidebar's {self.ignored}",
        ]
        return " · ".join([*parts, f"cache {self.cache.fingerprint}"])


@dataclass(frozen=True, eq=False)
class KernelView(BenchmarkView):
    """The same with AR-CondCal on the feature that the sidebar shows."""

    ignored: ClassVar[str] = "slice, population, bins and cuts"

    @property
    def features_used(self) -> str:
        return f"feature: {self.feature_label}, worst tertile: {feature_label(TERTILE_FEATURE)}"


@dataclass(frozen=True, eq=False)
class CacheView(View):
    """The whole cache under the chosen feature and minimum support."""

    heeds: ClassVar[tuple[str, ...] | None] = ("support",)

    def caption(self) -> str:
        """What is counted, and which choices of the sidebar have no say here."""
        ensembles = is_ensemble(self.runs["suite"])
        single = self.runs[~ensembles]
        n_cells = single.groupby(list(CELL), dropna=False).ngroups
        parts = [
            f"whole cache: {counted(len(single), 'run')} in {counted(n_cells, 'cell')}, all samples of each run",
            f"feature: {self.feature_label}",
            f"{N_BINS} bins, at least {self.selection.protocol.min_support} samples in each outer third, tertile cuts",
            "this page ignores the sidebar's run, slice, population, bins and cuts",
        ]
        if ensembles.any():
            left_out = counted(int(ensembles.sum()), "ensemble")
            parts.append(f"{left_out} of last epochs left out of the counts, so that no training run counts twice")
        return " · ".join([*parts, f"cache {self.cache.fingerprint}"])
