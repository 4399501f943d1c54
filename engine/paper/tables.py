"""Every table as a tidy frame of what a cache has: tables of gaps, calibrators, studies and probes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from engine.benchmark.bandwidth import FAMILY
from engine.benchmark.comparisons import rank_one_counts, split_trials
from engine.benchmark.scores import METRICS
from engine.benchmark.sensitivity import GAINS_OVER, size_curves
from engine.benchmark.setup import CONTROLS, REFERENCE, ROUTING, TERTILE_FEATURE
from engine.calibrators import CALIBRATORS
from engine.core.errors import RouteCalError
from engine.core.labels import DATASETS, MISSING
from engine.core.types import CELL
from engine.paper import published
from engine.paper.sources import Evidence, with_cells
from engine.probes import ProbeSweep
from engine.probes.sweep import INPUTS

ROUTED = ("block_ar", "full_ar")
Cells = Iterable[tuple[str, str, Any, Any, Any]]
"""(row, column, value or word, std, n)"""


class NoCounterpart(RouteCalError):
    """The cache lacks what a published table shows; the message says what."""


def means(values: pd.Series[Any]) -> tuple[float, float, int]:
    """Mean, std (ddof 0; missing for a single run) and number."""
    known = values.astype(float).dropna()
    n = len(known)
    return (float(known.mean()) if n else np.nan), (float(known.std(ddof=0)) if n > 1 else np.nan), n


def averaged(
    frame: pd.DataFrame, row: str, columns: Mapping[str, str], by: str = "metric", value: str = "value"
) -> Cells:
    """Means over runs: a row for each value of `row`, and a column, by its name, for each value of `by` that it has."""
    for name, runs in frame.groupby(row, sort=False):
        for column, wanted in columns.items():
            kept = runs.loc[runs[by] == wanted, value]
            if len(kept):
                yield str(name), column, *means(kept)


def by_run(rows: pd.DataFrame, name: str, columns: Mapping[str, str]) -> Cells:
    """One row of a frame, a run, is one row of the table."""
    for row in rows.to_dict("records"):
        for column, field in columns.items():
            yield str(row[name]), column, row[field], None, 1


def in_order(rows: pd.DataFrame, name: str, values: Iterable[str]) -> pd.DataFrame:
    """The rows that have one of these values, in their order."""
    place = {value: position for position, value in enumerate(values)}
    return rows[rows[name].isin(place)].sort_values(name, key=lambda column: column.map(place), kind="stable")


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


def _tested(evidence: Evidence) -> pd.DataFrame:
    rows = with_cells(evidence["gaps"].dropna(subset=["max_gap"]), evidence)
    return rows.assign(rejects=["yes" if rejects else "no" for rejects in rows["paper_rejects"]])


def gap_table(table: str, evidence: Evidence) -> Cells:
    """Rows of runs: all of them, or the first seed of each cell where the paper shows seed 0."""
    rows = _tested(evidence)
    name = "run"
    if table != "per_seed_diagnostics":
        rows, name = rows.sort_values("seed", kind="stable").drop_duplicates("cell").sort_values("cell"), "cell"
    columns = dict.fromkeys(published.load(table)["column"])
    return by_run(rows, name, {column: _GAP[column] for column in columns})


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


def _method(name: str) -> str:
    """The paper's name of a method, or ours where it has none."""
    return METHOD_ROWS.get(name, CALIBRATORS[name].label)


def of_cell(
    rows: Mapping[str, str], columns: Mapping[str, str], skip: tuple[str, ...], evidence: Evidence, cell: str
) -> Cells:
    """Methods by metrics of one cell, mean and std over its seeds; methods that the paper lacks come last."""
    scores = with_cells(evidence["scores"], evidence)
    kept = scores[(scores["cell"] == cell) & ~scores["method"].isin(skip)]
    if kept.empty and len(scores):
        raise NoCounterpart(f"{cell} has no run with logits")
    ordered = in_order(kept, "method", dict.fromkeys([*rows, *CALIBRATORS]))
    label = [rows.get(name, CALIBRATORS[name].label) for name in ordered["method"]]
    for row, column, mean, std, n in averaged(ordered.assign(label=label), "label", columns):
        scale = 100 if column.endswith("(%)") else 1
        yield row, column, scale * mean, scale * std, n


