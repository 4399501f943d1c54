"""Every published table, and the same quantities of a cache in the same form, or the reason why a cache has none.

A counterpart is a tidy frame `row, column, value, std, n, printed` with the paper's column names. Where the paper's
rows are methods, probes, features or bandwidths they are the same here; where they are cells or runs, they are the
cache's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import pandas as pd

from engine.benchmark import METRICS
from engine.benchmark.setup import REFERENCE
from engine.core.errors import UnknownName
from engine.paper import published
from engine.paper.sources import Evidence
from engine.paper.tables import gaps, probes, scores, studies
from engine.paper.tables.frames import FRAME, ROUTED, NoCounterpart


@dataclass(frozen=True)
class Counterpart:
    """How a table is made of a cache.

    Attributes
    ----------
    sources : what must have been computed (`engine.paper.SOURCES`).
    make : evidence to frame; takes a cell as well if `by_cell`.
    otherwise : what is computed otherwise than in the paper, beside other models and other data.
    like : backbone family, data set and variant of the paper's table, to find the nearest cell by.
    """

    sources: tuple[str, ...]
    make: Callable[..., pd.DataFrame]
    otherwise: str
    by_cell: bool = False
    like: tuple[str, str, str] = ("", "", "")

    def nearest(self, cells: pd.DataFrame) -> str:
        """The cell most like the paper's: same variant, then data set, then backbone. One row per cell in `cells`."""
        backbone, dataset, variant = self.like
        alike = pd.DataFrame({
            "variant": cells["variant"] == variant,
            "dataset": cells["dataset"].str.replace("-", "") == dataset,
            "backbone": cells["backbone"].str.contains(backbone, regex=False),
        })  # fmt: skip
        order = alike.sort_values(["variant", "dataset", "backbone"], ascending=False, kind="stable").index
        return str(cells.loc[order[0], "cell"])


def build(table: str, evidence: Evidence, cell: str = "") -> pd.DataFrame:
    """The counterpart of a published table; raises `NoCounterpart` with the reason where there is none."""
    if table in WITHOUT:
        raise NoCounterpart(WITHOUT[table])
    if table not in COUNTERPARTS:
        raise UnknownName("table", table, published.TABLES)
    counterpart = COUNTERPARTS[table]
    frame = counterpart.make(evidence, cell) if counterpart.by_cell else counterpart.make(evidence)
    return frame.assign(printed=frame["printed"].astype(object))[FRAME].reset_index(drop=True)


def cells_with_logits(evidence: Evidence) -> pd.DataFrame:
    """The first run of each cell in which calibrators can be compared, routed ones first."""
    benchmarked = evidence.runs[evidence.runs["has_logits"].astype(bool)]
    order = benchmarked.assign(plain=~benchmarked["variant"].isin(ROUTED)).sort_values("plain", kind="stable")
    return order.drop_duplicates("cell").reset_index(drop=True)


_P = "p is exact here and comes from 5,000 shuffles in the paper; intervals resample counts of cells, not rows"
_SPLIT = "the same split rule (half and half, seed 42); std over seeds divides by n"
_RAW = "all four on the evaluated half; std divides by n"
_PROBE = "each run counts with the mean of five initialisations; the ridge penalty is 1"
_IMPORTED = "imported runs stand for the paper's external ones"
_SEED = "the first seed of every cell stands for seed 0"


def _calibration(like: tuple[str, str, str], *, accuracy: bool = False) -> Counterpart:
    columns = scores.HEADLINE | ({"ΔAcc@1 (%)": "delta_accuracy"} if accuracy else {})
    make = partial(scores.of_cell, scores.METHOD_ROWS, columns, ())
    return Counterpart(("scores",), make, _SPLIT, by_cell=True, like=like)


