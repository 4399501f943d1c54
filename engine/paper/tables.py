"""Every table as a tidy frame of what a cache has: tables of gaps, calibrators, studies and probes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec

import numpy as np
import pandas as pd

from engine.benchmark.bandwidth import FAMILY
from engine.benchmark.comparisons import rank_one_counts, split_trials
from engine.benchmark.sensitivity import size_curves
from engine.benchmark.setup import CONTROLS, REFERENCE, ROUTING, TERTILE_FEATURE
from engine.calibrators import CALIBRATORS
from engine.core.errors import RouteCalError
from engine.core.labels import DATASETS, MISSING
from engine.paper import published
from engine.paper.sources import Evidence, with_cells
from engine.probes import ProbeSweep
from engine.probes.sweep import INPUTS

FRAME = ["row", "column", "value", "std", "n", "printed"]
ROUTED = ("block_ar", "full_ar")
Given = ParamSpec("Given")
Cells = Iterable[tuple[str, str, Any, Any, Any]]
"""(row, column, value or word, std, n)"""
NO_VIT = "no ViT run of this cache has routing and logits"


class NoCounterpart(RouteCalError):
    """The cache lacks what a published table shows; the message says what."""


def tidy(rows: Cells, reason: str) -> pd.DataFrame:
    """(row, column, value or word, std, n) as a frame; nothing at all is a reason."""
    known = list(rows)
    if not known:
        raise NoCounterpart(reason)
    frame = pd.DataFrame(known, columns=["row", "column", "value", "std", "n"])
    words = [value if isinstance(value, str) else "" for value in frame["value"]]
    return frame.assign(
        value=pd.to_numeric(frame["value"], errors="coerce").astype(float),
        std=pd.to_numeric(frame["std"], errors="coerce").astype(float),
        n=pd.to_numeric(frame["n"], errors="coerce").astype("Int64"),
        printed=words,
    )


def table_of(reason: str) -> Callable[[Callable[Given, Cells]], Callable[Given, pd.DataFrame]]:
    """Makes a table of a function that yields its cells; `reason` is why a cache has none."""

    def decorate(cells: Callable[Given, Cells]) -> Callable[Given, pd.DataFrame]:
        @wraps(cells)
        def table(*given: Given.args, **named: Given.kwargs) -> pd.DataFrame:
            return tidy(cells(*given, **named), reason)

        return table

    return decorate


def means(values: pd.Series[Any]) -> tuple[float, float, int]:
    """Mean, std (ddof 0; missing for a single run) and number."""
    known = values.astype(float).dropna()
    n = len(known)
    return (float(known.mean()) if n else np.nan), (float(known.std(ddof=0)) if n > 1 else np.nan), n


def by_run(rows: pd.DataFrame, name: str, columns: Mapping[str, str], reason: str) -> pd.DataFrame:
    """One row of a frame, a run, is one row of the table."""
    return tidy(
        (
            (str(row[name]), column, row[field], None, 1)
            for row in rows.to_dict("records")
            for column, field in columns.items()
        ),
        reason,
    )


def vit(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of routed ViT cells."""
    return rows[rows["backbone"].str.contains("vit", regex=False) & rows["variant"].isin(ROUTED)]


_GAP = {
    "Max gap": "max_gap", "Max gap CI low": "max_gap_low", "Max gap CI high": "max_gap_high", "Wt. gap": "weighted_gap",
    "Wt. gap CI low": "weighted_gap_low", "Wt. gap CI high": "weighted_gap_high", "Shared bins": "shared_bins",
    "Total bins": "n_bins", "Support min": "support_min", "Support q25": "support_q25",
    "Support median": "support_median", "Null q.975": "null_high", "Perm. p": "paper_p", "Acc@1": "accuracy",
    "Rejects": "rejects",
}  # fmt: skip
_NO_GAP = "no run of this cache has a routing profile, so no gap can be measured"


def _tested(evidence: Evidence) -> pd.DataFrame:
    rows = with_cells(evidence["gaps"].dropna(subset=["max_gap"]), evidence)
    return rows.assign(rejects=["yes" if rejects else "no" for rejects in rows["paper_rejects"]])


