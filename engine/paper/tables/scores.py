"""Tables of calibrators and of uncalibrated metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from engine.benchmark import rank_one_counts
from engine.benchmark.setup import REFERENCE, ROUTING
from engine.calibrators import CALIBRATORS
from engine.paper.sources import Evidence, with_cells
from engine.paper.tables.frames import NO_VIT, ROUTED, Cells, NoCounterpart, means, tidy, vit

METHOD_ROWS = {
    "none": "No calibration", "ts": "Temp. Scaling (TS)", "ets": "Ensemble TS", "vs": "Vector Scaling",
    "cts": "Classwise TS", "pts": "Parametric TS", "hb": "Histogram Binning", "bbq": "BBQ",
    "isotonic": "Isotonic Regression", "sbece": "SB-ECE TS", "rcmmc": "RCMMC", "nw_conf": "Conf-only",
    "nw_conf_entropy": "Conf + PredEntropy", "nw_conf_routing": "AR-CondCal",
}  # fmt: skip
SUPPLEMENT_ROWS = METHOD_ROWS | {
    "nw_conf": "NW (Conf only)",
    "nw_conf_entropy": "NW (Conf + Pred. Ent.)",
    "nw_conf_routing": "NW (Conf + Routing): AR-CondCal",
}
VIT_ROWS = {"ts": "TS", "bbq": "BBQ", "rcmmc": "RCMMC", "nw_conf_routing": "AR-CondCal"}
HEADLINE = {
    "ECE": "ece",
    "AdaECE": "adaptive_ece",
    "NLL": "nll",
    "Brier": "brier",
    "Worst-tertile ECE": "worst_tertile_ece",
}
_NO_LOGITS = "no run of this cache has logits and labels, so no calibrator can be fitted"


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

    return tidy(cells(), _NO_LOGITS if evidence["scores"].empty else f"{cell} has no run with logits")


def _by_cell_metrics(evidence: Evidence, keep: Callable[[pd.DataFrame], pd.Series[Any]], reason: str) -> pd.DataFrame:
    """Uncalibrated metrics by cell."""
    scores = with_cells(evidence["scores"], evidence)
    raw = scores[(scores["method"] == REFERENCE) & keep(scores)]

    def cells() -> Cells:
        for name, runs in raw.groupby("cell", sort=False):
            for column, metric in {"Acc@1": "accuracy", "ECE": "ece", "NLL": "nll", "Brier": "brier"}.items():
                yield str(name), column, *means(runs.loc[runs["metric"] == metric, "value"])

    return tidy(cells(), reason)


def _everything(rows: pd.DataFrame) -> pd.Series[Any]:
    return rows["cell"].notna()


def _swin_cifar10(rows: pd.DataFrame) -> pd.Series[Any]:
    return rows["backbone"].str.contains("swin", regex=False) & (rows["dataset"] == "cifar10")


def raw_summary(evidence: Evidence) -> pd.DataFrame:
    reason = "no Swin run on CIFAR-10 with logits; the table of all completed cells shows what there is"
    return _by_cell_metrics(evidence, _swin_cifar10, reason)


def replication(evidence: Evidence) -> pd.DataFrame:
    return _by_cell_metrics(evidence, _everything, _NO_LOGITS)


def imported(evidence: Evidence) -> pd.DataFrame:
    sources = [str(json.loads(text or "{}").get("source", "")) for text in evidence.runs["provenance"]]
    trained_here = evidence.runs.loc[[source == "cache_builder train" for source in sources], "run_id"]
    reason = "the paper shows runs of another pipeline here, and this cache has no imported run with logits"
    return _by_cell_metrics(evidence, lambda rows: ~rows["run_id"].isin(trained_here), reason)


def block_sizes(evidence: Evidence) -> pd.DataFrame:
    scores = with_cells(evidence["scores"], evidence)
    scores = scores[scores["variant"].isin(ROUTED)].sort_values(["backbone", "dataset", "variant", "block_size"])
    quantities = {
        "Raw ECE": (REFERENCE, "ece"),
        "Raw worst-tertile ECE": (REFERENCE, "worst_tertile_ece"),
        "AR-CondCal worst-tertile ECE": (ROUTING, "worst_tertile_ece"),
    }

    def cells() -> Cells:
        for name, runs in scores.groupby("cell", sort=False):
            for column, (method, metric) in quantities.items():
                kept = runs[(runs["method"] == method) & (runs["metric"] == metric)]
                yield str(name), column, *means(kept["value"])

    return tidy(cells(), "no Block-AR or Full-AR run of this cache has logits")


def vit_headline(evidence: Evidence) -> pd.DataFrame:
    scores = vit(with_cells(evidence["scores"], evidence))

    def cells() -> Cells:
        for method, row in VIT_ROWS.items():
            for name, runs in scores[scores["method"] == method].groupby("cell", sort=False):
                for column in ("ECE", "AdaECE", "Worst-tertile ECE"):
                    values = runs.loc[runs["metric"] == HEADLINE[column], "value"]
                    yield row, f"{name} {column}", *means(values)

    return tidy(cells(), NO_VIT)


def ranking(evidence: Evidence) -> pd.DataFrame:
    scores = evidence["scores"]
    if scores.empty:
        raise NoCounterpart(_NO_LOGITS)
    ranks = rank_one_counts(scores, "run_id").set_index("method")["share"]
    row = "Cross-cell ranking"
    names = {"bbq": "BBQ", "nw_conf_routing": "AR-CondCal", "hb": "HB", "nw_conf": "Conf-only"}
    shares = [(row, f"{name} rank-1 (%)", 100 * ranks[key], None, None) for key, name in names.items() if key in ranks]
    return tidy([(row, "Cells", scores["run_id"].nunique(), None, None), *shares], _NO_LOGITS)
