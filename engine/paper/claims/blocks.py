"""Claims about the block-size ablation and about parameter counts."""

from __future__ import annotations

import re
from functools import partial

from engine.paper.claims.compare import reachable, show
from engine.paper.claims.registry import AR_CONDCAL, RAW, Finding, Paper, Topic, all_of, decide
from engine.paper.claims.rounding import exactly

BLOCKS = Topic("Block sizes")

_BLOCKS_TABLE, _BLOCKS_LABEL, _PLAN, _PLAN_LABEL = (
    "block_sizes",
    "tab:blocksize-ablation",
    "ablation_plan",
    "tab:ablation-plan",
)
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


@BLOCKS.claim("Raw worst-tertile ECE at b = 2 and near b = 4 and 6, as summarised", _PLAN_LABEL)
def block_sizes_summarised(paper: Paper) -> Finding:
    quotes = {
        2: "Raw worst-tertile ECE at b2",
        4: "Raw worst-tertile ECE near b4/b6",
        6: "Raw worst-tertile ECE near b4/b6",
    }
    sizes = _sizes(paper)
    parts = [
        (f"b = {size}", paper.value(_PLAN, _ROW, column).may_equal(paper.value(_BLOCKS_TABLE, sizes[size], _WORST)))
        for size, column in quotes.items()
    ]
    stated = ", ".join(paper.cell(_PLAN, _ROW, column).printed for column in dict.fromkeys(quotes.values()))
    return all_of(parts, stated, "against tab:blocksize-ablation")


@BLOCKS.claim("Raw worst-tertile ECE of Full-AR, as summarised", _PLAN_LABEL)
def full_ar_summarised(paper: Paper) -> Finding:
    column = "Raw worst-tertile ECE of Full-AR"
    cell = paper.cell(_BLOCKS_TABLE, "Full-AR", _WORST)
    return decide(
        paper.value(_PLAN, _ROW, column).may_equal(paper.value(_BLOCKS_TABLE, "Full-AR", _WORST)),
        paper.cell(_PLAN, _ROW, column).printed,
        f"{cell.printed} ± {cell.printed_std}",
        "Full-AR row of tab:blocksize-ablation",
    )


@BLOCKS.claim("The summary lists the block sizes of the table", _PLAN_LABEL)
def block_sizes_listed(paper: Paper) -> Finding:
    text = paper.cell(_PLAN, _ROW, "Values").printed
    listed = {int(size) for size in re.findall(r"b(\d+)", text)}
    found = set(_sizes(paper))
    return decide(
        listed == found,
        ", ".join(f"b{size}" for size in sorted(listed)),
        ", ".join(f"b{size}" for size in sorted(found)),
        "single-seed rows of tab:blocksize-ablation",
    )


@BLOCKS.claim("Raw worst-tertile ECE is about 0.1449 for b = 4, 6, 8 and 12", _BLOCKS_LABEL)
def block_size_plateau(paper: Paper) -> Finding:
    said = paper.said("block-size plateau")
    sizes = _sizes(paper)
    # "About" is read as equal when rounded to three decimals.
    parts = [
        (f"b = {b}", abs(paper.value(_BLOCKS_TABLE, sizes[b], _WORST) - said).fits_within(0.0005))
        for b in (4, 6, 8, 12)
    ]
    return all_of(parts, f"about {show(said, 4)}", "within 0.0005")


@BLOCKS.claim("Among the block sizes the raw worst-tertile ECE peaks at b = 2", _BLOCKS_LABEL)
def block_size_peak(paper: Paper) -> Finding:
    values = {size: paper.value(_BLOCKS_TABLE, row, _WORST) for size, row in _sizes(paper).items()}
    found = ", ".join(f"b = {size}: {show(value, 4)}" for size, value in values.items())
    holds = all(value.may_be_at_most(values[2]) for value in values.values())
    return decide(holds, "b = 2", found, "single-seed rows")


@BLOCKS.claim("Block size of the default Block-AR with three seeds", _BLOCKS_LABEL)
def default_block_size(paper: Paper) -> Finding:
    stated = paper.said_count("default block size")
    rows = [row for row in paper.rows(_BLOCKS_TABLE) if row.startswith("Block-AR")]
    sizes = [int(size) for row in rows for size in re.findall(r"b=(\d+)", row)]
    return decide(
        sizes == [stated], f"b = {stated}", ", ".join(rows), "the caption's default and the table's three-seed row"
    )


def _same_cell(paper: Paper, row: str, table: str) -> Finding:
    parts = []
    for column, (method, metric) in _COLUMNS.items():
        here, there = paper.cell(_BLOCKS_TABLE, row, column), paper.cell(table, method, metric)
        same = paper.value(_BLOCKS_TABLE, row, column).may_equal(paper.value(table, method, metric))
        same &= paper.std(_BLOCKS_TABLE, row, column).may_equal(paper.std(table, method, metric))
        parts.append(
            (f"{column} {here.printed} ± {here.printed_std} beside {there.printed} ± {there.printed_std}", same)
        )
    return all_of(parts, "three-seed row", f"mean and standard deviation against the table {table}")