_MAIN = ("swin", "cifar10", "block_ar")
_SUPPLEMENT = {METRICS[name].label: name for name in ("mce", "classwise_ece", "smooth_ece")}
_PAIRED = {"ΔNLL": "delta_nll", "ΔBrier": "delta_brier"}
COUNTERPARTS: Mapping[str, Counterpart] = MappingProxyType({
    "matched_gap": Counterpart(("gaps",), partial(gaps.gap_table, "matched_gap"), f"{_SEED}; {_P}"),
    "calibration": _calibration(_MAIN, accuracy=True),
    "supplementary_metrics": Counterpart(
        ("scores",), partial(scores.of_cell, scores.SUPPLEMENT_ROWS, _SUPPLEMENT, ()),
        f"{_SPLIT}; bins with fewer than 5 samples are left out of MCE", by_cell=True, like=_MAIN,
    ),
    "paired_deltas": Counterpart(
        ("scores",), partial(scores.of_cell, scores.METHOD_ROWS, _PAIRED, (REFERENCE,)), _SPLIT, by_cell=True,
        like=_MAIN,
    ),
    "calibration_swin_c10_full": _calibration(("swin", "cifar10", "full_ar")),
    "calibration_deit_c10_block": _calibration(("deit", "cifar10", "block_ar")),
    "calibration_deit_c10_full": _calibration(("deit", "cifar10", "full_ar")),
    "calibration_swin_c100_block": _calibration(("swin", "cifar100", "block_ar")),
    "calibration_deit_c100_block": _calibration(("deit", "cifar100", "block_ar")),
    "calibration_deit_c100_full": _calibration(("deit", "cifar100", "full_ar")),
    "calibration_swin_c100_full": _calibration(("swin", "cifar100", "full_ar")),
    "gap_robustness": Counterpart(("gaps",), partial(gaps.gap_table, "gap_robustness"), f"{_SEED}; {_P}"),
    "per_seed_diagnostics": Counterpart(("gaps",), partial(gaps.gap_table, "per_seed_diagnostics"), _P),
    "bandwidth": Counterpart(
        ("bandwidth",), studies.bandwidths, "pooled over all runs with logits and a profile, std over runs"
    ),
    "probe_sanity": Counterpart(("probes",), probes.probe_sanity, f"pooled over all runs with a profile; {_PROBE}"),
    "feature_ablation_vit": Counterpart(("ablation",), studies.features_vit, _SPLIT),
    "vit_headline": Counterpart(("scores",), scores.vit_headline, _SPLIT),
    "raw_summary": Counterpart(("scores",), scores.raw_summary, _RAW),
    "replication_summary": Counterpart(("scores",), scores.replication, _RAW),
    "ar_sweep": Counterpart(("gaps",), gaps.sweep_table, f"{_P}; weights are the smaller side of each bin throughout"),
    "block_sizes": Counterpart(
        ("scores",), scores.block_sizes, "every Block-AR and Full-AR cell, whatever its backbone and data"
    ),
    "naive_probe": Counterpart(("probes",), probes.naive_probe, _PROBE),
    "feature_ablation": Counterpart(
        ("ablation",), studies.features, f"mean over the runs of a data set and variant; {_SPLIT}"
    ),
    "external_finetune": Counterpart(("scores",), scores.imported, _IMPORTED),
    "external_scratch": Counterpart(("scores",), scores.imported, _IMPORTED),
    "external_audit": Counterpart(
        ("scores",), scores.ranking, "only the ranking is repeated, over the runs of this cache; ties count for each"
    ),
    "vanilla_backbones": Counterpart(
        ("gaps", "hidden_states"), probes.vanilla, "token-mean norm of each block's output as hidden-state summary"
    ),
})  # fmt: skip
WITHOUT: Mapping[str, str] = MappingProxyType({
    "parameter_overhead": (
        "A cache holds predictions and routing, not weights, so it has no parameter counts. The models that "
        "cache_builder makes under the paper's names have exactly these."
    ),
    "ablation_plan": (
        "This table lists the block sizes that were tried and quotes three numbers; the table of block sizes "
        "has its quantities, and its counterpart."
    ),
})  # fmt: skip
"""Published tables that no cache can repeat, and why."""
