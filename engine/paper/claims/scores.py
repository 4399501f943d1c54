"""Claims about paired changes of the proper scores and about the supplementary metrics."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

from engine.metrics.mechanism import spearman
from engine.paper.claims.compare import marks, same, show
from engine.paper.claims.registry import AR_CONDCAL, RAW, TS, Finding, MissingCell, Paper, Topic, all_of, decide
from engine.paper.claims.rounding import exactly, largest_std

TOPIC = Topic("Proper scores and supplementary metrics")

_PAIRED, _PAIRED_LABEL, _MAIN, _MORE, _MORE_LABEL = (
    "paired_deltas",
    "tab:paired-delta",
    "calibration",
    "supplementary_metrics",
    "tab:cwece-supp",
)
_SUPPLEMENT_NAMES = {
    "Conf-only": "NW (Conf only)",
    "Conf + PredEntropy": "NW (Conf + Pred. Ent.)",
    AR_CONDCAL: "NW (Conf + Routing): AR-CondCal",
}
"""The kernel family goes by other names in the supplementary table."""


def _paired(score: str, paper: Paper) -> Finding:
    def fits(row: str) -> bool:
        difference = paper.value(_MAIN, row, score) - paper.value(_MAIN, RAW, score)
        return paper.value(_PAIRED, row, f"Δ{score}").may_equal(difference)

    rows = paper.rows(_PAIRED)
    example = paper.value(_MAIN, TS, score) - paper.value(_MAIN, RAW, score)
    return all_of(
        ((row, fits(row)) for row in rows),
        f"TS {paper.cell(_PAIRED, TS, f'Δ{score}').printed}",
        f"the mean of paired changes is the change of the means in tab:calibration_block_ar (TS: {show(example, 3)})",
    )


for _score in ("NLL", "Brier"):
    TOPIC.register(
        f"paired_{_score.lower()}",
        f"Mean paired changes of {_score} fit the mean {_score} of the main table",
        _PAIRED_LABEL,
        partial(_paired, _score),
    )


@TOPIC.claim("Bold and underlined paired changes are the most negative and the next", _PAIRED_LABEL)
def paired_marks(paper: Paper) -> Finding:
    return marks(paper, _PAIRED, ("ΔNLL", "ΔBrier"), skip=())


@TOPIC.claim("Vector Scaling improves both scores most, then RCMMC, then Classwise TS", "app:paired-delta")
def paired_order(paper: Paper) -> Finding:
    order = ["Vector Scaling", "RCMMC", "Classwise TS"]
    others = [row for row in paper.rows(_PAIRED) if row not in order]
    parts = []
    for column in ("ΔNLL", "ΔBrier"):
        values = {row: paper.value(_PAIRED, row, column) for row in (*order, *others)}
        pairs = [*pairwise(order), *((order[-1], other) for other in others)]
        parts += [(f"{column} {one} before {other}", values[one].may_be_at_most(values[other])) for one, other in pairs]
    return all_of(parts, ", ".join(order), "means of tab:paired-delta, most negative first")


@TOPIC.claim("Paired NLL change of AR-CondCal and its standard deviation", "app:paired-delta")
def ar_condcal_paired(paper: Paper) -> Finding:
    said = "AR-CondCal paired NLL"
    value, spread = paper.said(said), paper.said(said, "std")
    cell = paper.cell(_PAIRED, AR_CONDCAL, "ΔNLL")
    return decide(
        value.may_equal(paper.value(_PAIRED, AR_CONDCAL, "ΔNLL"))
        and spread.may_equal(paper.std(_PAIRED, AR_CONDCAL, "ΔNLL")),
        f"{show(value, 3)} ± {show(spread, 4)}",
        f"{cell.printed} ± {cell.printed_std}",
        "against tab:paired-delta",
    )


@TOPIC.claim("How much smaller the NLL improvement of AR-CondCal is than that of Vector Scaling", "app:paired-delta")
def ar_condcal_short_of_vs(paper: Paper) -> Finding:
    said = paper.said("AR-CondCal paired NLL", "short of Vector Scaling")
    found = paper.value(_PAIRED, AR_CONDCAL, "ΔNLL") - paper.value(_PAIRED, "Vector Scaling", "ΔNLL")
    return same(show(said, 3), said, found, "difference of the two ΔNLL of tab:paired-delta")


@TOPIC.claim("The paired NLL change of AR-CondCal has one of the smallest standard deviations", "app:paired-delta")
def ar_condcal_paired_std(paper: Paper) -> Finding:
    stds = {row: paper.std(_PAIRED, row, "ΔNLL") for row in paper.rows(_PAIRED)}
    rank = 1 + sum(std.surely_below(stds[AR_CONDCAL]) for std in stds.values())
    return decide(rank <= 3, "one of the smallest", f"rank {rank} of {len(stds)}", "rank from the smallest; 3 or less")


@TOPIC.claim("The standard deviations of the paired changes lie between 0.001 and 0.015", "app:paired-delta")
def paired_std_band(paper: Paper) -> Finding:
    low, high = (paper.said("std band of paired changes", end) for end in ("low", "high"))
    stds = [paper.std(_PAIRED, row, column) for row in paper.rows(_PAIRED) for column in ("ΔNLL", "ΔBrier")]
    inside = all(low.may_be_at_most(std) and std.may_be_at_most(high) for std in stds)
    values = [std.value for std in stds]
    stated = f"{show(low, 3)} to {show(high, 3)}"
    return decide(
        inside, stated, f"{min(values):.4f} to {max(values):.4f}", "all standard deviations of tab:paired-delta"
    )


@TOPIC.claim("Standard deviation of the raw NLL over the seeds of Swin-Tiny / CIFAR-10 / Block-AR", "app:paired-delta")
def raw_nll_std(paper: Paper) -> Finding:
    said = paper.said("std of raw NLL")
    return same(
        show(said, 2), said, paper.std("raw_summary", "Block-AR", "NLL"), "Block-AR row of tab:seed-variance-raw"
    )


@TOPIC.claim("The paired standard deviations are two orders of magnitude below that of the raw NLL", "app:paired-delta")
def paired_std_two_orders(paper: Paper) -> Finding:
    raw, times = paper.said("std of raw NLL"), paper.said("std band of paired changes", "times smaller").value
    ratios = [raw / paper.std(_PAIRED, row, "ΔNLL") for row in paper.rows(_PAIRED)]
    # The nearest power of ten is that order of magnitude.
    holds = all(exactly(times / math.sqrt(10)).may_be_at_most(ratio) for ratio in ratios)
    values = [ratio.value for ratio in ratios]
    return decide(
        holds,
        f"about {times:g} times smaller",
        f"{min(values):.0f} to {max(values):.0f} times smaller",
        f"{show(raw, 2)} over each standard deviation of ΔNLL; at least 100 / sqrt(10) would do",
    )


@TOPIC.claim("Bold and underlined numbers of the supplementary table are the best and second best", _MORE_LABEL)
def supplementary_marks(paper: Paper) -> Finding:
    return marks(paper, _MORE, ("MCE", "Classwise ECE", "SmoothECE"), skip={RAW})


@TOPIC.claim("Standard deviation of the MCE of AR-CondCal quoted in the caption", _MORE_LABEL)
def mce_std_in_caption(paper: Paper) -> Finding:
    said = paper.said("std of MCE AR-CondCal")
    return same(show(said, 2), said, paper.std(_MORE, _SUPPLEMENT_NAMES[AR_CONDCAL], "MCE"), "against tab:cwece-supp")


@TOPIC.claim(
    "Each mean and standard deviation of the supplementary table can belong to three non-negative numbers", _MORE_LABEL
)
def supplementary_stds_possible(paper: Paper) -> Finding:
    parts = [
        (
            f"{row} {column} {paper.cell(_MORE, row, column).printed} ± {paper.cell(_MORE, row, column).printed_std}",
            paper.std(_MORE, row, column).may_be_at_most(largest_std(paper.value(_MORE, row, column), 3)),
        )
        for row in paper.rows(_MORE)
        for column in paper.columns(_MORE)
    ]
    return all_of(
        parts, "mean ± std over three seeds", "three numbers >= 0 have a standard deviation of at most sqrt(3) mean"
    )


@TOPIC.claim("The largest bin error is at least the mean one: MCE is not below ECE", _MORE_LABEL)
def mce_at_least_ece(paper: Paper) -> Finding:
    parts = [
        (row, paper.value(_MAIN, row, "ECE").may_be_at_most(paper.value(_MORE, _SUPPLEMENT_NAMES.get(row, row), "MCE")))
        for row in paper.rows(_MAIN)
    ]
    return all_of(parts, "MCE >= ECE", "means over the same seeds; bins with fewer than 5 samples left aside")


@TOPIC.claim("ECE and SmoothECE rank the calibrators alike, Vector Scaling aside", "app:cwece")
def smooth_ece_ranks_alike(paper: Paper) -> Finding:
    rows = [row for row in paper.rows(_MAIN) if row not in (RAW, "Vector Scaling")]
    ece = [paper.value(_MAIN, row, "ECE").value for row in rows]
    smooth = [paper.value(_MORE, _SUPPLEMENT_NAMES.get(row, row), "SmoothECE").value for row in rows]
    correlation = spearman(ece, smooth)
    if correlation is None:
        raise MissingCell("a column of equal numbers has no ranks")
    return decide(
        correlation.value > 0.5,
        "consistent ranks",
        f"rank correlation {correlation.value:.2f}",
        f"Spearman correlation of the two columns over {len(rows)} calibrators; above 0.5 counts as consistent",
    )


@TOPIC.claim("BBQ has the lowest SmoothECE of the four shown calibrators on every shown cell", "app:cross-cell-sweep")
def bbq_wins_smooth_ece(paper: Paper) -> Finding:
    rows = (TS, "BBQ", "RCMMC", _SUPPLEMENT_NAMES[AR_CONDCAL])
    values = {row: paper.value(_MORE, row, "SmoothECE") for row in rows}
    better = [row for row, value in values.items() if value.surely_below(values["BBQ"])]
    return decide(
        not better,
        "BBQ lowest",
        f"BBQ {show(values['BBQ'], 4)}; lower: "
        + (", ".join(f"{row} {show(values[row], 4)}" for row in better) or "none"),
        "the one cell whose SmoothECE is tabulated, Swin-Tiny / CIFAR-10 / Block-AR (tab:cwece-supp)",
    )


@TOPIC.claim("The MCE advantage of AR-CondCal on Swin-Tiny / CIFAR-10 / Block-AR", "app:cross-cell-sweep")
def ar_condcal_mce_advantage(paper: Paper) -> Finding:
    values = {row: paper.value(_MORE, row, "MCE") for row in (TS, "BBQ", "RCMMC", _SUPPLEMENT_NAMES[AR_CONDCAL])}
    ours = values[_SUPPLEMENT_NAMES[AR_CONDCAL]]
    found = ", ".join(f"{row} {show(value, 4)}" for row, value in values.items())
    holds = all(ours.may_be_at_most(value) for value in values.values())
    return decide(holds, "AR-CondCal lowest", found, "MCE of the four shown calibrators")
