"""The numbers the paper published: every table, and the numbers its text states, as tidy cells.

One cell is a row of `table, row, column, value, std, n, note`. The files keep numbers as printed, because the number of
printed decimals says how far a number may lie from the computed one: 0.0160 stands for [0.01595, 0.01605].
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from engine.core import validation

DIRECTORY = Path(__file__).resolve().parents[2] / "data" / "paper"
STATEMENTS = "statements"
COLUMNS = ("table", "row", "column", "value", "std", "n", "note")

RAW = "No calibration"
TS = "Temp. Scaling (TS)"
AR_CONDCAL = "AR-CondCal"
KERNEL_FAMILY = ("Conf-only", "Conf + PredEntropy", AR_CONDCAL)
BINNING = ("Histogram Binning", "BBQ")

SUPPLEMENT_NAMES = {
    "Conf-only": "NW (Conf only)",
    "Conf + PredEntropy": "NW (Conf + Pred. Ent.)",
    AR_CONDCAL: "NW (Conf + Routing): AR-CondCal",
}
"""The kernel family goes by other names in the supplementary table."""
CELLS = {
    "calibration": "Swin-Tiny / C-10 / Block-AR",
    "calibration_swin_c10_full": "Swin-Tiny / C-10 / Full-AR",
    "calibration_deit_c10_block": "DeiT-Small / C-10 / Block-AR",
    "calibration_deit_c10_full": "DeiT-Small / C-10 / Full-AR",
    "calibration_swin_c100_block": "Swin-Tiny / C-100 / Block-AR",
    "calibration_deit_c100_block": "DeiT-Small / C-100 / Block-AR",
    "calibration_deit_c100_full": "DeiT-Small / C-100 / Full-AR",
    "calibration_swin_c100_full": "Swin-Tiny / C-100 / Full-AR",
}
"""The eight three-seed calibration tables and the row of the same cell in the raw summary."""

CALIBRATION_COLUMNS = ("ECE", "AdaECE", "NLL", "Brier", "Worst-tertile ECE")
SEED_ROWS = {
    variant: tuple(f"{name} / seed {seed}" for seed in range(3))
    for variant, name in (("Block-AR", "Block-AR (b=2)"), ("Full-AR", "Full-AR"))
}
"""The rows of single seeds in the per-seed table, by variant."""


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper: our name for it, the paper's label, and what it shows, in our words."""

    name: str
    label: str
    title: str
    caption: str


def _cell(name: str) -> PublishedTable:
    cell = CELLS[name].replace("C-10", "CIFAR-10")
    return PublishedTable(
        name, "tab:cal-per-cell-combined", f"Calibrators on {cell}",
        f"The comparison of the main calibration table on {cell}: mean and standard deviation over three seeds.",
    )  # fmt: skip


