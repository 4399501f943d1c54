"""Claims about the 30-run sweep: counts, spans, and the rows whose seeds are listed one by one."""

from functools import partial

from engine.paper.claims.compare import decision_fits, mean_and_std, quoted, reachable, repeats, same_count, show
from engine.paper.claims.registry import Finding, Paper, Topic, all_of, decide
from engine.paper.claims.rounding import exactly, mean, ordered
from engine.paper.published import SEED_ROWS, STATEMENTS

TOPIC = Topic("The 30-run sweep")

_TABLE, _LABEL, _SEEDS = "ar_sweep", "tab:ar-sweep", "per_seed_diagnostics"
_SWIN = {"Block-AR": "Sw-T / C-10 / Block-AR", "Full-AR": "Sw-T / C-10 / Full-AR"}


def _sum(column: str, paper: Paper) -> int:
    return sum(paper.count(_TABLE, row, column) for row in paper.rows(_TABLE))


TOPIC.register(
    same_count, "sweep_runs", "The sweep has 30 runs", "sec:rq2", "sweep", "runs", partial(_sum, "Runs tested"),
    "sum of the runs tested over the rows of tab:ar-sweep",
)  # fmt: skip
TOPIC.register(
    same_count, "sweep_rejections", "One run of the sweep rejects", "sec:rq2", "sweep", "rejections",
    partial(_sum, "Rejections"), "sum of the rejections over the rows of tab:ar-sweep",
)  # fmt: skip


@TOPIC.claim("No cell but Swin-Tiny / CIFAR-10 / Block-AR has a rejection", _LABEL)
def one_cell_rejects(paper: Paper) -> Finding:
    rejecting = [row for row in paper.rows(_TABLE) if paper.count(_TABLE, row, "Rejections")]
    holds = rejecting == [_SWIN["Block-AR"]]
    return decide(holds, "one cell, 1/3", ", ".join(rejecting) or "none", "rows with rejections")


@TOPIC.claim("The smallest permutation p of the sweep", "sec:rq2")
def smallest_p(paper: Paper) -> Finding:
    stated = paper.said("sweep", "smallest p")
    row, found = min(paper.numbers(_TABLE, "Perm. p").items(), key=lambda item: item[1].value)
    return decide(stated.may_equal(found), show(stated, 3), f"{show(found, 3)} ({row})", "smallest p of the rows")


@TOPIC.claim("A cell rejects exactly when its printed p is at most 5 %", _LABEL)
def rejections_follow_from_p(paper: Paper) -> Finding:
    level = paper.said("level").value
    parts = [
        (row, decision_fits(paper.count(_TABLE, row, "Rejections") > 0, p, level))
        for row, p in paper.numbers(_TABLE, "Perm. p").items()
    ]
    return all_of(parts, "p beside rej/n", f"the printed p read as the smallest of the row, against {level:g}")


@TOPIC.claim("Rejections expected by chance in 30 tests at 5 %", "sec:rq1")
def expected_rejections(paper: Paper) -> Finding:
    expected = _sum("Runs tested", paper) * paper.said("level").value
    stated = paper.said("expected rejections")
    return decide(stated.may_equal(expected), show(stated, 1), f"{expected:g}", "runs of the sweep times the level")


@TOPIC.claim("Bonferroni level, and the smallest p does not pass it", "sec:rq1")
def bonferroni(paper: Paper) -> Finding:
    corrected = paper.said("level").value / _sum("Runs tested", paper)
    stated = paper.said("bonferroni level")
    smallest = ordered(paper.numbers(_TABLE, "Perm. p").values())[0]
    return decide(
        stated.may_equal(corrected) and not smallest.surely_below(corrected),
        f"{show(stated, 4)}, not passed by {show(paper.said('sweep', 'smallest p'), 3)}",
        f"{corrected:.5f}; smallest p {show(smallest, 3)}",
        "level over the number of runs",
    )


def seeds_aggregated(paper: Paper, table: str, row: str, variant: str, column: str) -> Finding:
    """Mean and standard deviation in a table against the three Swin-Tiny / CIFAR-10 seeds of a variant."""
    values = list(paper.numbers(_SEEDS, column, SEED_ROWS[variant]).values())
    return mean_and_std(paper, table, row, column, values, "three seeds of tab:perseed-swin-c10-diagnostic")


