"""What a cache-wide page works on: every run, all samples, whatever run or slice the sidebar shows."""

from __future__ import annotations

from dataclasses import dataclass

from app.state.view import View
from engine.core.binning import N_BINS
from engine.core.labels import counted, is_ensemble
from engine.core.types import CELL


@dataclass(frozen=True, eq=False)
class CacheView(View):
    """The whole cache under the chosen feature and minimum support."""

    def caption(self) -> str:
        """What is counted, and which choices of the sidebar have no say here."""
        ensembles = is_ensemble(self.runs["suite"])
        single = self.runs[~ensembles]
        n_cells = single.groupby(list(CELL), dropna=False).ngroups
        parts = [
            f"whole cache: {counted(len(single), 'run')} in {counted(n_cells, 'cell')}, all samples of each run",
            f"feature: {self.feature_label}",
            f"{N_BINS} bins, at least {self.selection.protocol.min_support} samples a side, tertile cuts",
            "the sidebar's run, slice, population, bins and cuts do not apply to this page",
        ]
        if ensembles.any():
            left_out = counted(int(ensembles.sum()), "ensemble")
            parts.append(f"{left_out} of last epochs left out of the counts, so that no training run counts twice")
        return " · ".join([*parts, f"cache {self.cache.fingerprint}"])
