"""A paper that adds up gives no difference, and every planted error is found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.paper import published
from engine.paper.claims import CLAIMS, Claim, ClaimResult, audit
from engine.paper.claims.registry import Cell, MissingCell, Paper

Tables = dict[str, pd.DataFrame]
KERNEL = ("Conf-only", "Conf + PredEntropy", "AR-CondCal")
SWIN_BLOCK, SWIN_FULL = "Sw-T / C-10 / Block-AR", "Sw-T / C-10 / Full-AR"
SUPPLEMENT = {
    "Conf-only": "NW (Conf only)",
    "Conf + PredEntropy": "NW (Conf + Pred. Ent.)",
    "AR-CondCal": "NW (Conf + Routing): AR-CondCal",
}


def put(tables: Tables, table: str, row: str, column: str, printed: str | None = None, std: str | None = None) -> None:
    """Print another number in one cell."""
    frame = tables[table]
    at = (frame["row"] == row) & (frame["column"] == column)
    assert at.sum() == 1, (table, row, column)
    if printed is not None:
        frame.loc[at, "printed"] = printed
        frame.loc[at, "value"] = pd.to_numeric(printed, errors="coerce")
    if std is not None:
        frame.loc[at, "printed_std"] = std
        frame.loc[at, "std"] = float(std)


def mark(tables: Tables, table: str, column: str, bold: str, underlined: str) -> None:
    frame = tables[table]
    frame.loc[frame["column"] == column, "note"] = ""
    frame.loc[(frame["column"] == column) & (frame["row"] == bold), "note"] = "bold"
    frame.loc[(frame["column"] == column) & (frame["row"] == underlined), "note"] = "underlined"


def number(tables: Tables, table: str, row: str, column: str) -> float:
    frame = tables[table]
    return frame.loc[(frame["row"] == row) & (frame["column"] == column), "value"].item()


def copied(tables: Mapping[str, pd.DataFrame]) -> Tables:
    return {name: frame.copy() for name, frame in tables.items()}


def outcomes(results: list[ClaimResult]) -> dict[str, str]:
    return {result.key: result.outcome for result in results}


def consistent_paper() -> Tables:
    """The published tables and statements with every contradiction removed, by changing as few cells as will do."""
    tables = published.load_all()

    def table(name: str, row: str, column: str, printed: str | None = None, std: str | None = None) -> None:
        put(tables, name, row, column, printed, std)

    def say(row: str, column: str, printed: str | None = None, std: str | None = None) -> None:
        put(tables, "statements", row, column, printed, std)

    # The sweep repeats its seeds.
    table("ar_sweep", SWIN_BLOCK, "Max gap", std="0.109")
    say("sweep caption example", "value", "0.193", "0.109")
    table("ar_sweep", SWIN_FULL, "Max gap", "0.126", "0.053")
    table("ar_sweep", SWIN_FULL, "Wt. gap", "0.016", "0.002")
    table("ar_sweep", SWIN_FULL, "Perm. p", "0.512")

    # The main table: wider bands for the kernel family, a steadier TS, thirteen methods, one heat map.
    for method in KERNEL:
        table("calibration", method, "ECE", std="0.0024")
        say("ECE in percent", method, std="0.24")
    table("calibration", "Temp. Scaling (TS)", "Worst-tertile ECE", std="0.0002")
    say("methods", "value", "13")
    say("internal comparators", "first", "RCMMC")
    for band, printed in (("low", "0.150"), ("mid", "0.156"), ("high", "0.158"), ("worst", "0.1581")):
        say("heat map CIFAR-10", band, printed)
    say("additional cells", "main text", "7")

    # Single seeds that fit the three-seed rows.
    say("seed-0 ECE", "AR-CondCal", "0.0114")
    say("seed-2 ECE", "AR-CondCal", "0.0066")
    say("seed-0 ECE", "Temp. Scaling (TS)", "0.0104")
    say("seed-2 ECE", "Temp. Scaling (TS)", "0.0122")
    say("seed-2 ECE", "BBQ", "0.0072")
    say("seed-2 ECE", "Conf-only", "0.0090")
    say("seed-2 ECE", "RCMMC", "0.0090")
    table("calibration_swin_c10_full", "Conf-only", "ECE", std="0.0085")
    table("calibration_swin_c10_full", "AR-CondCal", "ECE", std="0.0075")

    # Paired changes are differences of the means.
    for row in dict.fromkeys(tables["paired_deltas"]["row"]):
        for score in ("NLL", "Brier"):
            change = number(tables, "calibration", row, score) - number(tables, "calibration", "No calibration", score)
            table("paired_deltas", row, f"Δ{score}", f"{change:.4f}")
    for row in ("Vector Scaling", "Parametric TS", "Isotonic Regression"):
        table("paired_deltas", row, "ΔNLL", std="0.0100")
    say("AR-CondCal paired NLL", "value", "-0.121")
    say("AR-CondCal paired NLL", "short of Vector Scaling", "0.018")

    # Supplementary metrics: possible deviations, and SmoothECE in the order of the ECE.
    for row, std in (("Isotonic Regression", "0.0306"), (SUPPLEMENT["Conf + PredEntropy"], "0.0548")):
        table("supplementary_metrics", row, "MCE", std=std)
    table("supplementary_metrics", SUPPLEMENT["AR-CondCal"], "MCE", std="0.0302")
    say("std of MCE AR-CondCal", "value", "0.03")
    for row in dict.fromkeys(tables["calibration"]["row"]):
        smooth = number(tables, "calibration", row, "ECE") + 0.005
        table("supplementary_metrics", SUPPLEMENT.get(row, row), "SmoothECE", f"{smooth:.4f}")
    mark(tables, "supplementary_metrics", "SmoothECE", "BBQ", SUPPLEMENT["Conf + PredEntropy"])

    # Features, probes.
    say("ViT tertile cuts", "feature in the text", "r_agg")
    say("shuffled routing", "change", "-0.003")
    say("naive uplift", "three Block-AR cells", "+0.067", "0.041")
    say("naive uplift", "Block-AR cells", "4")
    say("naive uplift", "seed 0", "+0.054")
    say("naive uplift", "seed 2", "+0.043")
    say("naive uplift", "last column", "Full (MLP) R²")
    table("naive_probe", "C-10 / Swin-T s0 / Full-AR", "Full (MLP) R²", "0.413")
    say("groups where conf-mlp wins", "extended discussion", "9")
    say("positive group", "value", std="0.025")

    # Raw models: seeds, both summaries and the calibration tables are the same runs.
    for variant in ("Block-AR (b=2)", "Full-AR"):
        for seed, accuracy in enumerate(("0.750", "0.921", "0.921")):
            table("per_seed_diagnostics", f"{variant} / seed {seed}", "Acc@1", accuracy)
    for name, prefix in (("raw_summary", ""), ("replication_summary", "Swin-Tiny / C-10 / ")):
        for variant in ("Block-AR", "Full-AR"):
            table(name, prefix + variant, "Acc@1", std="0.099")
        table(name, prefix + "Block-AR", "ECE", "0.151", "0.003")
        table(name, prefix + "Block-AR", "NLL", "0.427", "0.330")
        table(name, prefix + "Block-AR", "Brier", "0.175")
    for metric, printed, std in (("ECE", "0.124", "0.001"), ("NLL", "0.985", None), ("Brier", "0.357", None)):
        table("replication_summary", "Swin-Tiny / C-100 / Full-AR", metric, printed, std)
    table("replication_summary", "Swin-Tiny / C-10 / DrLoc", "ECE", "0.150")
    table("replication_summary", "DeiT-Small / C-100 / DrLoc", "ECE", "0.158")

    # Block sizes, set sizes, parameters, external runs.
    plan = "Block-size / Swin-Tiny / CIFAR-10"
    table("ablation_plan", plan, "Values", "b2, b4, b6, b8, b12, Full")
    table("ablation_plan", plan, "Raw worst-tertile ECE of Full-AR", "0.154")
    say("default block size", "value", "2")
    table("block_sizes", "Full-AR", "Raw ECE", "0.1423", "0.0138")
    table("block_sizes", "Full-AR", "Raw worst-tertile ECE", "0.1536", "0.0093")
    table("block_sizes", "Full-AR", "AR-CondCal worst-tertile ECE", "0.0193", "0.0130")
    table("block_sizes", "block-size 2", "Raw ECE", "0.1500")
    table("block_sizes", "block-size 2", "AR-CondCal worst-tertile ECE", "0.0200")
    say("ECE at 250 samples", "Temp. Scaling (TS)", "0.0220")
    table("parameter_overhead", "DeiT-Small", "Δ params", "+0.018")
    say("scratch suite ECE band", "high", "0.193")
    table("external_audit", "Scratch small-ViT suite", "Cells available", "8")
    say("external stress tests", "value", "9")
    say("Proposition 4", "spacing over std", "0.1")
    return tables


@pytest.fixture(scope="module")
def clean() -> Tables:
    return consistent_paper()


# ---- a paper that adds up -------------------------------------------------------------------------------------------


def test_a_consistent_paper_gives_no_difference(clean: Tables):
    results = audit(clean)
    assert [f"{result.key}: {result.recomputed}" for result in results if result.outcome == "differs"] == []
    assert sum(result.outcome == "not checkable" for result in results) == 3


@pytest.mark.parametrize("seed", range(20))
def test_seeds_and_their_aggregates_never_differ(clean: Tables, seed: int):
    """Random seeds, printed one by one and as mean ± std of the unrounded numbers, in either convention of the std."""
    rng = np.random.default_rng(seed)
    tables = copied(clean)
    for variant, name, sweep in (("Block-AR (b=2)", "Block-AR", SWIN_BLOCK), ("Full-AR", "Full-AR", SWIN_FULL)):
        targets = {"Max gap": ("ar_sweep", sweep), "Wt. gap": ("ar_sweep", sweep), "Acc@1": ("raw_summary", name)}
        for column, (table, row) in targets.items():
            truth = rng.gamma(1.5, 0.08, 3)
            for index, value in enumerate(truth):
                put(tables, "per_seed_diagnostics", f"{variant} / seed {index}", column, f"{value:.3f}")
            put(tables, table, row, column, f"{truth.mean():.3f}", f"{truth.std(ddof=seed % 2):.3f}")
    found = outcomes(audit(tables))
    keys = [f"{name}_{variant}" for name in ("sweep_max_gap", "sweep_weighted_gap") for variant in ("block", "full")]
    assert {found[key] for key in (*keys, "raw_accuracy_block", "raw_accuracy_full")} == {"agrees"}


# ---- planted errors -------------------------------------------------------------------------------------------------

PLANTED = {
    "table_one": (
        ("matched_gap", "Block-AR", "Wt. gap", "0.018"),
        {"robustness_repeats_table", "seed_rows_repeat_table"},
    ),
    "max_gap": (("matched_gap", "Full-AR", "Max gap", "0.152"), {"seed_zero_in_text"}),
    "seed_p": (
        ("per_seed_diagnostics", "Block-AR (b=2) / seed 1", "Perm. p", "0.033"),
        {"decisions_follow_from_p", "other_seeds_in_text"},
    ),
    "rejections": (
        ("ar_sweep", "DeiT-S / C-100 / Full-AR", "Rejections", "1"),
        {"sweep_rejections", "one_cell_rejects", "rejections_follow_from_p"},
    ),
    "runs": (("ar_sweep", "ViT-B/16 / T-IN / Full-AR", "Runs tested", "4"), {"sweep_runs", "expected_rejections"}),
    "seed_gap": (("per_seed_diagnostics", "Block-AR (b=2) / seed 2", "Max gap", "0.109"), {"sweep_max_gap_block"}),
    "aggregate": (("ar_sweep", SWIN_BLOCK, "Wt. gap", "0.018"), {"sweep_weighted_gap_block"}),
    "best": (("calibration", "RCMMC", "ECE", "0.0074"), {"main_table_marks", "ece_in_percent"}),
    "cell_best": (("calibration_deit_c10_full", "BBQ", "NLL", "0.279"), {"marks_deit_c10_full"}),
    "worst": (
        ("calibration_swin_c100_block", "BBQ", "Worst-tertile ECE", "0.0140"),
        {"worst_tertile_at_least_global"},
    ),
    "sign": (
        ("feature_ablation", "CIFAR-100 / Depth-variance r_std", "Δ vs Conf+PE", "-0.0023"),
        {"feature_difference_entropy"},
    ),
    "range": (
        ("feature_ablation", "CIFAR-10 / Routing entropy × confidence", "Full-AR ECE", "0.0270"),
        {"feature_range_c10_full"},
    ),
    "parameters": (
        ("parameter_overhead", "Swin-Tiny", "Full-AR", "27.554"),
        {"variants_share_parameters", "parameter_difference"},
    ),
    "bandwidth": (("bandwidth", "CV-NLL", "Worst-tertile ECE", "0.0242"), {"cross_validation_change"}),
    "probe": (("probe_sanity", "full-mlp", "R²", "0.5558"), {"pooled_r2", "shuffling_within"}),
    "uplift": (("vanilla_backbones", "DeiT-Base", "MLP R²", "0.339"), {"vanilla_uplift"}),
    "raw": (("replication_summary", "DeiT-Small / C-10 / Full-AR", "NLL", "0.453"), {"raw_deitsmall_c10_fullar"}),
    "text": (("statements", "bonferroni level", "value", "0.0071"), {"bonferroni"}),
    "span": (("statements", "sweep span of max gap", "high", "0.590"), {"max_gap_span"}),
    "ratio": (("statements", "growth of ECE", "RCMMC", "4.2"), {"growth_rcmmc"}),
}


@pytest.mark.parametrize(("cell", "found_by"), PLANTED.values(), ids=PLANTED)
def test_planted_errors_are_found(clean: Tables, cell: tuple[str, str, str, str], found_by: set[str]):
    tables = copied(clean)
    put(tables, *cell)
    found = outcomes(audit(tables))
    assert {key for key in found_by if found[key] == "differs"} == found_by


def test_an_edited_value_counts_as_printed(clean: Tables):
    tables = copied(clean)
    frame = tables["ar_sweep"]
    frame.loc[(frame["row"] == SWIN_BLOCK) & (frame["column"] == "Max gap"), "value"] = 0.25
    assert outcomes(audit(tables))["sweep_max_gap_block"] == "differs"


class Probe(Paper):
    """Remembers which cells were read, and shows another cell in place of one of them."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.read: list[tuple[str, str, str]] = []
        self.instead: dict[tuple[str, str, str], Cell] = {}

    def cell(self, table: str, row: str, column: str) -> Cell:
        self.read.append((table, row, column))
        return self.instead.get((table, row, column)) or super().cell(table, row, column)