for _variant, _row in _SWIN.items():
    for _column, _key in (("Max gap", "max_gap"), ("Wt. gap", "weighted_gap")):
        TOPIC.register(
            seeds_aggregated, f"sweep_{_key}_{_variant[:-3].lower()}",
            f"{_column} of Swin-Tiny / CIFAR-10 / {_variant}: mean and standard deviation of its three seeds",
            _LABEL, _TABLE, _row, _variant, _column,
        )  # fmt: skip


def _seed_p(paper: Paper, variant: str) -> Finding:
    listed = ordered(paper.numbers(_SEEDS, "Perm. p", SEED_ROWS[variant]).values())
    summaries = {"smallest": listed[0], "median": listed[1], "mean": mean(listed)}
    printed = paper.value(_TABLE, _SWIN[variant], "Perm. p")
    return decide(
        any(printed.may_equal(summary) for summary in summaries.values()),
        paper.cell(_TABLE, _SWIN[variant], "Perm. p").printed,
        ", ".join(f"{name} {show(summary, 3)}" for name, summary in summaries.items()),
        f"three seeds of tab:perseed-swin-c10-diagnostic ({', '.join(show(p, 3) for p in listed)}); any would do",
    )


for _variant in _SWIN:
    TOPIC.register(
        _seed_p, f"sweep_p_{_variant[:-3].lower()}",
        f"Permutation p of Swin-Tiny / CIFAR-10 / {_variant} in the sweep summarises its three seeds", _LABEL, _variant,
    )  # fmt: skip


@TOPIC.claim("The caption's example of a max gap with a large standard deviation is the Swin-Tiny Block-AR row", _LABEL)
def caption_example(paper: Paper) -> Finding:
    here, there = (STATEMENTS, "sweep caption example", "value"), (_TABLE, _SWIN["Block-AR"], "Max gap")
    said, spread = paper.band(*here)
    how = "the caption gives one pair, the row of the same table another"
    return decide(paper.agree(here, there), f"{show(said, 3)} ± {show(spread, 3)}", paper.shown(*there), how)


def _span(paper: Paper, column: str, statement: str) -> Finding:
    """Every listed run lies inside the span, and each end can be the value of some run."""
    low, high = paper.said(statement, "low"), paper.said(statement, "high")
    ends = {"low": False, "high": False}
    outside = []
    for row, centre in paper.numbers(_TABLE, column).items():
        runs = paper.count(_TABLE, row, "Runs tested")
        for name, end in (("low", low), ("high", high)):
            spread = paper.std(_TABLE, row, column) if runs > 1 else exactly(0.0)
            ends[name] |= reachable(end, centre, spread, runs)
        if centre.surely_below(low) or high.surely_below(centre):
            outside.append(row)
    listed = paper.numbers(_SEEDS, column, [row for rows in SEED_ROWS.values() for row in rows])
    outside += [row for row, value in listed.items() if value.surely_below(low) or high.surely_below(value)]
    problems = [f"{row} lies outside" for row in outside]
    problems += [f"no row can hold the {name} end" for name, found in ends.items() if not found]
    return decide(
        not problems,
        f"{show(low, 3)} to {show(high, 3)}",
        "; ".join(problems) or "all rows and listed seeds inside, both ends reachable",
        "an end is reachable if some row's mean and standard deviation allow a run with that value",
    )


TOPIC.register(
    _span, "max_gap_span", "Max gaps of the runs span 0.049 to 0.500", "sec:rq2", "Max gap", "sweep span of max gap"
)
TOPIC.register(
    _span, "weighted_gap_span", "Weighted gaps of the runs span 0.010 to 0.035", "sec:rq2", "Wt. gap",
    "sweep span of weighted gap",
)  # fmt: skip


