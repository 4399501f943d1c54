"""The paper's calibration tables from the benchmarks of any cache's runs, as frames and as LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from engine.benchmark.tables import scores, studies
from engine.benchmark.tables.parts import Material, Table, cells_of, is_block_ar, is_vit
from engine.core.errors import InvalidInput

__all__ = ["BUILDERS", "Builder", "Material", "Table", "build_tables"]


@dataclass(frozen=True)
class Builder:
    """A table, and whether the material has what it shows (else the reason why it is left out)."""

    name: str
    build: Callable[[Material], Table]
    lacks: Callable[[Material], str]


def _needs_cells(keep: Callable[[pd.DataFrame], pd.Series] | None, reason: str) -> Callable[[Material], str]:
    return lambda material: reason if cells_of(material, keep).empty else ""


def _needs_frame(field: str, reason: str) -> Callable[[Material], str]:
    return lambda material: reason if getattr(material, field).empty else ""


def _needs_vit_profile(material: Material) -> str:
    return "no ViT run with logits" if cells_of(material, is_vit).empty else ""


BUILDERS: tuple[Builder, ...] = (
    Builder("calibration_block_ar", scores.main_table, _needs_cells(is_block_ar, "no Block-AR run with logits")),
    Builder("cwece-supp", scores.supplement_table, _needs_cells(is_block_ar, "no Block-AR run with logits")),
    Builder("paired-delta", scores.paired_table, _needs_cells(is_block_ar, "no Block-AR run with logits")),
    Builder("cal-per-cell-combined", scores.per_cell_table, _needs_cells(None, "no run with logits")),
    Builder("seed-variance-raw", scores.raw_table, _needs_cells(None, "no run with logits")),
    Builder(
        "bw-sensitivity", studies.bandwidth_table, _needs_frame("bandwidth", "no run with logits and a routing profile")
    ),
    Builder("feature_ablation", studies.ablation_table, _needs_frame("ablation", "no run with logits")),
    Builder("feature-ablation-vit", studies.vit_ablation_table, _needs_vit_profile),
    Builder("vit-cross-arch-headline", scores.vit_headline_table, _needs_vit_profile),
    Builder("calsize", studies.size_table, _needs_frame("sizes", "no run with logits")),
    Builder("ext-robustness-compressed", studies.split_table, _needs_frame("splits", "no run with logits")),
    Builder("per-run-intervals", scores.interval_table, _needs_cells(None, "no run with logits")),
)


def build_tables(material: Material) -> tuple[list[Table], dict[str, str]]:
    """All tables that the material allows, and the reasons for those it does not."""
    if material.scores.empty:
        raise InvalidInput("runs", "at least one run with logits and labels", "none")
    left_out = {builder.name: reason for builder in BUILDERS if (reason := builder.lacks(material))}
    return [builder.build(material) for builder in BUILDERS if builder.name not in left_out], left_out
