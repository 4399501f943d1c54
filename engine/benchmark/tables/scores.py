"""Tables of the benchmark itself: methods by metrics, cell by cell."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.benchmark.rankings import aggregate_seeds
from engine.benchmark.scores import HEADLINE, METRICS
from engine.benchmark.setup import REFERENCE
from engine.benchmark.tables.parts import (
    Column,
    Material,
    Table,
    cells_of,
    is_block_ar,
    is_vit,
    method_table,
    split_cells,
    wide,
)
from engine.calibrators import CALIBRATORS
from engine.core import latex

VIT_METHODS = ("ts", "bbq", "rcmmc", "nw_conf_routing")
VIT_METRICS = ("ece", "adaptive_ece", "worst_tertile_ece")


def main_table(material: Material) -> Table:
    """tab:calibration_block_ar: post-hoc calibration of the Block-AR cells."""
    columns = [
        Column("ece"),
        Column("adaptive_ece"),
        Column("nll", spread=False),
        Column("brier", spread=False),
        Column("worst_tertile_ece"),
        Column("delta_accuracy", scale=100, digits=2),
    ]
    caption = (
        "Post-hoc calibration on Block-AR, evaluated half of a seed-42 split: mean ± std over training seeds. Bold is "
        "the best mean, underlined the second (uncalibrated row left out). The change of accuracy is against no "
        "calibration."
    )
    return method_table("calibration_block_ar", caption, cells_of(material, is_block_ar), columns)


def supplement_table(material: Material) -> Table:
    """tab:cwece-supp: MCE, classwise ECE, SmoothECE of the Block-AR cells."""
    columns = [Column("mce"), Column("classwise_ece"), Column("smooth_ece")]
    caption = "MCE (bins with fewer than 5 samples ignored), classwise ECE and SmoothECE on Block-AR."
    return method_table("cwece-supp", caption, cells_of(material, is_block_ar), columns)


def paired_table(material: Material) -> Table:
    """tab:paired-delta: paired changes of NLL and Brier of the Block-AR cells."""
    caption = "Change of NLL and Brier against the uncalibrated model, paired within each seed: mean ± std over seeds."
    methods = tuple(method for method in CALIBRATORS if method != REFERENCE)
    columns = [Column("delta_nll"), Column("delta_brier")]
    return method_table("paired-delta", caption, cells_of(material, is_block_ar), columns, methods)


def per_cell_table(material: Material) -> Table:
    """tab:cal-per-cell-combined: the headline metrics of every cell."""
    columns = [Column(metric, spread=metric not in ("nll", "brier")) for metric in HEADLINE]
    caption = "Every method on every cell of the cache: mean ± std over training seeds."
    return method_table("cal-per-cell-combined", caption, cells_of(material), columns)


def raw_table(material: Material) -> Table:
    """tab:seed-variance-raw: uncalibrated metrics by cell; accuracy on all samples, the rest on the evaluated half."""
    raw = material.scores[
        (material.scores["method"] == REFERENCE) & material.scores["metric"].isin(["ece", "nll", "brier"])
    ]
    whole = material.runs[material.runs["run_id"].isin(raw["run_id"])]
    accuracy = pd.DataFrame(
        {"run_id": whole["run_id"], "method": REFERENCE, "metric": "accuracy", "value": whole["accuracy"]}
    )
    cells = aggregate_seeds(pd.concat([accuracy, raw]), material.runs)
    caption = "Metrics without calibration: mean ± std over training seeds."
    columns = [Column("accuracy", digits=3), Column("ece"), Column("nll"), Column("brier")]
    rows = []
    for title, values in split_cells(cells):
        means = dict(zip(values["metric"], values["mean"], strict=True))
        stds = dict(zip(values["metric"], values["std"], strict=True))
        n_seeds = int(values["n"].max())
        printed = [column.cell(means[column.metric], stds[column.metric], n_seeds) for column in columns]
        rows.append((latex.escape(title), f"${n_seeds}$", *printed))
    header = ["Cell", "Seeds", *(column.header for column in columns)]
    text = latex.render(header, [latex.Block("", tuple(rows))], caption=caption, label="tab:seed-variance-raw")
    return Table("seed-variance-raw", caption, wide(cells, [c.metric for c in columns]).drop(columns="method"), text)


def vit_headline_table(material: Material) -> Table:
    """tab:vit-cross-arch-headline: four methods on the ViT cells."""
    caption = "TS, BBQ, RCMMC and AR-CondCal on the ViT cells."
    columns = [Column(metric) for metric in VIT_METRICS]
    return method_table("vit-cross-arch-headline", caption, cells_of(material, is_vit), columns, VIT_METHODS)


def interval_table(material: Material) -> Table:
    """Every run by itself, with 95 % bootstrap intervals of the headline metrics."""
    kept = material.scores[material.scores["metric"].isin(HEADLINE)]
    caption = "Each run by itself: value and 95 % interval over bootstrap resamples of the evaluated half."
    blocks = []
    for run_id, rows in kept.groupby("run_id", sort=False):
        table = rows.set_index(["method", "metric"])
        printed = []
        for method in dict.fromkeys(rows["method"]):
            cells = [_interval(table.loc[(method, metric)], METRICS[metric].digits) for metric in HEADLINE]
            printed.append((latex.escape(CALIBRATORS[str(method)].label), *cells))
        blocks.append(latex.Block(str(run_id), tuple(printed)))
    header = ["Method", *(Column(metric).header for metric in HEADLINE)]
    text = latex.render(header, blocks, caption=caption, label="tab:per-run-intervals")
    return Table("per-run-intervals", caption, material.scores, text)


def _interval(row: pd.Series, digits: int) -> str:
    value = latex.number(float(row["value"]), digits)
    if not np.isfinite(row["ci_low"]):
        return value
    return value[:-1] + rf"\,[{row['ci_low']:.{digits}f}, {row['ci_high']:.{digits}f}]$"
