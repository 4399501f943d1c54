"""Claims about the calibration tables of the other cells."""

from __future__ import annotations

from functools import partial

from engine.paper.claims.compare import marks
from engine.paper.claims.names import AR_CONDCAL, CALIBRATION_COLUMNS, CELLS, RAW
from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide

TOPIC = Topic("Calibration of the other cells")

_COLUMN = "Worst-tertile ECE"


def _marks(table: str, paper: Paper) -> Finding:
    return marks(paper, table, CALIBRATION_COLUMNS, skip={RAW})


for _table in list(CELLS)[1:]:
    TOPIC.register(
        f"marks_{_table.removeprefix('calibration_')}",
        f"Bold and underlined numbers of {CELLS[_table]} are the best and second best",
        "tab:cal-per-cell-combined",
        partial(_marks, _table),
    )


def _additional(paper: Paper, place: str) -> Finding:
    found = sum(bool(paper.rows(table)) for table in list(CELLS)[1:])
    stated = paper.said_count("additional cells", place)
    return decide(stated == found, str(stated), str(found), "cells of tab:cal-per-cell-combined")


@TOPIC.claim("Number of further three-seed cells, in the main text", "sec:rq3")
def additional_cells_main(paper: Paper) -> Finding:
    return _additional(paper, "main text")


@TOPIC.claim("Number of further three-seed cells, in the appendix", "app:cross-cell-sweep")
def additional_cells_appendix(paper: Paper) -> Finding:
    return _additional(paper, "appendix")


@TOPIC.claim("The cross-substrate sweep has eight cells of three seeds", "sec:rq3")
def cells_and_seeds(paper: Paper) -> Finding:
    stated = paper.said_count("cross-substrate sweep", "cells"), paper.said_count("cross-substrate sweep", "seeds")
    rows = [row for row in paper.rows("ar_sweep") if paper.count("ar_sweep", row, "Runs tested") == stated[1]]
    found = sum(bool(paper.rows(table)) for table in CELLS)
    return decide(
        found == stated[0] == len(rows),
        f"{stated[0]} cells x {stated[1]} seeds",
        f"{found} calibration tables, {len(rows)} rows of {stated[1]} seeds in tab:ar-sweep",
        "tables and rows counted",
    )


@TOPIC.claim("Every calibrator lowers the ECE of every cell", "app:reliability")
def all_lower_ece(paper: Paper) -> Finding:
    parts = [
        (f"{CELLS[table]}: {row}", paper.value(table, row, "ECE").may_be_at_most(paper.value(table, RAW, "ECE")))
        for table in CELLS
        for row in paper.rows(table)
        if row != RAW
    ]
    return all_of(parts, "below the uncalibrated ECE", "every row of the eight calibration tables")


@TOPIC.claim(
    "AR-CondCal is never ahead of the strongest other method by more than its own standard deviation",
    "app:cross-cell-sweep",
)
def never_ahead_by_a_std(paper: Paper) -> Finding:
    parts, leads = [], []
    for table, cell in CELLS.items():
        others = [row for row in paper.rows(table) if row not in (RAW, AR_CONDCAL)]
        best = min((paper.value(table, row, _COLUMN) for row in others), key=lambda value: value.value)
        lead = best - paper.value(table, AR_CONDCAL, _COLUMN)
        leads.append(lead.value)
        parts.append((cell, lead.fits_within(paper.std(table, AR_CONDCAL, _COLUMN))))
    return all_of(parts, "lead at most one std", f"worst-tertile ECE, eight cells; largest lead {max(leads):.4f}")


@TOPIC.claim(
    "AR-CondCal is behind the best worst-tertile ECE by roughly one sum of the two standard deviations",
    "app:cross-cell-sweep",
)
def behind_by_one_std_sum(paper: Paper) -> Finding:
    parts, ratios = [], []
    for table, cell in CELLS.items():
        others = [row for row in paper.rows(table) if row not in (RAW, AR_CONDCAL)]
        best = min(others, key=lambda row: paper.value(table, row, _COLUMN).value)
        behind = paper.value(table, AR_CONDCAL, _COLUMN) - paper.value(table, best, _COLUMN)
        ratio = behind / (paper.std(table, AR_CONDCAL, _COLUMN) + paper.std(table, best, _COLUMN))
        ratios.append(ratio.value)
        parts.append((cell, ratio.fits_within(1.5)))
    how = f"distance over the sum of the two stds; largest {max(ratios):.2f}, up to 1.5 counts as roughly 1"
    return all_of(parts, "within roughly 1", how)
