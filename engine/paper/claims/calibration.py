"""Claims about the main calibration table and the worst-tertile ECE."""

from __future__ import annotations

import math
from itertools import combinations, permutations

from engine.paper.claims.compare import bands_overlap, marks, quoted, reachable, repeats, show, within_band
from engine.paper.claims.names import AR_CONDCAL, BINNING, CALIBRATION_COLUMNS, CELLS, KERNEL_FAMILY, RAW, TS
from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide
from engine.paper.claims.rounding import Rounded, exactly

TOPIC = Topic("Main calibration table")

_TABLE, _LABEL = "calibration", "tab:calibration_block_ar"


def _band(paper: Paper, row: str, column: str) -> tuple[Rounded, Rounded]:
    return paper.value(_TABLE, row, column), paper.std(_TABLE, row, column)


@TOPIC.claim("ECE of six methods, in percent", "sec:rq3")
def ece_in_percent(paper: Paper) -> Finding:
    rows = paper.said_columns("ECE in percent")
    quotes = [("ECE in percent", row, _TABLE, row, "ECE") for row in rows]
    return repeats(paper, quotes, "100 times the cells of tab:calibration_block_ar", scale=100)


@TOPIC.claim("Worst-tertile ECE of the kernel family, in percent", "sec:rq3")
def worst_tertile_in_percent(paper: Paper) -> Finding:
    said = "worst-tertile ECE in percent"
    quotes = [(said, row, _TABLE, row, "Worst-tertile ECE") for row in paper.said_columns(said)]
    return repeats(paper, quotes, "100 times the cells of tab:calibration_block_ar", scale=100)


@TOPIC.claim("Bold and underlined numbers of the main table are the best and second best", _LABEL)
def main_table_marks(paper: Paper) -> Finding:
    return marks(paper, _TABLE, CALIBRATION_COLUMNS, skip={RAW})


@TOPIC.claim("AR-CondCal does not change a prediction", "sec:ar-condcal")
def accuracy_is_kept(paper: Paper) -> Finding:
    change, spread = _band(paper, AR_CONDCAL, "ΔAcc@1 (%)")
    return decide(
        change.may_equal(0.0) and spread.may_equal(0.0),
        "0",
        f"{show(change, 2)} ± {show(spread, 2)}",
        "change of accuracy",
    )


@TOPIC.claim(
    "Temperature scaling and ensemble temperature scaling have the same ECE and standard deviation",
    "fig:bench-main-full",
)
def ts_and_ets_std(paper: Paper) -> Finding:
    stated = paper.said("std of TS and ETS")
    parts = [(row, stated.may_equal(paper.std(_TABLE, row, "ECE"))) for row in (TS, "Ensemble TS")]
    parts.append(("equal ECE", paper.value(_TABLE, TS, "ECE").may_equal(paper.value(_TABLE, "Ensemble TS", "ECE"))))
    return all_of(parts, f"± {show(stated, 4)}", "against tab:calibration_block_ar")


@TOPIC.claim("The ECEs of the kernel family lie within each other's bands of one standard deviation", "fig:bench-main")
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


@TOPIC.claim("The worst-tertile ECEs of the kernel family differ by about 0.003 at most", "fig:bench-main")
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


@TOPIC.claim(
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


@TOPIC.claim("The comparison has 14 calibrators", "fig:bench-main")
def number_of_methods(paper: Paper) -> Finding:
    rows = [row for row in paper.rows(_TABLE) if row != RAW]
    stated = paper.said_count("methods")
    return decide(
        len(rows) == stated,
        str(stated),
        str(len(rows)),
        "rows of tab:calibration_block_ar besides the uncalibrated one",
    )


@TOPIC.claim("Both internal comparators are in the main table", "app:internal-baselines")
def internal_comparators_listed(paper: Paper) -> Finding:
    names = [paper.said_text("internal comparators", column) for column in ("first", "second")]
    absent = [name for name in names if name not in paper.rows(_TABLE)]
    return decide(
        not absent,
        " and ".join(names),
        f"no row {', '.join(absent)}" if absent else "both listed",
        "row names of tab:calibration_block_ar",
    )


@TOPIC.claim(
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


@TOPIC.claim("The heat map's raw worst-tertile ECE equals the main table's to four decimals", "fig:reliability-2d")
def heat_map_matches_table(paper: Paper) -> Finding:
    cell = paper.cell(_TABLE, RAW, "Worst-tertile ECE")
    said = paper.said("heat map CIFAR-10", "worst")
    return decide(
        said.may_equal(paper.value(_TABLE, RAW, "Worst-tertile ECE")),
        show(said, 4),
        f"{cell.printed} ± {cell.printed_std}",
        "the uncalibrated row of tab:calibration_block_ar (mean over three seeds)",
    )


@TOPIC.claim("The heat map's worst-tertile ECE is the largest of its three tertiles", "fig:reliability-2d")
def heat_map_worst_is_largest(paper: Paper) -> Finding:
    row = "heat map CIFAR-10"
    bands = {band: paper.said(row, band) for band in ("low", "mid", "high")}
    worst = max(bands, key=lambda band: bands[band].value)
    stated = paper.said(row, "worst")
    tertiles = quoted(paper, *((row, band) for band in bands))
    return decide(
        stated.may_equal(bands[worst]), show(stated, 4), f"{worst}: {show(bands[worst], 3)}", f"of {tertiles}"
    )


@TOPIC.claim("The CIFAR-100 heat map's worst tertile can be a seed of that cell", "fig:reliability-2d")
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


@TOPIC.claim(
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
