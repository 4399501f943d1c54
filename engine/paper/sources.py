"""What is computed of a cache before it can be laid beside the paper: a few studies, each over every run that has it.

Ensembles over the last epochs are left out throughout, so that no training run counts twice.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from engine import metrics
from engine.benchmark import (
    bandwidth_sensitivity,
    calibration_size_sensitivity,
    feature_ablation,
    run_benchmark,
    split_variance,
)
from engine.benchmark.run import N_BOOTSTRAP
from engine.benchmark.sensitivity import GAINS_OVER, SIZES
from engine.benchmark.setup import MIN_SAMPLES, TERTILE_FEATURE
from engine.benchmark.smoothing import Smoother
from engine.core.errors import UnknownName
from engine.core.labels import is_ensemble, label_rows
from engine.core.types import CELL, COLUMNS, WITHOUT_LOGITS, Progress, RunData, part_of, silent
from engine.features import feature
from engine.gaps import routing_gain
from engine.metrics.mechanism import relate_to_error
from engine.paper.external import against_noise, block_against_full, lift_over_norm
from engine.probes import audit, audit_sweep
from engine.probes.auditing import MINIMUM_SAMPLES
from engine.store import Cache
from engine.sweep import diagnose, single_models

NORM_SUFFIX = " norm"
"""How the extra columns that hold a plain backbone's block norms end."""
Study = Callable[..., pd.DataFrame | tuple[Any, ...]]
"""Of a run, or of a run and its partner: a tidy frame, or one row without the run's id."""
Partners = Callable[[pd.DataFrame, pd.DataFrame], Mapping[str, str]]
Kept = Callable[[pd.DataFrame], pd.DataFrame]
Compute = Callable[[Cache, pd.DataFrame, Progress], Any]