def _raw_by_cell(evidence: Evidence, kept: Callable[[pd.DataFrame], pd.Series[bool]]) -> Cells:
    """Uncalibrated metrics of some runs by cell."""
    runs = evidence.runs.loc[kept(evidence.runs), "run_id"]
    scores = with_cells(evidence["scores"], evidence)
    raw = scores[(scores["method"] == REFERENCE) & scores["run_id"].isin(runs)]
    return averaged(raw, "cell", {"Acc@1": "accuracy", "ECE": "ece", "NLL": "nll", "Brier": "brier"})


def _swin_on_cifar10(runs: pd.DataFrame) -> pd.Series[bool]:
    return runs["backbone"].str.contains("swin", regex=False) & (runs["dataset"] == "cifar10")


def _imported(runs: pd.DataFrame) -> pd.Series[bool]:
    return runs["provenance"].map(lambda text: json.loads(text or "{}").get("source", "") != "cache_builder train")


def block_sizes(evidence: Evidence) -> Cells:
    scores = with_cells(evidence["scores"], evidence)
    scores = scores[scores["variant"].isin(ROUTED)].sort_values(["backbone", "dataset", "variant", "block_size"])
    quantities = {
        "Raw ECE": f"{REFERENCE} ece",
        "Raw worst-tertile ECE": f"{REFERENCE} worst_tertile_ece",
        "AR-CondCal worst-tertile ECE": f"{ROUTING} worst_tertile_ece",
    }
    return averaged(scores.assign(key=scores["method"] + " " + scores["metric"]), "cell", quantities, "key")


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


def accuracy(evidence: Evidence) -> Cells:
    """Accuracy on all samples of each run, by cell; the other tables have that of the evaluated half."""
    return averaged(evidence.runs.assign(metric="accuracy"), "cell", {"Acc@1": "accuracy"}, value="accuracy")


def vit_headline(evidence: Evidence) -> Cells:
    scores = vit(with_cells(evidence["scores"], evidence))
    scores = scores.assign(key=scores["cell"] + " " + scores["metric"], label=scores["method"].map(VIT_ROWS))
    columns = {
        f"{cell} {column}": f"{cell} {HEADLINE[column]}"
        for cell in dict.fromkeys(scores["cell"])
        for column in ("ECE", "AdaECE", "Worst-tertile ECE")
    }
    kept = scores.dropna(subset=["label"])
    return averaged(in_order(kept, "label", VIT_ROWS.values()), "label", columns, "key")


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


def _ece_by_feature(evidence: Evidence) -> pd.DataFrame:
    """The ECE with each second feature and what it gains on the controls, one below the other; features labelled."""
    rows = with_cells(evidence["ablation"], evidence)
    rows = rows[rows["metric"] == "ece"].drop(columns="metric")
    labels = rows["feature"].map(FEATURE_ROWS).fillna(rows["feature"])
    names = [*CELL, "cell", "label"]
    return rows.assign(label=labels).melt(names, ["value", *GAINS_OVER], "metric", "number")


def features(evidence: Evidence) -> Cells:
    rows = _ece_by_feature(evidence)
    data = rows["dataset"].map(DATASETS).fillna(rows["dataset"])
    rows = rows.assign(row=data + " / " + rows["label"], key=rows["variant"] + " " + rows["metric"])
    columns = {"Block-AR ECE": "block_ar value", "Full-AR ECE": "full_ar value"} | {
        f"Δ vs {control}": f"block_ar {gain}"
        for control, gain in zip(("Conf-only", "Conf+PE"), GAINS_OVER, strict=True)
    }
    known = in_order(rows, "label", FEATURE_ROWS.values()).sort_values("dataset", kind="stable")
    return averaged(known, "row", columns, "key", "number")


def features_of_cell(evidence: Evidence, cell: str) -> Cells:
    """The kernel on confidence and each candidate: ECE and its gain over the two controls (positive: lower ECE)."""
    rows = _ece_by_feature(evidence)
    names = ("ECE", "Gain over confidence", "Gain over confidence + entropy")
    columns = dict(zip(names, ("value", *GAINS_OVER), strict=True))
    return averaged(rows[rows["cell"] == cell], "label", columns, value="number")


def sizes(evidence: Evidence) -> Cells:
    """ECE by the number of calibration samples, over random subsets and runs."""
    for row in size_curves(evidence["sizes"], "ece").to_dict("records"):
        yield _method(row["method"]), f"{row['size']:,}", row["mean"], row["std"], row["n"]


def splits(evidence: Evidence) -> Cells:
    """Who has the least ECE on how many random splits."""
    counts = rank_one_counts(split_trials(evidence["splits"]), "trial")
    for row in counts.to_dict("records"):
        name, n = _method(row["method"]), row["n_trials"]
        yield name, "First", f"{row['n_first']}/{n}", None, n
        yield name, "Mean rank", row["mean_rank"], None, n
        yield name, "ECE", row["mean"], row["std"], n


