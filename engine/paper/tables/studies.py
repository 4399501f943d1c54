"""Tables of bandwidths and of second features."""

from __future__ import annotations

import pandas as pd

from engine.benchmark.setup import TERTILE_FEATURE
from engine.core.labels import DATASETS
from engine.paper.sources import Evidence, with_cells
from engine.paper.tables.frames import NO_VIT, ROUTED, Cells, means, tidy, vit

MODES = {"0.5x": "0.5× Scott", "1x": "1× Scott", "2x": "2× Scott", "cv_nll": "CV-NLL", "oracle_ece": "Oracle-ECE"}
FEATURE_ROWS = {
    "confidence": "Confidence only", "pred_entropy": "Predictive entropy", "r_agg": "Aggregate routing entropy r_agg",
    "last": "Last-layer routing entropy H_L", "concentration": "Routing concentration 1-r_agg",
    "r_agg_x_conf": "Routing entropy × confidence", "r_std": "Depth-variance r_std",
}  # fmt: skip
_NO_PROFILE = "no run of this cache has both logits and a routing profile"


def bandwidths(evidence: Evidence) -> pd.DataFrame:
    frame = evidence["bandwidth"]
    frame = frame[frame["feature"] == TERTILE_FEATURE]
    metrics = {"Global ECE": "ece", "Worst-tertile ECE": "worst_tertile_ece", "NLL": "nll"}

    def cells() -> Cells:
        for mode, row in MODES.items():
            kept = frame[frame["mode"] == mode]
            if kept.empty:
                continue
            multiples = ", ".join(f"{value:g}" for value in sorted(kept["multiplier"].unique()))
            yield row, "Selection", f"multiples {multiples}", None, kept["run_id"].nunique()
            for column, metric in metrics.items():
                yield row, column, *means(kept.loc[kept["metric"] == metric, "value"])

    return tidy(cells(), _NO_PROFILE)


def features(evidence: Evidence) -> pd.DataFrame:
    rows = with_cells(evidence["ablation"], evidence)
    rows = rows[rows["metric"] == "ece"]

    def cells() -> Cells:
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

    return tidy(cells(), _NO_PROFILE)


def features_vit(evidence: Evidence) -> pd.DataFrame:
    rows = vit(with_cells(evidence["ablation"], evidence))
    rows = rows[rows["metric"] == "ece"]

    def cells() -> Cells:
        for feature, label in FEATURE_ROWS.items():
            for name, runs in rows[rows["feature"] == feature].groupby("cell", sort=False):
                yield label, str(name), *means(runs["value"])

    return tidy(cells(), NO_VIT)