def gap_table(table: str, evidence: Evidence) -> pd.DataFrame:
    """Rows of runs: all of them, or the first seed of each cell where the paper shows seed 0."""
    rows = _tested(evidence)
    name = "run"
    if table != "per_seed_diagnostics":
        rows, name = rows.sort_values("seed", kind="stable").drop_duplicates("cell").sort_values("cell"), "cell"
    columns = dict.fromkeys(published.load(table)["column"])
    return by_run(rows, name, {column: _GAP[column] for column in columns}, _NO_GAP)


@table_of(_NO_GAP)
def sweep_table(evidence: Evidence) -> Cells:
    """Cells: means over seeds, smallest p, rejections."""
    for name, runs in _tested(evidence).groupby("cell", sort=False):
        n = len(runs)
        for column, field in (("Max gap", "max_gap"), ("Wt. gap", "weighted_gap")):
            mean, std, _ = means(runs[field])
            yield str(name), column, mean, std, n
        yield str(name), "Perm. p", float(runs["paper_p"].astype(float).min()), None, n
        yield str(name), "Rejections", int(runs["paper_rejects"].sum()), None, n
        yield str(name), "Runs tested", n, None, n


RULE_GAP = 0.08
"""The matched gap that the paper asked for in advance, beside AR-CondCal being ahead of its controls."""


def rule_by_cell(evidence: Evidence) -> pd.DataFrame:
    """The rule fixed in advance, by cell: max_gap, null_high (97.5 % point of its null) and ECE of the kernel family,
    means over seeds; large (the gap is at least 0.08), ahead (AR-CondCal has less ECE than both controls), met."""
    gaps = _tested(evidence).astype({"max_gap": float, "null_high": float})
    scores = with_cells(evidence["scores"], evidence)
    ece = scores[scores["metric"] == "ece"].pivot_table(index="cell", columns="method", values="value")
    means_of = gaps.groupby("cell", sort=False)[["max_gap", "null_high"]].mean()
    cells = means_of.join(ece.reindex(columns=list(FAMILY))).dropna()
    large, ahead = cells["max_gap"] >= RULE_GAP, cells[ROUTING] < cells[list(CONTROLS)].min(axis=1)
    return cells.assign(large=large, ahead=ahead, met=large & ahead)


@table_of(_NO_GAP)
def by_cell(evidence: Evidence) -> Cells:
    """The paper's propositions and its rule as numbers, means over seeds; the last row pools all evaluated samples.

    Explained: share of the squared error of confidence alone that r_std removes, out of sample (Proposition 1). Blind
    spot: half the weighted gap, by which a calibrator of confidence must be off on average (2). Gap kept: at Scott's
    bandwidth (4).
    """
    rows = with_cells(evidence["routing"], evidence).merge(_tested(evidence)[["run_id", "max_gap", "weighted_gap"]])
    rows = rows.assign(blind_spot=rows["weighted_gap"].astype(float) / 2).merge(evidence.runs[["run_id", "n_samples"]])
    rows = rows.merge(evidence["gain"]).assign(share=lambda frame: 100 * frame["share"])
    scores, rule = evidence["scores"], rule_by_cell(evidence)["met"].map({True: "met", False: "not met"})
    clipped = scores[scores["method"] == ROUTING].pivot_table(index="run_id", columns="metric", values="value")
    rates = {"clipped_low": "Clipped low (%)", "clipped_high": "Clipped high (%)"}
    rows = rows.merge(100 * clipped.reindex(columns=list(rates)), "left", left_on="run_id", right_index=True)
    shown = {"share": "Explained (%)", "blind_spot": "Blind spot", "kept": "Gap kept", "max_gap": "Max gap"} | rates
    for cell, runs in rows.groupby("cell", sort=False):
        for field, column in shown.items():
            yield str(cell), column, *means(runs[field])
        yield str(cell), "Rule", rule.get(cell, MISSING), None, len(runs)
    known = rows.dropna(subset=list(rates))
    for field, column in rates.items() if len(known) else ():
        yield "All cells", column, float(np.average(known[field], weights=known["n_samples"])), None, len(known)


