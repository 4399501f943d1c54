"""Claims about the main calibration table, the worst-tertile ECE and the tables of the other cells."""

import math
from itertools import combinations, permutations

from engine.paper.claims.compare import bands_overlap, marks, quoted, reachable, repeats, same_count, show, within_band
from engine.paper.claims.registry import Finding, Paper, all_of, claim, decide, register
from engine.paper.claims.rounding import Rounded, exactly, ordered
from engine.paper.published import AR_CONDCAL, BINNING, CALIBRATION_COLUMNS, CELLS, KERNEL_FAMILY, RAW, TS

_BANDS = ("low", "mid", "high")
_TABLE, _WORST = "calibration", "Worst-tertile ECE"


def _percent(paper: Paper, said: str, column: str) -> Finding:
    quotes = [(said, row, _TABLE, row, column) for row in paper.said_columns(said)]
    return repeats(paper, quotes, scale=100)


register("ece_in_percent", _percent, "ECE in percent", "ECE")
register("worst_tertile_in_percent", _percent, "worst-tertile ECE in percent", _WORST)
register("main_table_marks", marks, _TABLE, CALIBRATION_COLUMNS, {RAW})


@claim
def accuracy_is_kept(paper: Paper) -> Finding:
    change, spread = paper.band(_TABLE, AR_CONDCAL, "ΔAcc@1 (%)")
    kept = change.may_equal(0.0) and spread.may_equal(0.0)
    return decide(kept, "0", f"{show(change, 2)} ± {show(spread, 2)}")


@claim
def ts_and_ets_std(paper: Paper) -> Finding:
    stated = paper.said("std of TS and ETS")
    parts = [(row, stated.may_equal(paper.std(_TABLE, row, "ECE"))) for row in (TS, "Ensemble TS")]
    parts.append(("equal ECE", paper.value(_TABLE, TS, "ECE").may_equal(paper.value(_TABLE, "Ensemble TS", "ECE"))))
    return all_of(parts, f"± {show(stated, 4)}")


@claim
def kernel_family_in_bands(paper: Paper) -> Finding:
    bands = {row: paper.band(_TABLE, row, "ECE") for row in KERNEL_FAMILY}
    pairs = list(permutations(bands, 2))
    inside = sum(within_band(bands[one][0], *bands[other]) for one, other in pairs)
    overlapping = sum(bands_overlap(one, other) for one, other in combinations(bands.values(), 2))
    return decide(
        inside == len(pairs),
        "within each other's bands",
        f"mean in the other's band in {inside} of {len(pairs)} ordered pairs; bands may overlap in {overlapping} of 3",
    )


@claim
def kernel_family_worst_range(paper: Paper) -> Finding:
    values = ordered(paper.numbers(_TABLE, _WORST, KERNEL_FAMILY).values())
    spread, stated = values[-1] - values[0], paper.said("worst-tertile range of the kernel family")
    return decide(spread.fits_within(stated), f"about {show(stated, 3)}", show(spread, 4))


@claim
def worst_tertile_std_ratio(paper: Paper) -> Finding:
    times = paper.said("worst-tertile std of kernel and binning methods over TS", "times")
    reference = paper.std(_TABLE, TS, _WORST)
    ratios = ordered(paper.std(_TABLE, row, _WORST) / reference for row in (*BINNING, *KERNEL_FAMILY))
    # The nearest power of ten is that order of magnitude: a ratio counts from 10 / sqrt(10) on.
    holds = all(exactly(times.value / math.sqrt(10)).may_be_at_most(ratio) for ratio in ratios)
    return decide(holds, f"about {show(times, 0)} times", f"{show(ratios[0], 1)} to {show(ratios[-1], 1)} times")


register("number_of_methods", same_count, "methods", "value", lambda paper: len({*paper.rows(_TABLE)} - {RAW}))


@claim
def internal_comparators_listed(paper: Paper) -> Finding:
    names = [paper.said_text("internal comparators", column) for column in ("first", "second")]
    absent = [name for name in names if name not in paper.rows(_TABLE)]
    found = f"no row {', '.join(absent)}" if absent else "both listed"
    return decide(not absent, " and ".join(names), found)


@claim
def worst_tertile_at_least_global(paper: Paper) -> Finding:
    # A mixture's ECE is at most the mixture of its parts' ECEs, hence at most the largest of them, seed by seed.
    parts = [
        (f"{table}: {row}", ece.may_be_at_most(paper.value(table, row, _WORST)))
        for table in CELLS
        for row, ece in paper.numbers(table, "ECE").items()
    ]
    return all_of(parts, "worst-tertile ECE >= ECE")


