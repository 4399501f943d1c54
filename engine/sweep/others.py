"""Real positive controls: what other runs know about the same test samples."""

from collections.abc import Collection
from typing import Protocol

import numpy as np
import pandas as pd

from engine.core.labels import is_ensemble
from engine.core.types import FloatArray, RunData
from engine.features import columns_of, feature

MOST = 4


class Readable(Protocol):
    """What is read of a cache."""

    def runs(self) -> pd.DataFrame: ...
    def load(self, run_id: str, columns: Collection[str] = ...) -> RunData: ...


def others_of(runs: pd.DataFrame, run_id: str) -> list[str]:
    """The runs that may share samples with this one, those of its own kind first."""
    by_id = runs.set_index("run_id")
    mine = by_id.loc[run_id]
    same = by_id[
        (by_id["dataset"] == mine["dataset"])
        & (by_id["n_samples"] == mine["n_samples"])
        & by_id["has_logits"].astype(bool)
        & ~is_ensemble(by_id["suite"])
        & (by_id.index != run_id)
    ]
    kin = (same[["backbone", "variant"]] == mine[["backbone", "variant"]]).sum(axis=1)
    return [str(other) for other in kin.sort_values(ascending=False, kind="stable").index]


def other_entropies(cache: Readable, run_id: str, *, most: int = MOST) -> dict[str, FloatArray]:
    """Predictive entropies of other runs on the samples of a run, by run id; runs of its own kind first.

    Runs share samples if they have the same data set and the same labels, sample by sample; ensembles are left out, and
    so is every run without logits or labels. A test that misses what another seed knows about these samples is not
    worth much.
    """
    candidates = others_of(cache.runs(), run_id)
    labels = cache.load(run_id, {"labels"}).labels if candidates else None
    if labels is None:
        return {}
    found: dict[str, FloatArray] = {}
    for other in candidates:
        run = cache.load(other, {"labels", *columns_of("pred_entropy")})
        if run.labels is not None and np.array_equal(run.labels, labels):
            found[other] = feature(run, "pred_entropy")
        if len(found) == most:
            break
    return found