METHOD_ROWS = {
    "none": "No calibration", "ts": "Temp. Scaling (TS)", "ets": "Ensemble TS", "vs": "Vector Scaling",
    "cts": "Classwise TS", "pts": "Parametric TS", "hb": "Histogram Binning", "bbq": "BBQ",
    "isotonic": "Isotonic Regression", "sbece": "SB-ECE TS", "rcmmc": "RCMMC", "nw_conf": "Conf-only",
    "nw_conf_entropy": "Conf + PredEntropy", "nw_conf_routing": "AR-CondCal",
}  # fmt: skip
SUPPLEMENT_ROWS = {method: published.SUPPLEMENT_NAMES.get(row, row) for method, row in METHOD_ROWS.items()}
VIT_ROWS = {"ts": "TS", "bbq": "BBQ", "rcmmc": "RCMMC", "nw_conf_routing": "AR-CondCal"}
_METRICS = ("ece", "adaptive_ece", "nll", "brier", "worst_tertile_ece")
HEADLINE = dict(zip(published.CALIBRATION_COLUMNS, _METRICS, strict=True))
NO_LOGITS = "no run of this cache has logits and labels, so no calibrator can be fitted"


def _method(name: str) -> str:
    """The paper's name of a method, or ours where it has none."""
    return METHOD_ROWS.get(name, CALIBRATORS[name].label)


def of_cell(
    rows: Mapping[str, str], columns: Mapping[str, str], skip: tuple[str, ...], evidence: Evidence, cell: str
) -> pd.DataFrame:
    """Methods by metrics of one cell, mean and std over its seeds; methods that the paper lacks come last."""
    scores = with_cells(evidence["scores"], evidence)
    scores = scores[scores["cell"] == cell]
    methods = [*rows, *(name for name in CALIBRATORS if name not in rows)]
    found = scores.groupby(["method", "metric"])["value"]

    def cells() -> Cells:
        for method in methods:
            if method in skip or method not in set(scores["method"]):
                continue
            for column, metric in columns.items():
                mean, std, n = means(found.get_group((method, metric)))
                scale = 100 if column.endswith("(%)") else 1
                yield rows.get(method, CALIBRATORS[method].label), column, scale * mean, scale * std, n

    return tidy(cells(), NO_LOGITS if evidence["scores"].empty else f"{cell} has no run with logits")


def _raw_by_cell(evidence: Evidence, runs: pd.DataFrame) -> Cells:
    """Uncalibrated metrics of these runs by cell."""
    scores = with_cells(evidence["scores"], evidence)
    raw = scores[(scores["method"] == REFERENCE) & scores["run_id"].isin(runs["run_id"])]
    for name, rows in raw.groupby("cell", sort=False):
        for column, metric in {"Acc@1": "accuracy", "ECE": "ece", "NLL": "nll", "Brier": "brier"}.items():
            yield str(name), column, *means(rows.loc[rows["metric"] == metric, "value"])


@table_of("no Swin run on CIFAR-10 with logits; the table of all completed cells shows what there is")
def raw_summary(evidence: Evidence) -> Cells:
    swin = evidence.runs["backbone"].str.contains("swin", regex=False) & (evidence.runs["dataset"] == "cifar10")
    return _raw_by_cell(evidence, evidence.runs[swin])


@table_of(NO_LOGITS)
def replication(evidence: Evidence) -> Cells:
    return _raw_by_cell(evidence, evidence.runs)


@table_of("the paper shows runs of another pipeline here, and this cache has no imported run with logits")
def imported(evidence: Evidence) -> Cells:
    sources = [str(json.loads(text or "{}").get("source", "")) for text in evidence.runs["provenance"]]
    return _raw_by_cell(evidence, evidence.runs.loc[[source != "cache_builder train" for source in sources]])


@table_of("no Block-AR or Full-AR run of this cache has logits")
def block_sizes(evidence: Evidence) -> Cells:
    scores = with_cells(evidence["scores"], evidence)
    scores = scores[scores["variant"].isin(ROUTED)].sort_values(["backbone", "dataset", "variant", "block_size"])
    quantities = {
        "Raw ECE": (REFERENCE, "ece"),
        "Raw worst-tertile ECE": (REFERENCE, "worst_tertile_ece"),
        "AR-CondCal worst-tertile ECE": (ROUTING, "worst_tertile_ece"),
    }
    for name, runs in scores.groupby("cell", sort=False):
        for column, (method, metric) in quantities.items():
            kept = runs[(runs["method"] == method) & (runs["metric"] == metric)]
            yield str(name), column, *means(kept["value"])


