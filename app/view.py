"""What a page works on: the chosen run, cut down to its population and slice, with its feature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from app.loaders.cache import load_run
from app.selection import POPULATIONS, Selection, Slice, feature_label, run_label
from engine.errors import InvalidInput, MissingData
from engine.features import feature
from engine.store import Cache
from engine.types import FloatArray, RunData


@dataclass(frozen=True, eq=False)
class View:
    """One run as the viewer asked for it. `rho` is None, and `missing` says why, if the run lacks the feature."""

    cache: Cache
    runs: pd.DataFrame
    selection: Selection

    @property
    def row(self) -> pd.Series:
        """The run's line in the table of runs."""
        return self.runs.loc[self.selection.run_id]

    @property
    def label(self) -> str:
        return run_label(self.row)

    @property
    def feature_label(self) -> str:
        return feature_label(self.selection.feature)

    def _prepare(self, *, with_logits: bool) -> tuple[RunData, FloatArray | None, str]:
        needs_logits = with_logits or self.selection.feature == "pred_entropy"
        run = load_run(self.cache, self.selection.run_id, with_logits=needs_logits)
        rho, missing = None, ""
        try:
            rho = feature(run, self.selection.feature)
        except (MissingData, InvalidInput) as error:
            missing = str(error)
        kept = self.selection.protocol.rows(run.n_samples)
        if not self.selection.slice.everything:
            kept &= self.selection.slice.rows(run, rho)
        if kept.all():
            return run, rho, missing
        return run.subset(kept), None if rho is None else rho[kept], missing

    @cached_property
    def _main(self) -> tuple[RunData, FloatArray | None, str]:
        return self._prepare(with_logits=False)

    @property
    def run(self) -> RunData:
        return self._main[0]

    @property
    def rho(self) -> FloatArray | None:
        return self._main[1]

    @property
    def missing(self) -> str:
        return self._main[2]

    @cached_property
    def run_with_logits(self) -> RunData:
        """The same samples with their logits (None inside if the run has none)."""
        return self._prepare(with_logits=True)[0]

    @property
    def slice_in_force(self) -> Slice:
        """The chosen slice without what this run cannot be cut by: a feature that it lacks, unknown true classes."""
        chosen = self.selection.slice
        return replace(
            chosen,
            tertile="all" if self.rho is None else chosen.tertile,
            label="all" if self.run.labels is None else chosen.label,
        )

    def caption(self) -> str:
        """Run, size, population, settings and cache in one line: the settings in force, whatever the URL said."""
        parts = [self.label, f"{self.run.n_samples:,} samples", POPULATIONS[self.selection.protocol.population]]
        if not self.slice_in_force.everything:
            parts.append(f"slice: {self.slice_in_force.describe()}")
        parts += [f"feature: {self.feature_label}", self.selection.protocol.describe()]
        return " · ".join([*parts, f"cache {self.cache.fingerprint}"])
