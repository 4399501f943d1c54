"""Claims about the main calibration table, the worst-tertile ECE and the tables of the other cells."""

import math
from itertools import combinations, permutations

from engine.paper.claims.compare import bands_overlap, marks, quoted, reachable, repeats, same_count, show, within_band
from engine.paper.claims.registry import Finding, Paper, Topic, all_of, decide
from engine.paper.claims.rounding import Rounded, exactly, ordered
from engine.paper.published import AR_CONDCAL, BINNING, CALIBRATION_COLUMNS, CELLS, KERNEL_FAMILY, RAW, TS

CALIBRATION = Topic("Main calibration table")

_BANDS = ("low", "mid", "high")
_TABLE, _LABEL, _WORST = "calibration", "tab:calibration_block_ar", "Worst-tertile ECE"


def _percent(paper: Paper, said: str, column: str) -> Finding:
    quotes = [(said, row, _TABLE, row, column) for row in paper.said_columns(said)]
    return repeats(paper, quotes, "100 times the cells of tab:calibration_block_ar", scale=100)


CALIBRATION.register(_percent, "ece_in_percent", "ECE of six methods, in percent", "sec:rq3", "ECE in percent", "ECE")
CALIBRATION.register(
    _percent, "worst_tertile_in_percent", "Worst-tertile ECE of the kernel family, in percent", "sec:rq3",
    "worst-tertile ECE in percent", _WORST,
)  # fmt: skip
CALIBRATION.register(
    marks, "main_table_marks", "Bold and underlined numbers of the main table are the best and second best", _LABEL,
    _TABLE, CALIBRATION_COLUMNS, {RAW},
)  # fmt: skip


@CALIBRATION.claim("AR-CondCal does not change a prediction", "sec:ar-condcal")
def accuracy_is_kept(paper: Paper) -> Finding:
    change, spread = paper.band(_TABLE, AR_CONDCAL, "ΔAcc@1 (%)")
    kept = change.may_equal(0.0) and spread.may_equal(0.0)
    return decide(kept, "0", f"{show(change, 2)} ± {show(spread, 2)}", "change of accuracy")


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
    bands = {row: paper.band(_TABLE, row, "ECE") for row in KERNEL_FAMILY}
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
    values = ordered(paper.numbers(_TABLE, _WORST, KERNEL_FAMILY).values())
    spread, stated = values[-1] - values[0], paper.said("worst-tertile range of the kernel family")
    how = "largest minus smallest of the three means"
    return decide(spread.fits_within(stated), f"about {show(stated, 3)}", show(spread, 4), how)


@CALIBRATION.claim(
    "Kernel and binning methods have a worst-tertile standard deviation an order of magnitude above that of TS and ETS",
    "sec:rq3",
)
def worst_tertile_std_ratio(paper: Paper) -> Finding:
    times = paper.said("worst-tertile std of kernel and binning methods over TS", "times")
    reference = paper.std(_TABLE, TS, _WORST)
    ratios = ordered(paper.std(_TABLE, row, _WORST) / reference for row in (*BINNING, *KERNEL_FAMILY))
    # The nearest power of ten is that order of magnitude: a ratio counts from 10 / sqrt(10) on.
    holds = all(exactly(times.value / math.sqrt(10)).may_be_at_most(ratio) for ratio in ratios)
    return decide(
        holds,
        f"about {show(times, 0)} times",
        f"{show(ratios[0], 1)} to {show(ratios[-1], 1)} times",
        "standard deviations of the kernel family, HB and BBQ over that of TS; at least 10 / sqrt(10) would do",
    )


CALIBRATION.register(
    same_count, "number_of_methods", "The comparison has 14 calibrators", "fig:bench-main", "methods", "value",
    lambda paper: sum(row != RAW for row in paper.rows(_TABLE)),
    "rows of tab:calibration_block_ar besides the uncalibrated one",
)  # fmt: skip


@CALIBRATION.claim("Both internal comparators are in the main table", "app:internal-baselines")
def internal_comparators_listed(paper: Paper) -> Finding:
    names = [paper.said_text("internal comparators", column) for column in ("first", "second")]
    absent = [name for name in names if name not in paper.rows(_TABLE)]
    found = f"no row {', '.join(absent)}" if absent else "both listed"
    return decide(not absent, " and ".join(names), found, "row names of tab:calibration_block_ar")


@CALIBRATION.claim(
    "The worst tertile is never better calibrated than the whole set, in any calibration table", "sec:method-arcondcal"
)
def worst_tertile_at_least_global(paper: Paper) -> Finding:
    # A mixture's ECE is at most the mixture of its parts' ECEs, hence at most the largest of them, seed by seed.
    parts = [
        (f"{table}: {row}", ece.may_be_at_most(paper.value(table, row, _WORST)))
        for table in CELLS
        for row, ece in paper.numbers(table, "ECE").items()
    ]
    return all_of(parts, "worst-tertile ECE >= ECE", "every row of the eight calibration tables")