def differs(claim: Claim, paper: Paper) -> bool:
    try:
        return claim.check(paper).outcome == "differs"
    except MissingCell:
        return False


def variations(cell: Cell) -> list[Cell]:
    """The cell with another number, another standard deviation or another word."""
    scales = (1.6, 0.5, -1.0, 11.0, 0.02)
    if math.isnan(cell.value):
        return [replace(cell, printed="something else")]
    numbers = [1.0] if cell.value == 0 else [cell.value * scale for scale in scales]
    changed = [replace(cell, value=number) for number in numbers]
    return changed + [replace(cell, std=cell.std * scale) for scale in scales if not math.isnan(cell.std)]


# An order, or a choice that changes from cell to cell, stands when a single number changes.
NEEDS_SEVERAL = {
    "winner_changes",
    "swin_order_changes",
    "no_variant_order",
    "depth_variance_does_not_win",
    "smooth_ece_ranks_alike",
}
NO_NUMBERS = {"groups_won", "temporal_ensemble"}
MOVABLE = [claim for claim in CLAIMS if claim.key not in NEEDS_SEVERAL | NO_NUMBERS]


@pytest.mark.parametrize("claim", MOVABLE, ids=lambda claim: claim.key)
def test_every_claim_can_be_contradicted(clean_probe: Probe, claim: Claim):
    """Some single cell or statement that the claim reads makes it differ once changed; else it would test nothing."""
    clean_probe.read.clear()
    clean_probe.instead.clear()
    assert not differs(claim, clean_probe)
    for key in dict.fromkeys(clean_probe.read):
        clean_probe.instead.clear()
        for other in variations(clean_probe.cell(*key)):
            clean_probe.instead = {key: other}
            if differs(claim, clean_probe):
                return
    pytest.fail("no single changed cell contradicts this claim")


