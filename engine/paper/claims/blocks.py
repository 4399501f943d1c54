"""Claims about the block-size ablation and about parameter counts."""

import re

from engine.paper.claims.compare import beside, cells_agree, column_follows, show
from engine.paper.claims.registry import Finding, Paper, all_of, claim, decide, register
from engine.paper.claims.rounding import Rounded, ordered
from engine.paper.published import AR_CONDCAL, RAW

_BLOCKS_TABLE, _PLAN = "block_sizes", "ablation_plan"
_ROW = "Block-size / Swin-Tiny / CIFAR-10"
_WORST = "Raw worst-tertile ECE"
_COLUMNS = {
    "Raw ECE": (RAW, "ECE"),
    "Raw worst-tertile ECE": (RAW, "Worst-tertile ECE"),
    "AR-CondCal worst-tertile ECE": (AR_CONDCAL, "Worst-tertile ECE"),
}
"""Columns of the ablation and the cell of a calibration table that shows the same quantity."""


def _sizes(paper: Paper) -> dict[int, str]:
    return {int(row.split()[1]): row for row in paper.rows(_BLOCKS_TABLE) if row.startswith("block-size ")}


@claim
def block_sizes_summarised(paper: Paper) -> Finding:
    near = "Raw worst-tertile ECE near b4/b6"
    cells = {
        f"b = {size}": ((_PLAN, _ROW, column), (_BLOCKS_TABLE, _sizes(paper)[size], _WORST))
        for size, column in ((2, "Raw worst-tertile ECE at b2"), (4, near), (6, near))
    }
    return cells_agree(paper, cells)


@claim
def full_ar_summarised(paper: Paper) -> Finding:
    here, there = (_PLAN, _ROW, "Raw worst-tertile ECE of Full-AR"), (_BLOCKS_TABLE, "Full-AR", _WORST)
    return decide(paper.agree(here, there), paper.cell(*here).printed, paper.shown(*there))


@claim
def block_sizes_listed(paper: Paper) -> Finding:
    text = paper.cell(_PLAN, _ROW, "Values").printed
    sizes = {int(size) for size in re.findall(r"b(\d+)", text)}, set(_sizes(paper))
    listed, found = (", ".join(f"b{size}" for size in sorted(of)) for of in sizes)
    return decide(listed == found, listed, found)


@claim
def block_size_plateau(paper: Paper) -> Finding:
    said = paper.said("block-size plateau")
    sizes = _sizes(paper)
    # "About" is read as equal when rounded to three decimals.
    parts = [
        (f"b = {b}", abs(paper.value(_BLOCKS_TABLE, sizes[b], _WORST) - said).fits_within(0.0005))
        for b in (4, 6, 8, 12)
    ]
    return all_of(parts, f"about {show(said, 4)}")


@claim
def block_size_peak(paper: Paper) -> Finding:
    values = {size: paper.value(_BLOCKS_TABLE, row, _WORST) for size, row in _sizes(paper).items()}
    found = ", ".join(f"b = {size}: {show(value, 4)}" for size, value in values.items())
    holds = all(value.may_be_at_most(values[2]) for value in values.values())
    return decide(holds, "b = 2", found)


@claim
def default_block_size(paper: Paper) -> Finding:
    stated = paper.said_count("default block size")
    rows = [row for row in paper.rows(_BLOCKS_TABLE) if row.startswith("Block-AR")]
    sizes = [int(size) for row in rows for size in re.findall(r"b=(\d+)", row)]
    return decide(sizes == [stated], f"b = {stated}", ", ".join(rows))


def _same_cell(paper: Paper, row: str, table: str) -> Finding:
    parts = []
    for column, cell in _COLUMNS.items():
        here, there = (_BLOCKS_TABLE, row, column), (table, *cell)
        parts.append((f"{column} {paper.shown(*here)} beside {paper.shown(*there)}", paper.agree(here, there)))
    return all_of(parts, "three-seed row")


register("block_row_matches_main", _same_cell, "Block-AR (b=2)", "calibration")
register("full_row_matches_cell", _same_cell, "Full-AR", "calibration_swin_c10_full")


@claim
def block_two_is_reused(paper: Paper) -> Finding:
    row = _sizes(paper)[2]
    parts = [
        beside(paper, column, paper.value(_BLOCKS_TABLE, row, column), "calibration", *cell)
        for column, cell in _COLUMNS.items()
    ]
    return all_of(parts, "reused")


_PARAMETERS_TABLE = "parameter_overhead"
_WIDTHS = {"ViT-B/16": ((768, 24),), "DeiT-Small": ((384, 24),), "Swin-Tiny": ((96, 4), (192, 4), (384, 12), (768, 4))}
"""Width and number of sub-layers, stage by stage."""


@claim
def variants_share_parameters(paper: Paper) -> Finding:
    full, block = (paper.numbers(_PARAMETERS_TABLE, variant) for variant in ("Full-AR", "Block-AR"))
    return all_of([(row, full[row] == block[row]) for row in full], "equal")


def _added(paper: Paper, row: str) -> Rounded:
    return paper.value(_PARAMETERS_TABLE, row, "Full-AR") - paper.value(_PARAMETERS_TABLE, row, "Baseline")


def _share(paper: Paper, row: str) -> Rounded:
    return _added(paper, row) / paper.value(_PARAMETERS_TABLE, row, "Baseline") * 100


register("parameter_difference", column_follows, _PARAMETERS_TABLE, "Δ params", _added)
register("parameter_share", column_follows, _PARAMETERS_TABLE, "Δ (%)", _share)


@claim
def overhead_is_small(paper: Paper) -> Finding:
    limit = paper.said("overhead in percent", "below").value
    shares = ordered(paper.numbers(_PARAMETERS_TABLE, "Δ (%)").values())
    holds = all(share.may_be_at_most(limit) for share in shares)
    return decide(holds, f"< {limit:g} %", f"at most {show(shares[-1], 2)} %")


def _module(paper: Paper, backbone: str) -> Finding:
    added = sum(2 * width * layers for width, layers in _WIDTHS[backbone])
    cell = (_PARAMETERS_TABLE, backbone, "Δ params")
    return decide(
        paper.value(*cell).may_equal(added / 1e6),
        paper.cell(*cell).printed,
        f"+{added / 1e6:.6f} ({added:,} parameters)",
    )


for _backbone in _WIDTHS:
    register(f"module_size_{_backbone.split('-')[0].lower()}", _module, _backbone)