@CALIBRATION.claim(
    "The heat map's raw worst-tertile ECE equals the main table's to four decimals", "fig:reliability-2d"
)
def heat_map_matches_table(paper: Paper) -> Finding:
    said, how = paper.said("heat map CIFAR-10", "worst"), "the uncalibrated row of tab:calibration_block_ar"
    holds = said.may_equal(paper.value(_TABLE, RAW, _WORST))
    return decide(holds, show(said, 4), paper.shown(_TABLE, RAW, _WORST), f"{how} (mean over three seeds)")


def _heat_map(paper: Paper, data: str) -> tuple[str, Rounded]:
    """The tertile with the largest ECE in the caption, and that ECE."""
    bands = {band: paper.said(f"heat map {data}", band) for band in _BANDS}
    return max(bands.items(), key=lambda item: item[1].value)


@CALIBRATION.claim("The heat map's worst-tertile ECE is the largest of its three tertiles", "fig:reliability-2d")
def heat_map_worst_is_largest(paper: Paper) -> Finding:
    band, largest = _heat_map(paper, "CIFAR-10")
    stated = paper.said("heat map CIFAR-10", "worst")
    tertiles = quoted(paper, *(("heat map CIFAR-10", name) for name in _BANDS))
    return decide(stated.may_equal(largest), show(stated, 4), f"{band}: {show(largest, 3)}", f"of {tertiles}")


@CALIBRATION.claim("The CIFAR-100 heat map's worst tertile can be a seed of that cell", "fig:reliability-2d")
def heat_map_cifar100(paper: Paper) -> Finding:
    worst, cell = _heat_map(paper, "CIFAR-100")[1], ("calibration_swin_c100_block", RAW, _WORST)
    holds = reachable(worst, *paper.band(*cell), 3)
    return decide(holds, show(worst, 3), paper.shown(*cell), "one of three seeds with this mean and std")


@CALIBRATION.claim(
    "The worst tertile of CIFAR-100 is at the other end of the routing axis from that of CIFAR-10", "fig:reliability-2d"
)
def heat_map_ends(paper: Paper) -> Finding:
    first, second = (_heat_map(paper, data)[0] for data in ("CIFAR-10", "CIFAR-100"))
    stated = paper.said_text("heat map CIFAR-100", "opposite end")
    return decide(
        first == stated and second == "low",
        f"low, opposite to {stated}",
        f"CIFAR-10: {first}; CIFAR-100: {second}",
        "largest of the three tertile ECEs in the caption, for each data set",
    )


OTHER_CELLS = Topic("Calibration of the other cells")

for _table in list(CELLS)[1:]:
    OTHER_CELLS.register(
        marks, f"marks_{_table.removeprefix('calibration_')}",
        f"Bold and underlined numbers of {CELLS[_table]} are the best and second best", "tab:cal-per-cell-combined",
        _table, CALIBRATION_COLUMNS, {RAW},
    )  # fmt: skip
for _place, _where in (("main text", "sec:rq3"), ("appendix", "app:cross-cell-sweep")):
    OTHER_CELLS.register(
        same_count, f"additional_cells_{_place.split()[0]}", f"Number of further three-seed cells, in the {_place}",
        _where, "additional cells", _place, lambda paper: sum(bool(paper.rows(table)) for table in list(CELLS)[1:]),
        "cells of tab:cal-per-cell-combined",
    )  # fmt: skip


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


def _rivals(paper: Paper, table: str) -> tuple[Rounded, Rounded, Rounded, Rounded]:
    """Worst-tertile ECE and its std: of AR-CondCal, then of the best other method."""
    others = [row for row in paper.rows(table) if row not in (RAW, AR_CONDCAL)]
    best = min(others, key=lambda row: paper.value(table, row, _WORST).value)
    return *paper.band(table, AR_CONDCAL, _WORST), *paper.band(table, best, _WORST)


@OTHER_CELLS.claim(
    "AR-CondCal is never ahead of the strongest other method by more than its own standard deviation",
    "app:cross-cell-sweep",
)
def never_ahead_by_a_std(paper: Paper) -> Finding:
    parts, leads = [], []
    for table, cell in CELLS.items():
        own, own_std, best, _ = _rivals(paper, table)
        leads.append((best - own).value)
        parts.append((cell, (best - own).fits_within(own_std)))
    return all_of(parts, "lead at most one std", f"worst-tertile ECE, eight cells; largest lead {max(leads):.4f}")


@OTHER_CELLS.claim(
    "AR-CondCal is behind the best worst-tertile ECE by roughly one sum of the two standard deviations",
    "app:cross-cell-sweep",
)
def behind_by_one_std_sum(paper: Paper) -> Finding:
    parts, ratios = [], []
    for table, cell in CELLS.items():
        own, own_std, best, best_std = _rivals(paper, table)
        ratio = (own - best) / (own_std + best_std)
        ratios.append(ratio.value)
        parts.append((cell, ratio.fits_within(1.5)))
    how = f"distance over the sum of the two stds; largest {max(ratios):.2f}, up to 1.5 counts as roughly 1"
    return all_of(parts, "within roughly 1", how)
