"""Claims about the main calibration table, the worst-tertile ECE and the tables of the other cells."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations, permutations

from engine.paper.claims.compare import bands_overlap, marks, quoted, reachable, repeats, show, within_band
from engine.paper.claims.registry import (
    AR_CONDCAL,
    BINNING,
    CALIBRATION_COLUMNS,
    CELLS,
    KERNEL_FAMILY,
    RAW,
    TS,
    Finding,
    Paper,
    Topic,
    all_of,
    decide,
)
from engine.paper.claims.rounding import Rounded, exactly

CALIBRATION = Topic("Main calibration table")

_TABLE, _LABEL = "calibration", "tab:calibration_block_ar"


def _band(paper: Paper, row: str, column: str) -> tuple[Rounded, Rounded]:
    return paper.value(_TABLE, row, column), paper.std(_TABLE, row, column)


@CALIBRATION.claim("ECE of six methods, in percent", "sec:rq3")
def ece_in_percent(paper: Paper) -> Finding:
    rows = paper.said_columns("ECE in percent")
    quotes = [("ECE in percent", row, _TABLE, row, "ECE") for row in rows]
    return repeats(paper, quotes, "100 times the cells of tab:calibration_block_ar", scale=100)


@CALIBRATION.claim("Worst-tertile ECE of the kernel family, in percent", "sec:rq3")
def worst_tertile_in_percent(paper: Paper) -> Finding:
    said = "worst-tertile ECE in percent"
    quotes = [(said, row, _TABLE, row, "Worst-tertile ECE") for row in paper.said_columns(said)]
    return repeats(paper, quotes, "100 times the cells of tab:calibration_block_ar", scale=100)


@CALIBRATION.claim("Bold and underlined numbers of the main table are the best and second best", _LABEL)
def main_table_marks(paper: Paper) -> Finding:
    return marks(paper, _TABLE, CALIBRATION_COLUMNS, skip={RAW})


@CALIBRATION.claim("AR-CondCal does not change a prediction", "sec:ar-condcal")
def accuracy_is_kept(paper: Paper) -> Finding:
    change, spread = _band(paper, AR_CONDCAL, "ΔAcc@1 (%)")
    return decide(
        change.may_equal(0.0) and spread.may_equal(0.0),
        "0",
        f"{show(change, 2)} ± {show(spread, 2)}",
        "change of accuracy",
    )


@CALIBRATION.claim(
    "Temperature scaling and ensemble temperature scaling have the same ECE and standard deviation",
    "fig:bench-main-full",
)
def ts_and_ets_std(paper: Paper) -> Finding:
    stated = paper.said("std of TS and ETS")
    parts = [(row, stated.may_equal(paper.std(_TABLE, row, "ECE"))) for row in (TS, "Ensemble TS")]
    parts.append(("equal ECE", paper.value(_TABLE, TS, "ECE").may_equal(paper.value(_TABLE, "Ensemble TS", "ECE"))))
    return all_of(parts, f"± {show(stated, 4)}", "against tab:calibration_block_ar")


@CALIBRATION.claim(
    "The ECEs of the kernel family lie within each other's bands of one standard deviation", "fig:bench-main"
)
def kernel_family_in_bands(paper: Paper) -> Finding:
    bands = {row: _band(paper, row, "ECE") for row in KERNEL_FAMILY}
    pairs = list(permutations(bands, 2))
    inside = sum(within_band(bands[one][0], *bands[other]) for one, other in pairs)
    overlapping = sum(bands_overlap(one, other) for one, other in combinations(bands.values(), 2))
    return decide(
        inside == len(pairs),
        "within each other's bands",
        f"mean in the other's band in {inside} of {len(pairs)} ordered pairs; bands may overlap in {overlapping} of 3",
        "mean ± std of Conf-only, Conf + PredEntropy and AR-CondCal in tab:calibration_block_ar",
    )


@CALIBRATION.claim("The worst-tertile ECEs of the kernel family differ by about 0.003 at most", "fig:bench-main")
def kernel_family_worst_range(paper: Paper) -> Finding:
    values = [paper.value(_TABLE, row, "Worst-tertile ECE") for row in KERNEL_FAMILY]
    spread = max(values, key=lambda v: v.value) - min(values, key=lambda v: v.value)
    stated = paper.said("worst-tertile range of the kernel family")
    return decide(
        spread.fits_within(stated),
        f"about {show(stated, 3)}",
        show(spread, 4),
        "largest minus smallest of the three means",
    )


@CALIBRATION.claim(
    "Kernel and binning methods have a worst-tertile standard deviation an order of magnitude above that of TS and ETS",
    "sec:rq3",
)
def worst_tertile_std_ratio(paper: Paper) -> Finding:
    times = paper.said("worst-tertile std of kernel and binning methods over TS", "times")
    reference = paper.std(_TABLE, TS, "Worst-tertile ECE")
    ratios = [paper.std(_TABLE, row, "Worst-tertile ECE") / reference for row in (*BINNING, *KERNEL_FAMILY)]
    # The nearest power of ten is that order of magnitude: a ratio counts from 10 / sqrt(10) on.
    holds = all(exactly(times.value / math.sqrt(10)).may_be_at_most(ratio) for ratio in ratios)
    low, high = min(ratio.value for ratio in ratios), max(ratio.value for ratio in ratios)
    return decide(
        holds,
        f"about {show(times, 0)} times",
        f"{low:.1f} to {high:.1f} times",
        "standard deviations of the kernel family, HB and BBQ over that of TS; at least 10 / sqrt(10) would do",
    )


@CALIBRATION.claim("The comparison has 14 calibrators", "fig:bench-main")
def number_of_methods(paper: Paper) -> Finding:
    rows = [row for row in paper.rows(_TABLE) if row != RAW]
    stated = paper.said_count("methods")
    return decide(
        len(rows) == stated,
        str(stated),
        str(len(rows)),
        "rows of tab:calibration_block_ar besides the uncalibrated one",
    )


@CALIBRATION.claim("Both internal comparators are in the main table", "app:internal-baselines")
def internal_comparators_listed(paper: Paper) -> Finding:
    names = [paper.said_text("internal comparators", column) for column in ("first", "second")]
    absent = [name for name in names if name not in paper.rows(_TABLE)]
    return decide(
        not absent,
        " and ".join(names),
        f"no row {', '.join(absent)}" if absent else "both listed",
        "row names of tab:calibration_block_ar",
    )


@CALIBRATION.claim(
    "The worst tertile is never better calibrated than the whole set, in any calibration table", "sec:method-arcondcal"
)
def worst_tertile_at_least_global(paper: Paper) -> Finding:
    # A mixture's ECE is at most the mixture of its parts' ECEs, hence at most the largest of them, seed by seed.
    parts = [
        (f"{table}: {row}", paper.value(table, row, "ECE").may_be_at_most(paper.value(table, row, "Worst-tertile ECE")))
        for table in CELLS
        for row in paper.rows(table)
    ]
    return all_of(parts, "worst-tertile ECE >= ECE", "every row of the eight calibration tables")


@CALIBRATION.claim(
    "The heat map's raw worst-tertile ECE equals the main table's to four decimals", "fig:reliability-2d"
)
def heat_map_matches_table(paper: Paper) -> Finding:
    cell = paper.cell(_TABLE, RAW, "Worst-tertile ECE")
    said = paper.said("heat map CIFAR-10", "worst")
    return decide(
        said.may_equal(paper.value(_TABLE, RAW, "Worst-tertile ECE")),
        show(said, 4),
        f"{cell.printed} ± {cell.printed_std}",
        "the uncalibrated row of tab:calibration_block_ar (mean over three seeds)",
    )


@CALIBRATION.claim("The heat map's worst-tertile ECE is the largest of its three tertiles", "fig:reliability-2d")
def heat_map_worst_is_largest(paper: Paper) -> Finding:
    row = "heat map CIFAR-10"
    bands = {band: paper.said(row, band) for band in ("low", "mid", "high")}
    worst = max(bands, key=lambda band: bands[band].value)
    stated = paper.said(row, "worst")
    tertiles = quoted(paper, *((row, band) for band in bands))
    return decide(
        stated.may_equal(bands[worst]), show(stated, 4), f"{worst}: {show(bands[worst], 3)}", f"of {tertiles}"
    )


@CALIBRATION.claim("The CIFAR-100 heat map's worst tertile can be a seed of that cell", "fig:reliability-2d")
def heat_map_cifar100(paper: Paper) -> Finding:
    row, table = "heat map CIFAR-100", "calibration_swin_c100_block"
    worst = max((paper.said(row, band) for band in ("low", "mid", "high")), key=lambda value: value.value)
    cell = paper.cell(table, RAW, "Worst-tertile ECE")
    holds = reachable(
        worst, paper.value(table, RAW, "Worst-tertile ECE"), paper.std(table, RAW, "Worst-tertile ECE"), 3
    )
    return decide(
        holds, show(worst, 3), f"{cell.printed} ± {cell.printed_std}", "one of three seeds with this mean and std"
    )


@CALIBRATION.claim(
    "The worst tertile of CIFAR-100 is at the other end of the routing axis from that of CIFAR-10", "fig:reliability-2d"
)
def heat_map_ends(paper: Paper) -> Finding:
    worst = {
        data: max(("low", "mid", "high"), key=lambda band: paper.said(f"heat map {data}", band).value)
        for data in ("CIFAR-10", "CIFAR-100")
    }
    stated = paper.said_text("heat map CIFAR-100", "opposite end")
    return decide(
        worst["CIFAR-10"] == stated and worst["CIFAR-100"] == "low",
        f"low, opposite to {stated}",
        f"CIFAR-10: {worst['CIFAR-10']}; CIFAR-100: {worst['CIFAR-100']}",
        "largest of the three tertile ECEs in the caption, for each data set",
    )


OTHER_CELLS = Topic("Calibration of the other cells")

_COLUMN = "Worst-tertile ECE"


def _marks(table: str, paper: Paper) -> Finding:
    return marks(paper, table, CALIBRATION_COLUMNS, skip={RAW})


for _table in list(CELLS)[1:]:
    OTHER_CELLS.register(
        f"marks_{_table.removeprefix('calibration_')}",
        f"Bold and underlined numbers of {CELLS[_table]} are the best and second best",
        "tab:cal-per-cell-combined",
        partial(_marks, _table),
    )


def _additional(paper: Paper, place: str) -> Finding:
    found = sum(bool(paper.rows(table)) for table in list(CELLS)[1:])
    stated = paper.said_count("additional cells", place)
    return decide(stated == found, str(stated), str(found), "cells of tab:cal-per-cell-combined")


@OTHER_CELLS.claim("Number of further three-seed cells, in the main text", "sec:rq3")
def additional_cells_main(paper: Paper) -> Finding:
    return _additional(paper, "main text")


@OTHER_CELLS.claim("Number of further three-seed cells, in the appendix", "app:cross-cell-sweep")
def additional_cells_appendix(paper: Paper) -> Finding:
    return _additional(paper, "appendix")


@OTHER_CELLS.claim("The cross-substrate sweep has eight cells of three seeds", "sec:rq3")
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


@OTHER_CELLS.claim("Every calibrator lowers the ECE of every cell", "app:reliability")
def all_lower_ece(paper: Paper) -> Finding:
    parts = [
        (f"{CELLS[table]}: {row}", paper.value(table, row, "ECE").may_be_at_most(paper.value(table, RAW, "ECE")))
        for table in CELLS
        for row in paper.rows(table)
        if row != RAW
    ]
    return all_of(parts, "below the uncalibrated ECE", "every row of the eight calibration tables")


@OTHER_CELLS.claim(
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


@OTHER_CELLS.claim(
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
