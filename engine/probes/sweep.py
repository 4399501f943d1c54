"""The probe audit over every run of a cache: pooled R^2, contrasts by cell, and where confidence alone wins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pandas as pd

from engine.core.labels import counted
from engine.core.types import CELL, WITHOUT_LOGITS, Progress, RunData, part_of, silent
from engine.probes.auditing import MINIMUM_SAMPLES, audit
from engine.probes.result import CONTRASTS, PROBES, ProbeResult

if TYPE_CHECKING:
    from engine.store import Cache

RUN_COLUMNS = ["run_id", *CELL, "seed", "n_layers"]
INPUTS = {
    "conf_lin": "c",
    "conf_mlp": "c",
    "full_lin": "(c, H)",
    "shuf_full_mlp": "(c, H shuffled)",
    "full_mlp": "(c, H)",
}
"""What each probe is given, in the order of the paper's table."""


@dataclass(frozen=True, eq=False)
class ProbeSweep:
    """Tidy frames of an audit over many runs. A std is over runs, with ddof 0.

    Attributes
    ----------
    probes : one row per run and probe: mean and std of the held-out R^2 over initialisations.
    contrasts : one row per run and contrast: estimate, t interval over initialisations (low, high), and for the
        routing-specific one the permutation p.
    pooled : one row per probe: mean and std over the runs that have a profile and a defined R^2.
    groups : one row per cell (backbone, data set, variant, ...) and contrast: mean and std over its runs.
    notes : one row per remark about a run.
    """

    probes: pd.DataFrame
    contrasts: pd.DataFrame
    pooled: pd.DataFrame
    groups: pd.DataFrame
    notes: pd.DataFrame

    @property
    def n_groups(self) -> int:
        """Substrates in which the full-profile and the confidence-only network could be compared."""
        return int((self.groups["contrast"] == "capacity_matched").sum())

    @property
    def routing_wins(self) -> int:
        """Substrates in which the full-profile network has the higher mean R^2 of the two; a tie is nobody's win."""
        matched = self.groups[self.groups["contrast"] == "capacity_matched"]
        return int((matched["mean"] > 0).sum())


class AuditOptions(TypedDict, total=False):
    """The keywords of `engine.probes.audit` that every run of a sweep is audited with; its defaults otherwise."""

    hidden: int
    epochs: int
    lr: float
    weight_decay: float
    n_inits: int
    seed: int
    n_shuffles: int


@dataclass(frozen=True)
class RunSummary:
    """What a sweep keeps of one run: rows of `ProbeSweep`'s frames, without the identity of the run."""

    probes: tuple[dict[str, Any], ...] = ()
    contrasts: tuple[dict[str, Any], ...] = ()
    notes: tuple[dict[str, Any], ...] = ()


def audit_run(run: RunData, *, progress: Progress | None = None, **options: Unpack[AuditOptions]) -> RunSummary:
    """`engine.probes.audit` of one run, cut down to what a sweep keeps; a run too small for it gets a note."""
    if run.n_samples < MINIMUM_SAMPLES:
        text = f"{counted(run.n_samples, 'sample')}; an audit needs {MINIMUM_SAMPLES}"
        (progress or silent)(1.0, text)
        return RunSummary(notes=({"run_id": run.run_id, "code": "too_few_samples", "note": text},))
    result = audit(run.confidence, run.entropies, run.correct, progress=progress, **options)
    return RunSummary(
        probes=tuple(
            {"run_id": run.run_id, "probe": probe, "r2_mean": result.mean[probe], "r2_std": result.std[probe]}
            for probe in PROBES
            if probe in result.r2
        ),
        contrasts=tuple({"run_id": run.run_id, **row} for row in _contrast_rows(result)),
        notes=tuple({"run_id": run.run_id, "code": note.code, "note": note.text} for note in result.notes),
    )


def pool(runs: pd.DataFrame, summaries: Iterable[RunSummary]) -> ProbeSweep:
    """Put audited runs together; `runs` (`Cache.runs`) says what each of them is."""
    kept = list(summaries)
    probes = _with_identity(runs, [row for one in kept for row in one.probes], ["probe"], ["r2_mean", "r2_std"])
    contrasts = _with_identity(
        runs, [row for one in kept for row in one.contrasts], ["contrast"], ["estimate", "low", "high", "p_value"]
    )
    return ProbeSweep(
        probes=probes,
        contrasts=contrasts,
        pooled=_summary(probes[probes["n_layers"] > 0], ["probe"], "r2_mean", PROBES),
        groups=_summary(contrasts, [*CELL, "contrast"], "estimate", tuple(CONTRASTS)),
        notes=pd.DataFrame([row for one in kept for row in one.notes], columns=["run_id", "code", "note"]),
    )


def audit_sweep(
    cache: Cache,
    *,
    run_ids: Sequence[str] | None = None,
    progress: Progress | None = None,
    **options: Unpack[AuditOptions],
) -> ProbeSweep:
    """`engine.probes.audit` for every run (or those named), then pooled.

    Runs without a profile get their confidence probes only.
    """
    runs = cache.runs()
    if run_ids is not None:
        runs = runs[runs["run_id"].isin(run_ids)]
    summaries = []
    for position, run_id in enumerate(runs["run_id"]):
        within_run = part_of(progress, position / len(runs), 1 / len(runs), f"{run_id}: ")
        summaries.append(audit_run(cache.load(run_id, WITHOUT_LOGITS), progress=within_run, **options))
    return pool(runs, summaries)


def _with_identity(runs: pd.DataFrame, rows: list[dict[str, Any]], names: list[str], values: list[str]) -> pd.DataFrame:
    """Rows by run, preceded by what the run is; values are floats, missing where there is none."""
    frame = pd.DataFrame(rows, columns=["run_id", *names, *values])
    typed = frame.astype(dict.fromkeys(["run_id", *names], str) | dict.fromkeys(values, float))
    return runs[RUN_COLUMNS].merge(typed, on="run_id", how="inner")


def _contrast_rows(result: ProbeResult) -> list[dict[str, Any]]:
    rows = []
    for name, contrast in result.contrasts.items():
        low, high = contrast.interval or (None, None)
        row: dict[str, Any] = {"contrast": name, "estimate": contrast.estimate, "low": low, "high": high}
        if name == "routing_specific" and result.reference is not None:
            row["p_value"] = result.reference.p_value
        rows.append(row)
    return rows


def _summary(rows: pd.DataFrame, keys: list[str], value: str, order: Sequence[str]) -> pd.DataFrame:
    """Mean, std (ddof 0) and number of runs by `keys`, the last of which is listed in a given order."""
    named = rows[rows[value].notna()].astype({value: float})
    named = named.assign(**{keys[-1]: pd.Categorical(named[keys[-1]], categories=list(order), ordered=True)})
    groups = named.groupby(keys, dropna=False, sort=True, observed=True)[value]
    table = pd.concat(
        [groups.mean().rename("mean"), groups.std(ddof=0).rename("std"), groups.size().rename("n_runs")], axis=1
    ).reset_index()
    return table.astype({keys[-1]: str})