@dataclass(frozen=True)
class Source:
    """A study of a whole cache: what it computes, in words, and how."""

    label: str
    compute: Compute


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was computed of a cache, by the name of its source.

    Attributes
    ----------
    runs : a row per single run, with `cell` and `run`, the names under which it is listed (see `single_runs`).
    found : results of `SOURCES` by name; those that were not asked for are absent.
    """

    runs: pd.DataFrame
    found: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, source: str) -> Any:
        return self.found[source]

    def has(self, sources: Iterable[str]) -> bool:
        return all(source in self.found for source in sources)


def single_runs(runs: pd.DataFrame, run_ids: Sequence[str] | None = None) -> pd.DataFrame:
    """The table of runs without ensembles in reading order, with the names of their cells (`cell`) and runs (`run`).

    run_ids : these runs instead, ensembles too.
    """
    indexed = runs.set_index("run_id", drop=False)
    for run_id in run_ids or ():
        if run_id not in indexed.index:
            raise UnknownName("runs", run_id, indexed.index)
    kept = ~is_ensemble(indexed["suite"]) if run_ids is None else indexed["run_id"].isin(run_ids)
    return label_rows(indexed[kept].reset_index(drop=True), indexed)


def _with_logits(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[runs["has_logits"].astype(bool) & (runs["n_samples"] >= MIN_SAMPLES)]


def _routed(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[runs["n_layers"] > 0]


def _with_both(runs: pd.DataFrame) -> pd.DataFrame:
    return _routed(_with_logits(runs))


def _gaps(cache: Cache, runs: pd.DataFrame, progress: Progress) -> pd.DataFrame:
    rows = single_models(diagnose(cache, progress=progress))  # corrected over all of the cache, whoever is asked for
    return rows[rows["run_id"].isin(runs["run_id"])].reset_index(drop=True)


def _per_run(
    label: str, study: Study, columns: list[str], kept: Kept = _with_logits, *, logits: bool = True,
    beside: Partners | None = None,
) -> Source:  # fmt: skip
    """The source that is a study of each run that is kept: tidy frames, one below the other.

    logits : whether the study needs them; they are most of the bytes. beside : which run each is studied beside, from
    the runs kept and all that are stored; runs without a partner are then left out.
    """

    def compute(cache: Cache, runs: pd.DataFrame, progress: Progress) -> pd.DataFrame:
        chosen, parts = kept(runs), []
        others = {} if beside is None else beside(chosen, cache.runs())
        chosen = chosen if beside is None else chosen[chosen["run_id"].isin(others)]
        for position, (run_id, name) in enumerate(zip(chosen["run_id"], chosen["run"], strict=True)):
            progress(position / len(chosen), str(name))
            given = [run_id] if beside is None else [run_id, others[run_id]]
            found = study(*(cache.load(str(each), COLUMNS if logits else WITHOUT_LOGITS) for each in given))
            if isinstance(found, tuple):
                found = pd.DataFrame([(run_id, *found)], columns=columns)
            parts.append(found)
        progress(1.0, "done")
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)

    return Source(label, compute)


def _sizes(run: RunData) -> pd.DataFrame:
    possible = [size for size in SIZES if size <= run.n_samples // 2]
    return calibration_size_sensitivity(run, sizes=possible) if possible else pd.DataFrame()


def _bandwidth(run: RunData) -> pd.DataFrame:
    names = (TERTILE_FEATURE, "confidence")
    return pd.concat([bandwidth_sensitivity(run, feature=name).assign(feature=name) for name in names])


_ROUTING = ["run_id", "correlation", "p", "distance", "bandwidth", "kept", "early", "deep"]


def _routing(run: RunData) -> tuple[Any, ...]:
    """What needs the profile alone: rank correlation of its spread with the calibration error (missing if it does not
    vary), Scott's bandwidth on that axis, the distance of its outer tertiles and the share tanh(d^2 / 4 h^2) of a gap
    that is kept, and the mean entropy of the first and of the last third of the layers."""
    link = relate_to_error(run.confidence, run.correct, feature(run, TERTILE_FEATURE)).spearman
    smoother = Smoother.prepare(run, TERTILE_FEATURE)
    by_layer, third = run.entropies.mean(axis=0), max(1, run.n_layers // 3)
    return (
        *((np.nan, np.nan) if link is None else (link.value, link.p_value)), smoother.distance,
        smoother.scott["feature"], smoother.shrinkage((1.0, 1.0)), by_layer[:third].mean(), by_layer[-third:].mean(),
    )  # fmt: skip


_GAIN = ["run_id", "share", "low"]


def _gain(run: RunData) -> tuple[Any, ...]:
    """The left side of Proposition 1 for AR-CondCal's feature, out of sample: as a share of the squared error that
    confidence leaves, and the low end of its 95 % interval."""
    found = routing_gain(run.confidence, run.correct, feature(run, TERTILE_FEATURE))
    return found.share, found.explained_variance.low


_CHANGES = ["run_id", "ece", "worst_tertile_ece"]


def _ensembles(runs: pd.DataFrame, stored: pd.DataFrame) -> dict[str, str]:
    of_epochs = stored.loc[is_ensemble(stored["suite"]) & (stored["n_layers"] > 0), "run_id"]
    single = {run_id.rstrip("0123456789").removesuffix("-last"): run_id for run_id in of_epochs}
    return {run_id: single[run_id] for run_id in runs["run_id"] if run_id in single}


def _change(run: RunData, ensemble: RunData) -> tuple[Any, ...]:
    """Raw ECE and worst-tertile ECE of the ensemble over a run's last epochs minus those of the run, all samples."""
    sides = [(each.confidence, each.correct, feature(each, TERTILE_FEATURE)) for each in (run, ensemble)]
    before, after = (np.array([metrics.ece(*side[:2]), metrics.worst_tertile_ece(*side)]) for side in sides)
    return tuple(after - before)


_PAIRS = ["run_id", "difference", "error"]


def _full_runs(runs: pd.DataFrame, _stored: pd.DataFrame) -> dict[str, str]:
    """Full-AR of the same suite, backbone, data and seed beside Block-AR; of several block sizes the first."""
    keys = ["suite", "backbone", "dataset", "seed"]
    known = runs.dropna(subset=keys)
    block, full = (known.loc[known["variant"] == name, [*keys, "run_id"]] for name in ("block_ar", "full_ar"))
    both = block.merge(full, on=keys).drop_duplicates(keys)
    return dict(zip(both["run_id_x"], both["run_id_y"], strict=True))


def _pair(block: RunData, full: RunData) -> pd.DataFrame | tuple[Any, ...]:
    """No row where the two have not the same samples."""
    shared = block.labels is not None and full.labels is not None and np.array_equal(block.labels, full.labels)
    return tuple(block_against_full(block, full).values()) if shared else pd.DataFrame(columns=_PAIRS)


_NORMS = ["run_id", "routing_z", "norm_z", "random_z", "gain_ece", "gain_nll", "gain_brier"]


def _norms(run: RunData) -> tuple[Any, ...]:
    return (*against_noise(run).values(), *lift_over_norm(run).values())


_SCORES = ["run_id", "method", "metric", "value", "ci_low", "ci_high"]


