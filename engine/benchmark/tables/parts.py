"""What the tables are made from, and what they share: cells, columns, wide frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.benchmark.rankings import aggregate_seeds
from engine.benchmark.scores import METRICS
from engine.benchmark.setup import REFERENCE
from engine.calibrators import CALIBRATORS
from engine.core import latex
from engine.core.labels import counted, variant_label
from engine.core.types import CELL


@dataclass(frozen=True, eq=False)
class Table:
    """A table under the paper's name: the numbers as a frame, the print as LaTeX."""

    name: str
    caption: str
    frame: pd.DataFrame
    latex: str


@dataclass(frozen=True, eq=False)
class Material:
    """Tidy frames of many runs: the benchmark and its sensitivity studies, and the cache's table of runs."""

    runs: pd.DataFrame
    scores: pd.DataFrame
    bandwidth: pd.DataFrame
    ablation: pd.DataFrame
    sizes: pd.DataFrame
    splits: pd.DataFrame


@dataclass(frozen=True)
class Column:
    """A metric as a column: with its spread over seeds or without, in units (1, or 100 for per cent)."""

    metric: str
    spread: bool = True
    scale: float = 1.0
    digits: int | None = None

    @property
    def header(self) -> str:
        unit = r" (\%)" if self.scale == 100 else ""
        arrow = {True: r" $\downarrow$", False: r" $\uparrow$", None: ""}[METRICS[self.metric].lower_is_better]
        return latex.escape(METRICS[self.metric].label) + unit + arrow

    @property
    def shown_digits(self) -> int:
        return METRICS[self.metric].digits if self.digits is None else self.digits

    def cell(self, mean: float, std: float, n_seeds: int) -> str:
        """The number as printed; one seed has no spread."""
        digits = self.shown_digits
        signed = self.metric.startswith("delta_")
        if self.spread and n_seeds > 1:
            return latex.plus_minus(self.scale * mean, self.scale * std, digits, signed=signed)
        return latex.number(self.scale * mean, digits, signed=signed)


def cell_title(cell: dict[str, Any]) -> str:
    """Such as `Block-AR (b = 2), swin_tiny / cifar10, suite paper`."""
    variant = variant_label(cell["variant"], cell["block_size"])
    return f"{variant}, {cell['backbone']} / {cell['dataset']}, suite {cell['suite']}"


def split_cells(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each cell under its title, in order of appearance."""
    groups = frame.groupby(list(CELL), sort=False, dropna=False)
    return [(cell_title(dict(zip(CELL, key, strict=True))), rows) for key, rows in groups]


def method_table(
    name: str,
    caption: str,
    cells: pd.DataFrame,
    columns: Sequence[Column],
    methods: Sequence[str] = tuple(CALIBRATORS),
) -> Table:
    """Methods in rows, metrics in columns, one block per cell; marks leave the uncalibrated row out."""
    wanted = [column.metric for column in columns]
    kept = cells[cells["metric"].isin(wanted) & cells["method"].isin(methods)]
    blocks = []
    for title, rows in split_cells(kept):
        table = rows.set_index(["method", "metric"])
        order = [method for method in methods if method in set(rows["method"])]
        n_seeds = int(rows["n"].max())
        printed = []
        for column in columns:
            means = [float(table["mean"].get((method, column.metric), np.nan)) for method in order]
            stds = [float(table["std"].get((method, column.metric), np.nan)) for method in order]
            texts = [column.cell(mean, std, n_seeds) for mean, std in zip(means, stds, strict=True)]
            lower = METRICS[column.metric].lower_is_better
            if lower is not None:
                competing = [np.nan if m == REFERENCE else mean for m, mean in zip(order, means, strict=True)]
                texts = latex.mark_best(texts, competing, column.shown_digits, lower_is_better=lower)
            printed.append(texts)
        labels = [latex.escape(CALIBRATORS[method].label) for method in order]
        rows_printed = tuple(zip(labels, *printed, strict=True))
        blocks.append(latex.Block(f"{title}; {counted(n_seeds, 'seed')}", rows_printed))
    text = latex.render(
        ["Method", *(column.header for column in columns)], blocks, caption=caption, label=f"tab:{name}"
    )
    return Table(name, caption, wide(kept, wanted), text)


def wide(cells: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """One row per cell and method: n, then mean and std of each metric."""
    keys = [*CELL, "method"]
    rows = cells.drop_duplicates(keys)[keys]
    result = rows.merge(cells.groupby(keys, sort=False, dropna=False)["n"].max().reset_index(), on=keys)
    for metric in metrics:
        part = cells[cells["metric"] == metric][[*keys, "mean", "std"]]
        part = part.rename(columns={"mean": f"{metric}_mean", "std": f"{metric}_std"})
        result = result.merge(part, on=keys, how="left")
    return result


def cells_of(material: Material, keep: Callable[[pd.DataFrame], pd.Series] | None = None) -> pd.DataFrame:
    cells = aggregate_seeds(material.scores, material.runs)
    return cells if keep is None else cells[keep(cells)]


def is_block_ar(cells: pd.DataFrame) -> pd.Series:
    return cells["variant"] == "block_ar"


def is_vit(cells: pd.DataFrame) -> pd.Series:
    return cells["backbone"].str.contains("vit", regex=False)
