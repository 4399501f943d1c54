"""Claims about paired changes of the proper scores and about the supplementary metrics."""

import math
from itertools import pairwise

from engine.metrics.mechanism import spearman
from engine.paper.claims.compare import column_follows, marks, same, show
from engine.paper.claims.registry import Finding, MissingCell, Paper, all_of, claim, decide, register
from engine.paper.claims.rounding import Rounded, exactly, largest_std, ordered
from engine.paper.published import AR_CONDCAL, RAW, SUPPLEMENT_NAMES, TS

_PAIRED, _MAIN, _MORE = "paired_deltas", "calibration", "supplementary_metrics"
_SHOWN = (TS, "BBQ", "RCMMC", SUPPLEMENT_NAMES[AR_CONDCAL])


def _paired(paper: Paper, score: str) -> Finding:
    def change(paper: Paper, row: str) -> Rounded:
        return paper.value(_MAIN, row, score) - paper.value(_MAIN, RAW, score)

    how = "the mean of paired changes is the change of the means in tab:calibration_block_ar"
    stated = f"TS {paper.cell(_PAIRED, TS, f'Δ{score}').printed}"
    how = f"{how} (TS: {show(change(paper, TS), 3)})"
    return column_follows(paper, _PAIRED, f"Δ{score}", change, stated, how)


for _score in ("NLL", "Brier"):
    register(f"paired_{_score.lower()}", _paired, _score)
register("paired_marks", marks, _PAIRED, ("ΔNLL", "ΔBrier"))


@claim
def paired_order(paper: Paper) -> Finding:
    order = ["Vector Scaling", "RCMMC", "Classwise TS"]
    others = [row for row in paper.rows(_PAIRED) if row not in order]
    parts = []
    for column in ("ΔNLL", "ΔBrier"):
        values = {row: paper.value(_PAIRED, row, column) for row in (*order, *others)}
        pairs = [*pairwise(order), *((order[-1], other) for other in others)]
        parts += [(f"{column} {one} before {other}", values[one].may_be_at_most(values[other])) for one, other in pairs]
    return all_of(parts, ", ".join(order))


@claim
def ar_condcal_paired(paper: Paper) -> Finding:
    said = "AR-CondCal paired NLL"
    value, spread = paper.said(said), paper.said(said, "std")
    cell = (_PAIRED, AR_CONDCAL, "ΔNLL")
    holds = value.may_equal(paper.value(*cell)) and spread.may_equal(paper.std(*cell))
    return decide(holds, f"{show(value, 3)} ± {show(spread, 4)}", paper.shown(*cell))


register(
    "ar_condcal_short_of_vs",
    same,
    "AR-CondCal paired NLL",
    "short of Vector Scaling",
    lambda paper: paper.value(_PAIRED, AR_CONDCAL, "ΔNLL") - paper.value(_PAIRED, "Vector Scaling", "ΔNLL"),
)


@claim
def ar_condcal_paired_std(paper: Paper) -> Finding:
    stds = {row: paper.std(_PAIRED, row, "ΔNLL") for row in paper.rows(_PAIRED)}
    rank = 1 + sum(std.surely_below(stds[AR_CONDCAL]) for std in stds.values())
    return decide(rank <= 3, "one of the smallest", f"rank {rank} of {len(stds)}")


@claim
def paired_std_band(paper: Paper) -> Finding:
    low, high = (paper.said("std band of paired changes", end) for end in ("low", "high"))
    stds = ordered(paper.std(_PAIRED, row, column) for row in paper.rows(_PAIRED) for column in ("ΔNLL", "ΔBrier"))
    inside = all(low.may_be_at_most(std) and std.may_be_at_most(high) for std in stds)
    stated, found = f"{show(low, 3)} to {show(high, 3)}", f"{show(stds[0], 4)} to {show(stds[-1], 4)}"
    return decide(inside, stated, found)


register("raw_nll_std", same, "std of raw NLL", "value", lambda paper: paper.std("raw_summary", "Block-AR", "NLL"))


@claim
def paired_std_two_orders(paper: Paper) -> Finding:
    raw, times = paper.said("std of raw NLL"), paper.said("std band of paired changes", "times smaller").value
    ratios = ordered(raw / paper.std(_PAIRED, row, "ΔNLL") for row in paper.rows(_PAIRED))
    # The nearest power of ten is that order of magnitude.
    holds = all(exactly(times / math.sqrt(10)).may_be_at_most(ratio) for ratio in ratios)
    return decide(
        holds,
        f"about {times:g} times smaller",
        f"{show(ratios[0], 0)} to {show(ratios[-1], 0)} times smaller",
        f"{show(raw, 2)} over each standard deviation of ΔNLL; at least 100 / sqrt(10) would do",
    )


register("supplementary_marks", marks, _MORE, ("MCE", "Classwise ECE", "SmoothECE"), {RAW})
register(
    "mce_std_in_caption",
    same,
    "std of MCE AR-CondCal",
    "value",
    lambda paper: paper.std(_MORE, SUPPLEMENT_NAMES[AR_CONDCAL], "MCE"),
)


@claim
def supplementary_stds_possible(paper: Paper) -> Finding:
    cells = [(_MORE, row, column) for row in paper.rows(_MORE) for column in paper.columns(_MORE)]
    parts = [
        (f"{' '.join(cell[1:])} {paper.shown(*cell)}", spread.may_be_at_most(largest_std(centre, 3)))
        for cell in cells
        for centre, spread in [paper.band(*cell)]
    ]
    return all_of(parts, "mean ± std over three seeds")


@claim
def mce_at_least_ece(paper: Paper) -> Finding:
    parts = [
        (row, paper.value(_MAIN, row, "ECE").may_be_at_most(paper.value(_MORE, SUPPLEMENT_NAMES.get(row, row), "MCE")))
        for row in paper.rows(_MAIN)
    ]
    return all_of(parts, "MCE >= ECE")


@claim
def smooth_ece_ranks_alike(paper: Paper) -> Finding:
    rows = [row for row in paper.rows(_MAIN) if row not in (RAW, "Vector Scaling")]
    ece = [paper.value(_MAIN, row, "ECE").value for row in rows]
    smooth = [paper.value(_MORE, SUPPLEMENT_NAMES.get(row, row), "SmoothECE").value for row in rows]
    correlation = spearman(ece, smooth)
    if correlation is None:
        raise MissingCell("a column of equal numbers has no ranks")
    return decide(
        correlation.value > 0.5,
        "consistent ranks",
        f"rank correlation {correlation.value:.2f}",
        f"Spearman correlation of the two columns over {len(rows)} calibrators; above 0.5 counts as consistent",
    )


@claim
def bbq_wins_smooth_ece(paper: Paper) -> Finding:
    values = paper.numbers(_MORE, "SmoothECE", _SHOWN)
    better = [f"{row} {show(value, 4)}" for row, value in values.items() if value.surely_below(values["BBQ"])]
    return decide(not better, "BBQ lowest", f"BBQ {show(values['BBQ'], 4)}; lower: {', '.join(better) or 'none'}")


@claim
def ar_condcal_mce_advantage(paper: Paper) -> Finding:
    values = paper.numbers(_MORE, "MCE", _SHOWN)
    ours = values[SUPPLEMENT_NAMES[AR_CONDCAL]]
    found = ", ".join(f"{row} {show(value, 4)}" for row, value in values.items())
    holds = all(ours.may_be_at_most(value) for value in values.values())
    return decide(holds, "AR-CondCal lowest", found)