def _scores(run: RunData, n_bootstrap: int = 0) -> pd.DataFrame:
    """All calibrators, with the shares of targets that the kernel methods clip as metrics among the others."""
    result = run_benchmark(run, n_bootstrap=n_bootstrap)
    clipped = result.clipping.melt(["run_id", "method"], ["clipped_low", "clipped_high"], "metric")
    return pd.concat([result.scores, clipped], ignore_index=True)


def _probes(cache: Cache, runs: pd.DataFrame, progress: Progress) -> Any:
    return audit_sweep(cache, run_ids=_routed(runs)["run_id"].tolist(), progress=progress)


def norm_columns(names: Iterable[str]) -> list[str]:
    """Those of a run's extra columns that summarise its hidden states."""
    return [name for name in names if name.endswith(NORM_SUFFIX)]


def _hidden_states(run: RunData) -> pd.DataFrame:
    """The probes of a run without routing, on the norms of its blocks' outputs in place of a profile."""
    norms = pd.DataFrame({name: run.extra[name] for name in norm_columns(run.extra)}).to_numpy()
    result = audit(run.confidence, norms, run.correct, n_shuffles=0)
    return pd.DataFrame([{"run_id": run.run_id, **result.mean}])


def _with_norms(runs: pd.DataFrame) -> pd.DataFrame:
    has_norms = runs["extra_names"].map(lambda names: bool(norm_columns(names))).astype(bool)
    return runs[(runs["n_layers"] == 0) & (runs["n_samples"] >= MINIMUM_SAMPLES) & has_norms]


_MODES = ["run_id", "mode", "multiplier", "metric", "value", "feature"]
_ABLATION = ["run_id", "feature", "metric", "value", *GAINS_OVER]
SOURCES: Mapping[str, Source] = MappingProxyType({
    "gaps": Source("gap tests of every run", _gaps),
    "routing": _per_run("routing profile of every run", _routing, _ROUTING, _routed, logits=False),
    "ensembles": _per_run(
        "ensembles over the last epochs", _change, _CHANGES, _routed, logits=False, beside=_ensembles
    ),
    "gain": _per_run("explained variance of every run", _gain, _GAIN, _routed, logits=False),
    "pairs": _per_run(
        "Block-AR against Full-AR on the same samples", _pair, _PAIRS, _routed, logits=False, beside=_full_runs
    ),
    "norms": _per_run("routing beside the logit norm", _norms, _NORMS, _with_both),
    "scores": _per_run("all calibrators on every run", _scores, _SCORES),
    "bandwidth": _per_run("bandwidths of AR-CondCal and of its control", _bandwidth, _MODES, _with_both),
    "ablation": _per_run("second features", feature_ablation, _ABLATION, _with_both),
    "hidden_states": _per_run(
        "probes of hidden states", _hidden_states, ["run_id", "conf_lin", "full_mlp"], _with_norms, logits=False
    ),
    "probes": Source("probe audit", _probes),
})  # fmt: skip
"""What pages ask for, quickest first. Gaps use mean routing entropy, AR-CondCal its spread, as in the paper."""


_intervals = partial(_scores, n_bootstrap=N_BOOTSTRAP)
FURTHER_SOURCES: Mapping[str, Source] = MappingProxyType({
    "intervals": _per_run("all calibrators with intervals", _intervals, _SCORES),
    "sizes": _per_run("sizes of the calibration set", _sizes, ["run_id", "size", "draw", "method", "metric", "value"]),
    "splits": _per_run("random splits", split_variance, ["run_id", "split", "method", "metric", "value"]),
})  # fmt: skip
"""Longer studies, for the written tables only. `intervals` holds what `scores` does."""


def gather(
    cache: Cache,
    sources: Iterable[str] = tuple(SOURCES),
    *,
    runs: pd.DataFrame | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """Compute some sources. `runs` is by default `single_runs` of the cache."""
    wanted = list(sources)
    known = {**SOURCES, **FURTHER_SOURCES}
    for name in wanted:
        if name not in known:
            raise UnknownName("sources", name, known)
    listed = single_runs(cache.runs()) if runs is None else runs
    found = {}
    for position, name in enumerate(wanted):
        part = part_of(progress, position / len(wanted), 1 / len(wanted), f"{known[name].label}: ")
        found[name] = known[name].compute(cache, listed, part)
    (progress or silent)(1.0, "done")
    return Evidence(listed, found)


def with_cells(frame: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """A frame by run_id, joined with what each run is."""
    identity = evidence.runs[["run_id", *CELL, "seed", "cell", "run"]]
    return frame.drop(columns=[name for name in (*CELL, "seed", "cell", "run") if name in frame]).merge(
        identity, on="run_id", how="inner"
    )
