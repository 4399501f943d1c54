"""The numbers the paper published: every table, and the numbers its text states, as tidy cells.

One cell is a row of `table, row, column, value, std, n, note`. The files keep numbers as printed, because the number of
printed decimals says how far a number may lie from the computed one: 0.0160 stands for [0.01595, 0.01605].
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

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


def words(name: str) -> list[dict[str, Any]]:
    """What we say about the paper, row by row: `tables`, `claims`, `conclusions` or `counterparts`."""
    with (DIRECTORY / "words" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


TABLES: Mapping[str, PublishedTable] = MappingProxyType({row["name"]: PublishedTable(**row) for row in words("tables")})


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
