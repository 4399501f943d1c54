"""What the engine says about a whole cache, with the names that a reader sees. No Streamlit in here."""

from dataclasses import dataclass

import pandas as pd

from engine.core.labels import TESTS, is_ensemble, label_rows
from engine.core.types import CELL
from engine.sweep import effect_intervals, look_first, single_models, sorted_pvalues
from engine.verdict.cache import CacheVerdict, judge_cache, reason


@dataclass(frozen=True, eq=False)
class CacheSummary:
    """The protocol over a cache.

    every : all runs, ensembles too; counted : without ensembles, p-values corrected over them. Both carry `cell`, how
    the cell is called, and its parts `backbone_name`, `dataset_name` and `variant_name`; `run`, the full name; and
    `slot`, the column of the inventory. first : where to look first, with
    `reason`. p_values : sorted p-values beside what chance gives. cells : `verdict.cells` with their names.
    """

    every: pd.DataFrame
    counted: pd.DataFrame
    first: pd.DataFrame
    p_values: pd.DataFrame
    verdict: CacheVerdict
    cells: pd.DataFrame


def _slots(runs: pd.DataFrame) -> pd.Series:
    """`seed 0`, or `imported`; a second such run of a cell gets a number."""
    slot = pd.Series(["imported" if pd.isna(s) else f"seed {int(s)}" for s in runs["seed"]], index=runs.index)
    again = runs.assign(slot=slot).groupby([*CELL, "slot"], dropna=False).cumcount()
    return slot.where(again == 0, slot + " (" + (again + 1).astype(str) + ")")


def summarise(
    diagnosed: pd.DataFrame, runs: pd.DataFrame, feature_label: str, stored: CacheVerdict | None = None
) -> CacheSummary:
    """The rows of `engine.sweep.diagnose` summed up; `runs` is the table of runs indexed by run id.

    stored : what they say together, where that is known.
    """
    rows = label_rows(diagnosed.assign(slot=diagnosed["run_id"].map(_slots(runs))), runs)
    counted = single_models(rows)
    counted = pd.concat([counted, effect_intervals(counted).add_prefix("effect_")], axis=1)
    first = look_first(counted)
    verdict = stored or judge_cache(counted, feature=feature_label)
    names = counted.set_index("run_id")[["cell", "dataset_name", "run"]]
    return CacheSummary(
        every=rows,
        counted=counted,
        first=first.assign(reason=[reason(row) for row in first.to_dict("records")]),
        p_values=sorted_pvalues(counted).join(names["run"], on="run_id"),
        verdict=verdict,
        cells=verdict.cells.join(names[["cell", "dataset_name"]], on="run_id"),
    )


def table_of_runs(summary: CacheSummary) -> pd.DataFrame:
    """Every run with its corrected p-values; ensembles stand in it but are not counted."""
    every, corrected = summary.every, summary.counted.set_index("run_id")
    return every.assign(
        p_value_holm=every["run_id"].map(corrected["p_value_holm"]),
        note=every["note"].where(~is_ensemble(every["suite"]), "ensemble, not counted"),
    )


def table_of_tests(verdict: CacheVerdict) -> pd.DataFrame:
    """Rejections of each test without and with correction, beside what chance gives."""
    counts = verdict.counts.reset_index()
    return counts.assign(
        name=counts["test"].map(TESTS),
        chance=[f"{low} to {high}" for low, high in zip(counts["chance_low"], counts["chance_high"], strict=True)],
    )


MULTIPLICITY = {
    "name": "Test", "n_tested": "Runs tested", "nominal": "Rejections", "expected_by_chance": "expected by chance",
    "chance": "95 % range by chance", "benjamini_hochberg": "after Benjamini-Hochberg", "holm": "after Holm",
    "bonferroni": "after Bonferroni", "smallest_p": "Smallest p",
}  # fmt: skip
MULTIPLICITY_FORMATS = {"expected_by_chance": "%.1f", "smallest_p": "p"}
RUN_COLUMNS = {
    "run": "Run", "n_samples": "Samples", "n_layers": "Layers", "accuracy": "Accuracy", "raw_ece": "Raw ECE",
    "primary_effect": "Effect", "p_value": "p", "p_value_holm": "p after Holm", "primary_p": "p, trend",
    "shape_p": "p, shape", "paper_p": "p, paper's", "note": "Note",
}  # fmt: skip
RUN_FORMATS = {
    "accuracy": "%.4f", "raw_ece": "%.4f", "primary_effect": "%+.3f",
    **dict.fromkeys(["p_value", "p_value_holm", "primary_p", "shape_p", "paper_p"], "p"),
}  # fmt: skip