@pytest.fixture(scope="module")
def clean_probe(clean: Tables) -> Probe:
    return Probe(clean)


@pytest.mark.parametrize(("scale", "found_of_1173"), [(0.1, 1091), (10.0, 742)])
def test_a_slipped_decimal_point_in_any_one_cell(clean_probe: Probe, scale: float, found_of_1173: int):
    """Each cell that some claim reads, changed by itself. What a claim only ranks may grow or shrink unnoticed."""
    readers: dict[tuple[str, str, str], list[Claim]] = {}
    clean_probe.instead.clear()
    for claim in CLAIMS:
        clean_probe.read.clear()
        differs(claim, clean_probe)
        for key in dict.fromkeys(clean_probe.read):
            readers.setdefault(key, []).append(claim)
    planted = found = 0
    for key, claims in readers.items():
        clean_probe.instead.clear()
        cell = clean_probe.cell(*key)
        if math.isnan(cell.value) or cell.value == 0:
            continue
        clean_probe.instead = {key: replace(cell, value=cell.value * scale)}
        planted += 1
        found += any(differs(claim, clean_probe) for claim in claims)
    clean_probe.instead.clear()
    assert planted == 1173
    assert found >= found_of_1173


@pytest.mark.parametrize(
    ("key", "cells"),
    [
        (
            "winner_changes",
            [
                ("feature_ablation", f"{data} / Depth-variance r_std", f"{variant} ECE", "0.0001")
                for data in ("CIFAR-10", "CIFAR-100")
                for variant in ("Block-AR", "Full-AR")
            ],
        ),
        (
            "swin_order_changes",
            [("per_seed_diagnostics", f"Full-AR / seed {seed}", "Max gap", "0.010") for seed in (1, 2)],
        ),
        (
            "no_variant_order",
            [
                ("external_finetune", f"{variant} / {data}", "ECE", ece)
                for data in ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet")
                for variant, ece in (("Baseline", "0.0100"), ("Block-AR", "0.0200"), ("Full-AR", "0.0300"))
            ],
        ),
        (
            "smooth_ece_ranks_alike",
            [("supplementary_metrics", row, "SmoothECE", "0.0300") for row in ("BBQ", "RCMMC", "Classwise TS")],
        ),
        (
            "depth_variance_does_not_win",
            [
                ("feature_ablation_vit", "Depth-variance r_std", column, "0.0001")
                for column in ("c10-Full", "c100-Full", "tin-Block", "tin-Full")
            ],
        ),
    ],
)
def test_claims_that_need_several_changes(clean: Tables, key: str, cells: list[tuple[str, str, str, str]]):
    tables = copied(clean)
    for cell in cells:
        put(tables, *cell)
    assert outcomes(audit(tables))[key] == "differs"