@claim
def heat_map_matches_table(paper: Paper) -> Finding:
    said, cell = paper.said("heat map CIFAR-10", "worst"), (_TABLE, RAW, _WORST)
    return decide(said.may_equal(paper.value(*cell)), show(said, 4), paper.shown(*cell))


def _heat_map(paper: Paper, data: str) -> tuple[str, Rounded]:
    """The tertile with the largest ECE in the caption, and that ECE."""
    bands = {band: paper.said(f"heat map {data}", band) for band in _BANDS}
    return max(bands.items(), key=lambda item: item[1].value)


@claim
def heat_map_worst_is_largest(paper: Paper) -> Finding:
    band, largest = _heat_map(paper, "CIFAR-10")
    stated = paper.said("heat map CIFAR-10", "worst")
    tertiles = quoted(paper, *(("heat map CIFAR-10", name) for name in _BANDS))
    return decide(stated.may_equal(largest), show(stated, 4), f"{band}: {show(largest, 3)}", f"of {tertiles}")


@claim
def heat_map_cifar100(paper: Paper) -> Finding:
    worst, cell = _heat_map(paper, "CIFAR-100")[1], ("calibration_swin_c100_block", RAW, _WORST)
    holds = reachable(worst, *paper.band(*cell), 3)
    return decide(holds, show(worst, 3), paper.shown(*cell))


@claim
def heat_map_ends(paper: Paper) -> Finding:
    first, second = (_heat_map(paper, data)[0] for data in ("CIFAR-10", "CIFAR-100"))
    stated = paper.said_text("heat map CIFAR-100", "opposite end")
    return decide(
        first == stated and second == "low", f"low, opposite to {stated}", f"CIFAR-10: {first}; CIFAR-100: {second}"
    )


for _table in list(CELLS)[1:]:
    register(f"marks_{_table.removeprefix('calibration_')}", marks, _table, CALIBRATION_COLUMNS, {RAW})


def _further_cells(paper: Paper) -> int:
    return sum(bool(paper.rows(table)) for table in list(CELLS)[1:])


register("additional_cells_main", same_count, "additional cells", "main text", _further_cells)
register("additional_cells_appendix", same_count, "additional cells", "appendix", _further_cells)


@claim
def cells_and_seeds(paper: Paper) -> Finding:
    stated = paper.said_count("cross-substrate sweep", "cells"), paper.said_count("cross-substrate sweep", "seeds")
    rows = [row for row in paper.rows("ar_sweep") if paper.count("ar_sweep", row, "Runs tested") == stated[1]]
    found = sum(bool(paper.rows(table)) for table in CELLS)
    return decide(
        found == stated[0] == len(rows),
        f"{stated[0]} cells x {stated[1]} seeds",
        f"{found} calibration tables, {len(rows)} rows of {stated[1]} seeds in tab:ar-sweep",
    )


@claim
def all_lower_ece(paper: Paper) -> Finding:
    parts = [
        (f"{CELLS[table]}: {row}", paper.value(table, row, "ECE").may_be_at_most(paper.value(table, RAW, "ECE")))
        for table in CELLS
        for row in paper.rows(table)
        if row != RAW
    ]
    return all_of(parts, "below the uncalibrated ECE")


def _rivals(paper: Paper, table: str) -> tuple[Rounded, Rounded, Rounded, Rounded]:
    """Worst-tertile ECE and its std: of AR-CondCal, then of the best other method."""
    others = [row for row in paper.rows(table) if row not in (RAW, AR_CONDCAL)]
    best = min(others, key=lambda row: paper.value(table, row, _WORST).value)
    return *paper.band(table, AR_CONDCAL, _WORST), *paper.band(table, best, _WORST)


@claim
def never_ahead_by_a_std(paper: Paper) -> Finding:
    parts, leads = [], []
    for table, cell in CELLS.items():
        own, own_std, best, _ = _rivals(paper, table)
        leads.append((best - own).value)
        parts.append((cell, (best - own).fits_within(own_std)))
    return all_of(parts, "lead at most one std", f"worst-tertile ECE, eight cells; largest lead {max(leads):.4f}")


@claim
def behind_by_one_std_sum(paper: Paper) -> Finding:
    parts, ratios = [], []
    for table, cell in CELLS.items():
        own, own_std, best, best_std = _rivals(paper, table)
        ratio = (own - best) / (own_std + best_std)
        ratios.append(ratio.value)
        parts.append((cell, ratio.fits_within(1.5)))
    how = f"distance over the sum of the two stds; largest {max(ratios):.2f}, up to 1.5 counts as roughly 1"
    return all_of(parts, "within roughly 1", how)