@TOPIC.claim("Permutation p of the runs span 0.042 to 0.949", "sec:rq2")
def p_span(paper: Paper) -> Finding:
    low, high = paper.said("sweep span of p", "low"), paper.said("sweep span of p", "high")
    seeds = paper.numbers(_SEEDS, "Perm. p", [row for rows in SEED_ROWS.values() for row in rows])
    listed = ordered([*paper.numbers(_TABLE, "Perm. p").values(), *seeds.values()])
    inside = all(not p.surely_below(low) and not high.surely_below(p) for p in listed)
    stated = f"{show(low, 3)} to {show(high, 3)}"
    found = f"{show(listed[0], 3)} to {show(listed[-1], 3)} among the listed"
    if inside and any(low.may_equal(p) for p in listed) and not any(high.may_equal(p) for p in listed):
        how = "the lower end is listed; the run with the largest p is in no table"
        return Finding(stated, found, "not checkable", how)
    return decide(inside, stated, found, "p of the rows and of the listed seeds")


@TOPIC.claim("The weighted gap varies less over seeds than the max gap in every three-seed cell", _LABEL)
def weighted_gap_is_tighter(paper: Paper) -> Finding:
    rows = [row for row in paper.rows(_TABLE) if paper.count(_TABLE, row, "Runs tested") > 1]
    parts = [(row, paper.std(_TABLE, row, "Wt. gap").may_be_at_most(paper.std(_TABLE, row, "Max gap"))) for row in rows]
    return all_of(parts, "markedly tighter", "standard deviation of the weighted gap below that of the max gap")


@TOPIC.claim("Which variant has the larger max gap changes between the Swin-Tiny seeds", "sec:rq2")
def swin_order_changes(paper: Paper) -> Finding:
    block, full = (paper.numbers(_SEEDS, "Max gap", SEED_ROWS[name]).values() for name in ("Block-AR", "Full-AR"))
    signs = [one.value > other.value for one, other in zip(block, full, strict=True)]
    larger = ", ".join("Block-AR" if sign else "Full-AR" for sign in signs)
    return decide(len(set(signs)) == 2, "order not kept", f"larger at seeds 0, 1, 2: {larger}", "max gap seed by seed")


@TOPIC.claim("DeiT-Small seed 0 (0.095 and 0.124) orders the variants otherwise than the three-seed means", "sec:rq2")
def deit_order_changes(paper: Paper) -> Finding:
    rows = {variant: f"DeiT-S / C-10 / {variant}" for variant in ("Block-AR", "Full-AR")}
    said = {variant: paper.said("DeiT-Small seed 0 max gap", variant) for variant in rows}
    bands = {variant: paper.band(_TABLE, row, "Max gap") for variant, row in rows.items()}
    parts = [(f"{name} possible beside its row", reachable(said[name], *bands[name], 3)) for name in rows]
    parts.append(("Block-AR below Full-AR at seed 0", said["Block-AR"].may_be_at_most(said["Full-AR"])))
    parts.append(("Block-AR above Full-AR on average", bands["Full-AR"][0].may_be_at_most(bands["Block-AR"][0])))
    stated = quoted(paper, *(("DeiT-Small seed 0 max gap", variant) for variant in rows))
    return all_of(parts, stated, "against the DeiT-S / C-10 rows of tab:ar-sweep")


TOPIC.register(
    repeats, "vit_pilot_gaps", "Max gaps of the two ViT-B/16 pilots", "app:cross-arch-multiseed",
    [("ViT pilot max gap", variant, _TABLE, f"ViT-B/16 / C-10 / {variant}", "Max gap") for variant in _SWIN],
    "against tab:ar-sweep",
)  # fmt: skip


@TOPIC.claim(
    "Both ViT-B/16 pilots pass the threshold for the max gap that was fixed in advance", "app:cross-arch-multiseed"
)
def vit_pilot_threshold(paper: Paper) -> Finding:
    threshold = paper.said("ViT pilot max gap", "threshold").value
    gaps = {variant: paper.value(_TABLE, f"ViT-B/16 / C-10 / {variant}", "Max gap") for variant in _SWIN}
    parts = [(variant, not gap.surely_below(threshold)) for variant, gap in gaps.items()]
    return all_of(parts, f"at least {threshold:g}", "max gaps of tab:ar-sweep")