@table_of(NO_LOGITS)
def intervals(evidence: Evidence) -> Cells:
    """Each run by itself, with the 95 % intervals of those headline metrics that have one."""
    rows = with_cells(evidence["intervals"], evidence)
    names = {metric: column for column, metric in HEADLINE.items()}
    for row in rows[rows["metric"].isin(names)].to_dict("records"):
        name = f"{row['run']}: {_method(row['method'])}"
        column = names[row["metric"]]
        for end, field in (("", "value"), (" CI low", "ci_low"), (" CI high", "ci_high")):
            if not pd.isna(row[field]):
                yield name, f"{column}{end}", row[field], None, 1


@table_of("this cache holds no runs")
def accuracy(evidence: Evidence) -> Cells:
    """Accuracy on all samples of each run, by cell; the other tables have that of the evaluated half."""
    for name, values in evidence.runs.groupby("cell", sort=False)["accuracy"]:
        yield str(name), "Acc@1", *means(values)


@table_of(NO_VIT)
def vit_headline(evidence: Evidence) -> Cells:
    scores = vit(with_cells(evidence["scores"], evidence))
    for method, row in VIT_ROWS.items():
        for name, runs in scores[scores["method"] == method].groupby("cell", sort=False):
            for column in ("ECE", "AdaECE", "Worst-tertile ECE"):
                values = runs.loc[runs["metric"] == HEADLINE[column], "value"]
                yield row, f"{name} {column}", *means(values)


@table_of(NO_LOGITS)
def ranking(evidence: Evidence) -> Cells:
    scores, row = evidence["scores"], "Cross-cell ranking"
    if scores.empty:
        return
    yield row, "Cells", scores["run_id"].nunique(), None, None
    shares = rank_one_counts(scores, "run_id").set_index("method")["share"]
    for key, name in {"bbq": "BBQ", "nw_conf_routing": "AR-CondCal", "hb": "HB", "nw_conf": "Conf-only"}.items():
        if key in shares:
            yield row, f"{name} rank-1 (%)", 100 * shares[key], None, None


MODES = {"0.5x": "0.5× Scott", "1x": "1× Scott", "2x": "2× Scott", "cv_nll": "CV-NLL", "oracle_ece": "Oracle-ECE"}
FEATURE_ROWS = {
    "confidence": "Confidence only", "pred_entropy": "Predictive entropy", "r_agg": "Aggregate routing entropy r_agg",
    "last": "Last-layer routing entropy H_L", "concentration": "Routing concentration 1-r_agg",
    "r_agg_x_conf": "Routing entropy × confidence", "r_std": "Depth-variance r_std",
}  # fmt: skip
_NO_PROFILE = "no run of this cache has both logits and a routing profile"


@table_of(_NO_PROFILE)
def bandwidths(evidence: Evidence) -> Cells:
    frame = evidence["bandwidth"]
    frame = frame[frame["feature"] == TERTILE_FEATURE]
    metrics = {"Global ECE": "ece", "Worst-tertile ECE": "worst_tertile_ece", "NLL": "nll"}
    for mode, row in MODES.items():
        kept = frame[frame["mode"] == mode]
        if kept.empty:
            continue
        multiples = ", ".join(f"{value:g}" for value in sorted(kept["multiplier"].unique()))
        yield row, "Selection", f"multiples {multiples}", None, kept["run_id"].nunique()
        for column, metric in metrics.items():
            yield row, column, *means(kept.loc[kept["metric"] == metric, "value"])


@table_of(_NO_PROFILE)
def features(evidence: Evidence) -> Cells:
    rows = with_cells(evidence["ablation"], evidence)
    rows = rows[rows["metric"] == "ece"]
    for dataset, runs in rows.groupby("dataset", sort=True):
        for feature, label in FEATURE_ROWS.items():
            kept = runs[runs["feature"] == feature]
            block, full = (kept[kept["variant"] == variant] for variant in ROUTED)
            row = f"{DATASETS.get(str(dataset), str(dataset))} / {label}"
            for column, part, field in (
                ("Block-AR ECE", block, "value"), ("Full-AR ECE", full, "value"),
                ("Δ vs Conf-only", block, "delta_vs_confidence"), ("Δ vs Conf+PE", block, "delta_vs_pred_entropy"),
            ):  # fmt: skip
                if not part.empty:
                    yield row, column, *means(part[field])