def features_vit(evidence: Evidence) -> Cells:
    rows = vit(_ece_by_feature(evidence).query("metric == 'value'"))
    cells = {cell: cell for cell in dict.fromkeys(rows["cell"])}
    return averaged(in_order(rows, "label", FEATURE_ROWS.values()), "label", cells, "cell", "number")


def probe_sanity(evidence: Evidence) -> Cells:
    sweep: ProbeSweep = evidence["probes"]
    pooled = sweep.pooled.set_index("probe").to_dict("index")
    for probe, given in INPUTS.items():
        if probe in pooled:
            found = pooled[probe]
            yield probe.replace("_", "-"), "Input", given, None, found["n_runs"]
            yield probe.replace("_", "-"), "R²", found["mean"], found["std"], found["n_runs"]


def naive_probe(evidence: Evidence) -> Cells:
    sweep: ProbeSweep = evidence["probes"]
    wide = sweep.probes[sweep.probes["n_layers"] > 0].pivot_table(index="run_id", columns="probe", values="r2_mean")
    columns = {"Conf-only (linear) R²": "conf_lin", "Full (linear) R²": "full_lin", "Full (MLP) R²": "full_mlp"}
    return by_run(with_cells(wide.reset_index(), evidence), "run", columns) if len(wide) else ()


def vanilla(evidence: Evidence) -> Cells:
    rows = with_cells(evidence["hidden_states"], evidence).merge(
        evidence["gaps"][["run_id", "accuracy", "raw_ece"]], on="run_id"
    )
    rows = rows.assign(uplift=rows["full_mlp"] - rows["conf_lin"])
    columns = {"Acc@1": "accuracy", "ECE": "raw_ece", "Conf-only R²": "conf_lin", "MLP R²": "full_mlp"}
    return by_run(rows, "run", columns | {"Uplift": "uplift"})


def contrasts(name: str, evidence: Evidence) -> Cells:
    """What the full-profile network gains over each control, by `cell` or by `run`: mean and std over its runs."""
    sweep: ProbeSweep = evidence["probes"]
    rows = with_cells(sweep.contrasts, evidence).dropna(subset=["estimate"])
    columns = {contrast.replace("_", " "): contrast for contrast in dict.fromkeys(rows["contrast"])}
    return averaged(rows, name, columns, "contrast", "estimate")


_SUPPLEMENT = {METRICS[name].label: name for name in ("mce", "classwise_ece", "smooth_ece")}
MAKERS: Mapping[str, Callable[..., Cells]] = {
    **{name: partial(gap_table, name) for name in ("matched_gap", "gap_robustness", "per_seed_diagnostics")},
    **{name: partial(of_cell, METHOD_ROWS, HEADLINE, ()) for name in published.CELLS},
    "calibration": partial(of_cell, METHOD_ROWS, HEADLINE | {"ΔAcc@1 (%)": "delta_accuracy"}, ()),
    "supplementary_metrics": partial(of_cell, SUPPLEMENT_ROWS, _SUPPLEMENT, ()),
    "paired_deltas": partial(of_cell, METHOD_ROWS, {"ΔNLL": "delta_nll", "ΔBrier": "delta_brier"}, (REFERENCE,)),
    "bandwidth": bandwidths,
    "probe_sanity": probe_sanity,
    "feature_ablation_vit": features_vit,
    "vit_headline": vit_headline,
    "raw_summary": partial(_raw_by_cell, kept=_swin_on_cifar10),
    "replication_summary": partial(_raw_by_cell, kept=lambda runs: runs["cell"].notna()),
    "ar_sweep": sweep_table,
    "block_sizes": block_sizes,
    "naive_probe": naive_probe,
    "feature_ablation": features,
    "external_finetune": partial(_raw_by_cell, kept=_imported),
    "external_scratch": partial(_raw_by_cell, kept=_imported),
    "external_audit": ranking,
    "vanilla_backbones": vanilla,
    "by_cell": by_cell,
    "accuracy": accuracy,
    "feature_gains": features_of_cell,
    "calibration_sizes": sizes,
    "split_ranks": splits,
    "intervals": intervals,
    "probe_contrasts": partial(contrasts, "cell"),
    "probe_contrasts_by_run": partial(contrasts, "run"),
}
"""What makes each table, with the cell where it is made by cell; the rest stands in `words/counterparts.csv`."""