_TABLES = (
    PublishedTable(
        "matched_gap", "tab:phenomenon", "Matched-confidence gap, seed 0",
        "Swin-Tiny on CIFAR-10, seed 0: largest and weighted accuracy gap between the outer routing tertiles at equal "
        "confidence, bootstrap interval, bin support and within-bin permutation p.",
    ),
    PublishedTable(
        "calibration", "tab:calibration_block_ar", "Calibrators on Swin-Tiny / CIFAR-10 / Block-AR",
        "The main comparison of post-hoc calibrators on the held-out half, three seeds; tertiles of routing-depth "
        "variation for the worst-tertile ECE.",
    ),
    PublishedTable(
        "supplementary_metrics", "tab:cwece-supp", "MCE, classwise ECE and SmoothECE",
        "Three further metrics for the calibrators of the main table, same cell and seeds.",
    ),
    PublishedTable(
        "paired_deltas", "tab:paired-delta", "Paired changes of NLL and Brier",
        "Change against the uncalibrated model of the same seed, mean and standard deviation over three seeds.",
    ),
    *map(_cell, list(CELLS)[1:]),
    PublishedTable(
        "parameter_overhead", "tab:overhead-params", "Parameter counts",
        "Millions of parameters without and with the routing path, and what the path adds.",
    ),
    PublishedTable(
        "gap_robustness", "tab:gap-robustness", "Robustness of the gap, seed 0",
        "The gaps of the first table with bootstrap intervals for both statistics; printed with statistics as rows, "
        "kept here with variants as rows.",
    ),
    PublishedTable(
        "per_seed_diagnostics", "tab:perseed-swin-c10-diagnostic", "Gap diagnostics by seed",
        "Swin-Tiny on CIFAR-10, every seed of both variants: accuracy, gaps, support, permutation p and decision.",
    ),
    PublishedTable(
        "bandwidth", "tab:bw-sensitivity", "Bandwidth of AR-CondCal",
        "Five ways to choose the kernel bandwidth, pooled over eight CIFAR-10 runs.",
    ),
    PublishedTable(
        "probe_sanity", "tab:probe-sanity", "Probe audit",
        "Held-out R² of five regressors of the calibration error, pooled over 18 runs.",
    ),
    PublishedTable(
        "feature_ablation_vit", "tab:feature-ablation-vit", "Second features on ViT-B/16",
        "ECE of the kernel calibrator with each second feature, four single-seed ViT-B/16 cells.",
    ),
    PublishedTable(
        "vit_headline", "tab:vit-cross-arch-headline", "Calibrators on ViT-B/16",
        "Four calibrators on three single-seed ViT-B/16 cells, three decimals.",
    ),
    PublishedTable(
        "raw_summary", "tab:seed-variance-raw", "Raw metrics, Swin-Tiny / CIFAR-10",
        "Accuracy, ECE, NLL and Brier before calibration, mean and standard deviation over three seeds.",
    ),
    PublishedTable(
        "replication_summary", "tab:replication-summary", "Raw metrics of all completed cells",
        "Accuracy, ECE, NLL and Brier before calibration by backbone, data set and variant, with the DrLoc control.",
    ),
    PublishedTable(
        "ar_sweep", "tab:ar-sweep", "The 30-run sweep",
        "Gaps, smallest permutation p and number of rejections by cell.",
    ),
    PublishedTable(
        "ablation_plan", "tab:ablation-plan", "Summary of the ablation",
        "One row that lists the block sizes tried and quotes three raw worst-tertile ECEs.",
    ),
    PublishedTable(
        "block_sizes", "tab:blocksize-ablation", "Block sizes",
        "Swin-Tiny on CIFAR-10 by block size: raw ECE, raw worst-tertile ECE and that of AR-CondCal.",
    ),
    PublishedTable(
        "naive_probe", "tab:routing-probe", "Probe without capacity control",
        "Held-out R² of a linear confidence probe, a linear full-profile probe and a full-profile network, by run.",
    ),
    PublishedTable(
        "feature_ablation", "tab:feature_ablation", "Second features on Swin-Tiny",
        "ECE of the kernel calibrator with each of seven second features, seed 0, and the difference to two controls.",
    ),
    PublishedTable(
        "external_finetune", "tab:external-ft-vit-b16", "External runs: fine-tuned ViT-B/16",
        "Accuracy, ECE, NLL and Brier from another training pipeline and protocol.",
    ),
    PublishedTable(
        "external_scratch", "tab:external-scr-vit", "External runs: small ViT from scratch",
        "Accuracy, ECE, NLL and Brier from another training pipeline and protocol; one cell is missing.",
    ),
    PublishedTable(
        "external_audit", "tab:ext-robustness-compressed", "External runs: stress tests",
        "The numbers quoted in the summary of stress tests on the external runs; row and column names are ours.",
    ),
    PublishedTable(
        "vanilla_backbones", "app:generality-vanilla", "Backbones without routing",
        "The probe without capacity control on three pretrained backbones, with hidden-state summaries as profile.",
    ),
)  # fmt: skip
TABLES: Mapping[str, PublishedTable] = MappingProxyType({table.name: table for table in _TABLES})


def load(table: str) -> pd.DataFrame:
    """One published table, a row per cell, in printed order.

    Columns `table, row, column, value, std, n, note` as in the file, with `value` and `std` as numbers (missing where
    the cell holds a word or nothing) and `n` the number of runs behind the cell where the paper gives it, and then
    `printed` and `printed_std`, the same cells as text with their printed decimals.
    `load("statements")` gives the numbers that the text and the captions state; their `note` is the paper's label of
    the place.
    """
    validation.choice("table", table, (*TABLES, STATEMENTS))
    cells = pd.read_csv(DIRECTORY / f"{table}.csv", dtype=str, keep_default_na=False)
    printed, printed_std = cells["value"].astype(object), cells["std"].astype(object)
    return cells.assign(
        value=pd.to_numeric(printed, errors="coerce"),
        std=pd.to_numeric(printed_std, errors="coerce"),
        n=pd.to_numeric(cells["n"], errors="coerce").astype("Int64"),
        printed=printed,
        printed_std=printed_std,
    )


def load_all() -> dict[str, pd.DataFrame]:
    """Every table and the statements, by name."""
    return {name: load(name) for name in (*TABLES, STATEMENTS)}