@table_of(_NO_PROFILE)
def features_of_cell(evidence: Evidence, cell: str) -> Cells:
    """The kernel on confidence and each candidate: ECE and its gain over the two controls (positive: lower ECE)."""
    rows = with_cells(evidence["ablation"], evidence)
    rows = rows[(rows["metric"] == "ece") & (rows["cell"] == cell)]
    columns = {
        "ECE": "value",
        "Gain over confidence": "delta_vs_confidence",
        "Gain over confidence + entropy": "delta_vs_pred_entropy",
    }
    for feature, runs in rows.groupby("feature", sort=False):
        for column, field in columns.items():
            yield FEATURE_ROWS.get(str(feature), str(feature)), column, *means(runs[field])


@table_of(NO_LOGITS)
def sizes(evidence: Evidence) -> Cells:
    """ECE by the number of calibration samples, over random subsets and runs."""
    for row in size_curves(evidence["sizes"], "ece").to_dict("records"):
        yield _method(row["method"]), f"{row['size']:,}", row["mean"], row["std"], row["n"]


@table_of(NO_LOGITS)
def splits(evidence: Evidence) -> Cells:
    """Who has the least ECE on how many random splits."""
    counts = rank_one_counts(split_trials(evidence["splits"]), "trial")
    for row in counts.to_dict("records"):
        name, n = _method(row["method"]), row["n_trials"]
        yield name, "First", f"{row['n_first']}/{n}", None, n
        yield name, "Mean rank", row["mean_rank"], None, n
        yield name, "ECE", row["mean"], row["std"], n


@table_of(NO_VIT)
def features_vit(evidence: Evidence) -> Cells:
    rows = vit(with_cells(evidence["ablation"], evidence))
    rows = rows[rows["metric"] == "ece"]
    for feature, label in FEATURE_ROWS.items():
        for name, runs in rows[rows["feature"] == feature].groupby("cell", sort=False):
            yield label, str(name), *means(runs["value"])


_NO_PROBE = "no run of this cache has a routing profile to probe"


@table_of(_NO_PROBE)
def probe_sanity(evidence: Evidence) -> Cells:
    sweep: ProbeSweep = evidence["probes"]
    pooled = sweep.pooled.set_index("probe").to_dict("index")
    for probe, given in INPUTS.items():
        if probe in pooled:
            found = pooled[probe]
            yield probe.replace("_", "-"), "Input", given, None, found["n_runs"]
            yield probe.replace("_", "-"), "R²", found["mean"], found["std"], found["n_runs"]


def naive_probe(evidence: Evidence) -> pd.DataFrame:
    sweep: ProbeSweep = evidence["probes"]
    wide = sweep.probes[sweep.probes["n_layers"] > 0].pivot_table(index="run_id", columns="probe", values="r2_mean")
    columns = {"Conf-only (linear) R²": "conf_lin", "Full (linear) R²": "full_lin", "Full (MLP) R²": "full_mlp"}
    rows = with_cells(wide.reset_index(), evidence) if len(wide) else pd.DataFrame()
    return by_run(rows, "run", columns, _NO_PROBE)


def vanilla(evidence: Evidence) -> pd.DataFrame:
    rows = with_cells(evidence["hidden_states"], evidence).merge(
        evidence["gaps"][["run_id", "accuracy", "raw_ece"]], on="run_id"
    )
    rows = rows.assign(uplift=rows["full_mlp"] - rows["conf_lin"])
    columns = {"Acc@1": "accuracy", "ECE": "raw_ece", "Conf-only R²": "conf_lin", "MLP R²": "full_mlp"}
    reason = "no run of this cache is a plain backbone with the norms of its blocks as extra columns"
    return by_run(rows, "run", columns | {"Uplift": "uplift"}, reason)


@table_of(_NO_PROBE)
def contrasts(name: str, evidence: Evidence) -> Cells:
    """What the full-profile network gains over each control, by `cell` or by `run`: mean and std over its runs."""
    sweep: ProbeSweep = evidence["probes"]
    rows = with_cells(sweep.contrasts, evidence).dropna(subset=["estimate"])
    for (row, contrast), runs in rows.groupby([name, "contrast"], sort=False):
        yield str(row), str(contrast).replace("_", " "), *means(runs["estimate"])
