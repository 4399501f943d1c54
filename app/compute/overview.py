"""What the engine says about a whole cache, with the names that a reader sees. No Streamlit in here."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from engine.core.labels import is_ensemble, label_rows
from engine.core.types import CELL
from engine.sweep import effect_intervals, look_first, single_models, sorted_pvalues
from engine.verdict.cache import CacheVerdict, StabilityVerdict, judge_cache, judge_stability, reason


@dataclass(frozen=True, eq=False)
class CacheSummary:
    """The protocol over a cache.

    every : all runs, ensembles too; counted : without ensembles, p-values corrected over them. Both carry `cell`, how
    the cell is called, and its parts `backbone_name`, `dataset_name` and `variant_name`; `run`, the full name; and
    `slot`, the column of the inventory. first : where to look first, with
    `reason`. p_values : both tests' sorted p-values beside uniform ones. stable.cells carries `cell` too.
    """

    every: pd.DataFrame
    counted: pd.DataFrame
    first: pd.DataFrame
    p_values: pd.DataFrame
    verdict: CacheVerdict
    stable: StabilityVerdict


def _slots(runs: pd.DataFrame) -> pd.Series:
    """`seed 0`, or `imported`; a second such run of a cell gets a number."""
    slot = pd.Series(["imported" if pd.isna(s) else f"seed {int(s)}" for s in runs["seed"]], index=runs.index)
    again = runs.assign(slot=slot).groupby([*CELL, "slot"], dropna=False).cumcount()
    return slot.where(again == 0, slot + " (" + (again + 1).astype(str) + ")")


def summarise(diagnosed: pd.DataFrame, runs: pd.DataFrame, feature_label: str) -> CacheSummary:
    """The rows of `engine.sweep.diagnose` summed up; `runs` is the table of runs indexed by run id."""
    rows = label_rows(diagnosed.assign(slot=diagnosed["run_id"].map(_slots(runs))), runs)
    counted = single_models(rows)
    counted = pd.concat([counted, effect_intervals(counted).add_prefix("effect_")], axis=1)
    first = look_first(counted)
    verdict = judge_cache(counted, feature=feature_label)
    stable = judge_stability(counted, feature=feature_label)
    names = counted.set_index("run_id")[["cell", "run"]]
    return CacheSummary(
        every=rows,
        counted=counted,
        first=first.assign(reason=[reason(row) for row in first.to_dict("records")]),
        p_values=sorted_pvalues(counted).join(names["run"], on="run_id"),
        verdict=verdict,
        stable=StabilityVerdict(stable.outcome, stable.sentence, stable.cells.join(names["cell"], on="run_id")),
    )


def table_of_runs(summary: CacheSummary) -> pd.DataFrame:
    """Every run with its corrected p-values; ensembles stand in it but are not counted."""
    every, corrected = summary.every, summary.counted.set_index("run_id")
    return every.assign(
        paper_p_holm=every["run_id"].map(corrected["paper_p_holm"]),
        primary_p_holm=every["run_id"].map(corrected["primary_p_holm"]),
        note=every["note"].where(~is_ensemble(every["suite"]), "ensemble, not counted"),
    )


MULTIPLICITY = {
    "name": "Test", "n_tested": "Runs tested", "expected_by_chance": "Rejections expected by chance",
    "nominal": "Rejections", "benjamini_hochberg": "after Benjamini-Hochberg", "holm": "after Holm",
    "bonferroni": "after Bonferroni", "smallest_p": "Smallest p",
}  # fmt: skip
MULTIPLICITY_FORMATS = {"expected_by_chance": "%.1f", "smallest_p": "%.3g"}
RUN_COLUMNS = {
    "run": "Run", "n_samples": "Samples", "n_layers": "Layers", "accuracy": "Accuracy", "raw_ece": "Raw ECE",
    "paper_p": "p, paper's", "paper_p_holm": "Holm, paper's", "primary_p": "p, primary",
    "primary_p_holm": "Holm, primary", "note": "Note",
}  # fmt: skip
RUN_FORMATS = {
    "accuracy": "%.4f", "raw_ece": "%.4f", "paper_p": "%.4f", "paper_p_holm": "%.4f", "primary_p": "%.4g",
    "primary_p_holm": "%.4g",
}  # fmt: skip
