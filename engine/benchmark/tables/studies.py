"""Tables of the studies around the benchmark: bandwidth, feature, set size, split."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.benchmark.rankings import rank_one_counts, split_trials
from engine.benchmark.scores import METRICS
from engine.benchmark.sensitivity import size_curves
from engine.benchmark.setup import REFERENCE
from engine.benchmark.tables.parts import Material, Table, cells_of, is_vit, split_cells
from engine.calibrators import CALIBRATORS
from engine.core import latex
from engine.core.types import CELL
from engine.features import FEATURES

MODE_LABELS = {"cv_nll": "CV-NLL", "oracle_ece": "Oracle ECE (a ceiling)"}


def bandwidth_table(material: Material) -> Table:
    """tab:bw-sensitivity: the five bandwidth modes, pooled over runs."""
    metrics = ("ece", "worst_tertile_ece", "nll")
    kept = material.bandwidth[material.bandwidth["metric"].isin(metrics)]
    pooled = kept.groupby(["mode", "metric"], sort=False)["value"].agg(
        mean="mean", std=lambda values: values.std(ddof=0), n="count"
    )
    caption = "Bandwidth of AR-CondCal, mean ± std over the runs of the cache. The oracle sees the evaluated half."
    modes = list(dict.fromkeys(kept["mode"]))
    rows = []
    for mode in modes:
        values = [pooled.loc[(mode, metric)] for metric in metrics]
        multipliers = sorted(kept[kept["mode"] == mode]["multiplier"].unique())
        selection = ", ".join(f"{multiplier:g}" for multiplier in multipliers)
        cells = [latex.plus_minus(float(v["mean"]), float(v["std"]), 4) for v in values]
        label = MODE_LABELS.get(mode, f"{mode} Scott".replace("x", "×"))
        rows.append((latex.escape(label), f"${selection}$", *cells))
    header = ["Mode", "Multiples", *(latex.escape(METRICS[metric].label) for metric in metrics)]
    text = latex.render(header, [latex.Block("", tuple(rows))], caption=caption, label="tab:bw-sensitivity")
    return Table("bw-sensitivity", caption, pooled.reset_index(), text)


def _ablation_cells(material: Material) -> pd.DataFrame:
    """Mean ECE and mean gains of each feature in each cell."""
    ece = material.ablation[material.ablation["metric"] == "ece"]
    joined = ece.merge(material.runs[["run_id", *CELL]], on="run_id")
    columns = {
        "value": "ece",
        "delta_vs_confidence": "delta_vs_confidence",
        "delta_vs_pred_entropy": "delta_vs_pred_entropy",
    }
    grouped = joined.groupby([*CELL, "feature"], sort=False, dropna=False)
    means = grouped[list(columns)].mean().rename(columns=columns)
    return means.assign(n=grouped.size()).reset_index()


def _feature_label(name: str) -> str:
    return latex.escape(FEATURES[name].label if name in FEATURES else name)


def ablation_table(material: Material) -> Table:
    """tab:feature_ablation: the kernel on (c, rho) for every candidate rho, cell by cell."""
    cells = _ablation_cells(material)
    caption = (
        "Kernel on confidence and one more feature: ECE and its gain over the two controls (positive: lower ECE than "
        "the control), mean over seeds. Confidence itself is the kernel on confidence alone."
    )
    blocks = []
    for title, rows in split_cells(cells):
        printed = latex.mark_best([latex.number(value, 4) for value in rows["ece"]], rows["ece"].tolist(), 4)
        gains = [
            [latex.number(value, 4, signed=True) for value in rows[column]]
            for column in ("delta_vs_confidence", "delta_vs_pred_entropy")
        ]
        labels = [_feature_label(name) for name in rows["feature"]]
        blocks.append(latex.Block(title, tuple(zip(labels, printed, *gains, strict=True))))
    header = ["Feature", r"ECE $\downarrow$", "Gain over confidence", "Gain over confidence + entropy"]
    text = latex.render(header, blocks, caption=caption, label="tab:feature_ablation")
    return Table("feature_ablation", caption, cells, text)


def vit_ablation_table(material: Material) -> Table:
    """tab:feature-ablation-vit: the ECE of each feature, one column per ViT cell."""
    ablation = _ablation_cells(material)
    cells = ablation[is_vit(ablation)]
    caption = "Feature ablation on the ViT cells: ECE, the uncalibrated model first."
    raw = cells_of(material, is_vit)
    raw = raw[(raw["method"] == REFERENCE) & (raw["metric"] == "ece")]
    columns, titles = [], []
    features = list(dict.fromkeys(cells["feature"]))
    raw_means = {title: float(rows["mean"].iloc[0]) for title, rows in split_cells(raw)}
    for title, rows in split_cells(cells):
        by_feature = rows.set_index("feature")["ece"]
        values = [float(by_feature.get(name, np.nan)) for name in features]
        printed = latex.mark_best([latex.number(value, 4) for value in values], values, 4)
        columns.append([latex.number(raw_means[title], 4), *printed])
        titles.append(latex.escape(title))
    labels = [latex.escape(CALIBRATORS[REFERENCE].label), *(_feature_label(name) for name in features)]
    block = latex.Block("", tuple(zip(labels, *columns, strict=True)))
    text = latex.render(["Feature", *titles], [block], caption=caption, label="tab:feature-ablation-vit")
    return Table("feature-ablation-vit", caption, cells, text)


def size_table(material: Material) -> Table:
    """fig:calsize: ECE by the number of calibration samples, mean ± std over draws and runs."""
    curves = size_curves(material.sizes, "ece")
    pooled = curves.set_index(["method", "size"])
    sizes = sorted(curves["size"].unique())
    caption = "ECE by the number of calibration samples: mean ± std over random subsets and runs."
    rows = []
    for method in dict.fromkeys(curves["method"]):
        found = [pooled.loc[(method, size)] if (method, size) in pooled.index else None for size in sizes]
        cells = [latex.MISSING if f is None else latex.plus_minus(float(f["mean"]), float(f["std"]), 4) for f in found]
        rows.append((latex.escape(CALIBRATORS[str(method)].label), *cells))
    header = ["Method", *(f"${size}$" for size in sizes)]
    text = latex.render(header, [latex.Block("", tuple(rows))], caption=caption, label="tab:calsize")
    return Table("calsize", caption, curves, text)


def split_table(material: Material) -> Table:
    """tab:ext-robustness-compressed, its row on split variance: who has the least ECE on how many random splits."""
    counts = rank_one_counts(split_trials(material.splits), "trial")
    caption = "Random calibration splits: how often each method has the least ECE, its mean rank and its ECE."
    rows = tuple(
        (
            latex.escape(CALIBRATORS[row["method"]].label),
            f"${row['n_first']}/{row['n_trials']}$",
            latex.number(row["mean_rank"], 1),
            latex.plus_minus(row["mean"], row["std"], 4),
        )
        for row in counts.to_dict("records")
    )
    header = ["Method", "First", "Mean rank", r"ECE $\downarrow$"]
    text = latex.render(header, [latex.Block("", rows)], caption=caption, label="tab:ext-robustness-compressed")
    return Table("ext-robustness-compressed", caption, counts, text)