@BLOCKS.claim("The three-seed Block-AR row repeats the main calibration table", _BLOCKS_LABEL)
def block_row_matches_main(paper: Paper) -> Finding:
    return _same_cell(paper, "Block-AR (b=2)", "calibration")


@BLOCKS.claim("The three-seed Full-AR row repeats the Full-AR calibration table", _BLOCKS_LABEL)
def full_row_matches_cell(paper: Paper) -> Finding:
    return _same_cell(paper, "Full-AR", "calibration_swin_c10_full")


@BLOCKS.claim("The single b = 2 run can be one of the three b = 2 seeds of the main Block-AR cell", "fig:blocksize")
def block_two_is_reused(paper: Paper) -> Finding:
    row = _sizes(paper)[2]
    parts = []
    for column, (method, metric) in _COLUMNS.items():
        cell, value = paper.cell("calibration", method, metric), paper.value(_BLOCKS_TABLE, row, column)
        centre, spread = paper.value("calibration", method, metric), paper.std("calibration", method, metric)
        parts.append(
            (
                f"{column} {show(value, 4)} beside {cell.printed} ± {cell.printed_std}",
                reachable(value, centre, spread, 3),
            )
        )
    return all_of(parts, "reused", "one of three numbers lies within sqrt(2) std of their mean")


PARAMETERS = Topic("Parameter counts")

_PARAMETERS_TABLE, _PARAMETERS_LABEL = "parameter_overhead", "tab:overhead-params"

_WIDTHS = {
    "ViT-B/16": ((768, 24),),
    "DeiT-Small": ((384, 24),),
    "Swin-Tiny": ((96, 4), (192, 4), (384, 12), (768, 4)),
}
"""Width and number of sub-layers, stage by stage."""


@PARAMETERS.claim("Block-AR and Full-AR have the same number of parameters on every backbone", _PARAMETERS_LABEL)
def variants_share_parameters(paper: Paper) -> Finding:
    return all_of(
        (
            (row, paper.value(_PARAMETERS_TABLE, row, "Full-AR") == paper.value(_PARAMETERS_TABLE, row, "Block-AR"))
            for row in paper.rows(_PARAMETERS_TABLE)
        ),
        "equal",
        "the two printed counts of each backbone",
    )


@PARAMETERS.claim("The added parameters are the difference of the two counts", _PARAMETERS_LABEL)
def parameter_difference(paper: Paper) -> Finding:
    def fits(row: str) -> bool:
        difference = paper.value(_PARAMETERS_TABLE, row, "Full-AR") - paper.value(_PARAMETERS_TABLE, row, "Baseline")
        return paper.value(_PARAMETERS_TABLE, row, "Δ params").may_equal(difference)

    rows = paper.rows(_PARAMETERS_TABLE)
    stated = ", ".join(paper.cell(_PARAMETERS_TABLE, row, "Δ params").printed for row in rows)
    return all_of(((row, fits(row)) for row in rows), stated, "Full-AR minus Baseline, millions")


@PARAMETERS.claim("The added share in percent is the difference over the baseline", _PARAMETERS_LABEL)
def parameter_share(paper: Paper) -> Finding:
    def fits(row: str) -> bool:
        baseline = paper.value(_PARAMETERS_TABLE, row, "Baseline")
        share = (paper.value(_PARAMETERS_TABLE, row, "Full-AR") - baseline) / baseline * 100
        return paper.value(_PARAMETERS_TABLE, row, "Δ (%)").may_equal(share)

    rows = paper.rows(_PARAMETERS_TABLE)
    stated = ", ".join(paper.cell(_PARAMETERS_TABLE, row, "Δ (%)").printed for row in rows)
    return all_of(((row, fits(row)) for row in rows), stated, "100 (Full-AR - Baseline) / Baseline")


@PARAMETERS.claim("The routing path adds less than 0.1 % of the parameters on every backbone", "app:overhead")
def overhead_is_small(paper: Paper) -> Finding:
    limit = paper.said("overhead in percent", "below").value
    shares = {row: paper.value(_PARAMETERS_TABLE, row, "Δ (%)") for row in paper.rows(_PARAMETERS_TABLE)}
    largest = max(share.value for share in shares.values())
    holds = all(not exactly(limit).surely_below(share) for share in shares.values())
    return decide(holds, f"< {limit:g} %", f"at most {largest:.2f} %", "largest printed share")


def _module(backbone: str, paper: Paper) -> Finding:
    added = sum(2 * width * layers for width, layers in _WIDTHS[backbone])
    printed = paper.cell(_PARAMETERS_TABLE, backbone, "Δ params").printed
    return decide(
        paper.value(_PARAMETERS_TABLE, backbone, "Δ params").may_equal(added / 1e6),
        printed,
        f"+{added / 1e6:.6f} ({added:,} parameters)",
        "one pseudo-query and one norm weight of the model's width for each of the 24 sub-layers, in millions",
    )


for _backbone in _WIDTHS:
    PARAMETERS.register(
        f"module_size_{_backbone.split('-')[0].lower()}",
        f"What the routing module adds to {_backbone}, to three decimals of a million",
        _PARAMETERS_LABEL,
        partial(_module, _backbone),
    )
