"""Claims about the block-size ablation."""

from __future__ import annotations

import re

from engine.paper.claims.compare import reachable, show
from engine.paper.claims.names import AR_CONDCAL, RAW
from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide

TOPIC = Topic("Block sizes")

_TABLE, _LABEL, _PLAN, _PLAN_LABEL = "block_sizes", "tab:blocksize-ablation", "ablation_plan", "tab:ablation-plan"
_ROW = "Block-size / Swin-Tiny / CIFAR-10"
_WORST = "Raw worst-tertile ECE"
_COLUMNS = {
    "Raw ECE": (RAW, "ECE"),
    "Raw worst-tertile ECE": (RAW, "Worst-tertile ECE"),
    "AR-CondCal worst-tertile ECE": (AR_CONDCAL, "Worst-tertile ECE"),
}
"""Columns of the ablation and the cell of a calibration table that shows the same quantity."""


def _sizes(paper: Paper) -> dict[int, str]:
    return {int(row.split()[1]): row for row in paper.rows(_TABLE) if row.startswith("block-size ")}


@TOPIC.claim("Raw worst-tertile ECE at b = 2 and near b = 4 and 6, as summarised", _PLAN_LABEL)
def block_sizes_summarised(paper: Paper) -> Finding:
    quotes = {
        2: "Raw worst-tertile ECE at b2",
        4: "Raw worst-tertile ECE near b4/b6",
        6: "Raw worst-tertile ECE near b4/b6",
    }
    sizes = _sizes(paper)
    parts = [
        (f"b = {size}", paper.value(_PLAN, _ROW, column).may_equal(paper.value(_TABLE, sizes[size], _WORST)))
        for size, column in quotes.items()
    ]
    stated = ", ".join(paper.cell(_PLAN, _ROW, column).printed for column in dict.fromkeys(quotes.values()))
    return all_of(parts, stated, "against tab:blocksize-ablation")


@TOPIC.claim("Raw worst-tertile ECE of Full-AR, as summarised", _PLAN_LABEL)
def full_ar_summarised(paper: Paper) -> Finding:
    column = "Raw worst-tertile ECE of Full-AR"
    cell = paper.cell(_TABLE, "Full-AR", _WORST)
    return decide(
        paper.value(_PLAN, _ROW, column).may_equal(paper.value(_TABLE, "Full-AR", _WORST)),
        paper.cell(_PLAN, _ROW, column).printed,
        f"{cell.printed} ± {cell.printed_std}",
        "Full-AR row of tab:blocksize-ablation",
    )


@TOPIC.claim("The summary lists the block sizes of the table", _PLAN_LABEL)
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


@TOPIC.claim("Raw worst-tertile ECE is about 0.1449 for b = 4, 6, 8 and 12", _LABEL)
def block_size_plateau(paper: Paper) -> Finding:
    said = paper.said("block-size plateau")
    sizes = _sizes(paper)
    # "About" is read as equal when rounded to three decimals.
    parts = [(f"b = {b}", abs(paper.value(_TABLE, sizes[b], _WORST) - said).fits_within(0.0005)) for b in (4, 6, 8, 12)]
    return all_of(parts, f"about {show(said, 4)}", "within 0.0005")


@TOPIC.claim("Among the block sizes the raw worst-tertile ECE peaks at b = 2", _LABEL)
def block_size_peak(paper: Paper) -> Finding:
    values = {size: paper.value(_TABLE, row, _WORST) for size, row in _sizes(paper).items()}
    found = ", ".join(f"b = {size}: {show(value, 4)}" for size, value in values.items())
    holds = all(value.may_be_at_most(values[2]) for value in values.values())
    return decide(holds, "b = 2", found, "single-seed rows")


@TOPIC.claim("Block size of the default Block-AR with three seeds", _LABEL)
def default_block_size(paper: Paper) -> Finding:
    stated = paper.said_count("default block size")
    rows = [row for row in paper.rows(_TABLE) if row.startswith("Block-AR")]
    sizes = [int(size) for row in rows for size in re.findall(r"b=(\d+)", row)]
    return decide(
        sizes == [stated], f"b = {stated}", ", ".join(rows), "the caption's default and the table's three-seed row"
    )


def _same_cell(paper: Paper, row: str, table: str) -> Finding:
    parts = []
    for column, (method, metric) in _COLUMNS.items():
        here, there = paper.cell(_TABLE, row, column), paper.cell(table, method, metric)
        same = paper.value(_TABLE, row, column).may_equal(paper.value(table, method, metric))
        same &= paper.std(_TABLE, row, column).may_equal(paper.std(table, method, metric))
        parts.append(
            (f"{column} {here.printed} ± {here.printed_std} beside {there.printed} ± {there.printed_std}", same)
        )
    return all_of(parts, "three-seed row", f"mean and standard deviation against the table {table}")


@TOPIC.claim("The three-seed Block-AR row repeats the main calibration table", _LABEL)
def block_row_matches_main(paper: Paper) -> Finding:
    return _same_cell(paper, "Block-AR (b=2)", "calibration")


@TOPIC.claim("The three-seed Full-AR row repeats the Full-AR calibration table", _LABEL)
def full_row_matches_cell(paper: Paper) -> Finding:
    return _same_cell(paper, "Full-AR", "calibration_swin_c10_full")


@TOPIC.claim("The single b = 2 run can be one of the three b = 2 seeds of the main Block-AR cell", "fig:blocksize")
def block_two_is_reused(paper: Paper) -> Finding:
    row = _sizes(paper)[2]
    parts = []
    for column, (method, metric) in _COLUMNS.items():
        cell, value = paper.cell("calibration", method, metric), paper.value(_TABLE, row, column)
        centre, spread = paper.value("calibration", method, metric), paper.std("calibration", method, metric)
        parts.append(
            (
                f"{column} {show(value, 4)} beside {cell.printed} ± {cell.printed_std}",
                reachable(value, centre, spread, 3),
            )
        )
    return all_of(parts, "reused", "one of three numbers lies within sqrt(2) std of their mean")
