"""Claims about the 30-run sweep: counts, spans, and the rows whose seeds are listed one by one."""

from functools import partial

from engine.paper.claims.compare import decision_fits, mean_and_std, quoted, reachable, repeats, same_count, show
from engine.paper.claims.registry import Finding, Paper, all_of, claim, decide, register
from engine.paper.claims.rounding import exactly, mean, ordered
from engine.paper.published import SEED_ROWS, STATEMENTS

_TABLE, _SEEDS = "ar_sweep", "per_seed_diagnostics"
_SWIN = {"Block-AR": "Sw-T / C-10 / Block-AR", "Full-AR": "Sw-T / C-10 / Full-AR"}


def _sum(column: str, paper: Paper) -> int:
    return sum(paper.count(_TABLE, row, column) for row in paper.rows(_TABLE))


register("sweep_runs", same_count, "sweep", "runs", partial(_sum, "Runs tested"))
register("sweep_rejections", same_count, "sweep", "rejections", partial(_sum, "Rejections"))


@claim
def one_cell_rejects(paper: Paper) -> Finding:
    rejecting = [row for row in paper.rows(_TABLE) if paper.count(_TABLE, row, "Rejections")]
    holds = rejecting == [_SWIN["Block-AR"]]
    return decide(holds, "one cell, 1/3", ", ".join(rejecting) or "none")


@claim
def smallest_p(paper: Paper) -> Finding:
    stated = paper.said("sweep", "smallest p")
    row, found = min(paper.numbers(_TABLE, "Perm. p").items(), key=lambda item: item[1].value)
    return decide(stated.may_equal(found), show(stated, 3), f"{show(found, 3)} ({row})")


@claim
def rejections_follow_from_p(paper: Paper) -> Finding:
    level = paper.said("level").value
    parts = [
        (row, decision_fits(paper.count(_TABLE, row, "Rejections") > 0, p, level))
        for row, p in paper.numbers(_TABLE, "Perm. p").items()
    ]
    return all_of(parts, "p beside rej/n", f"the printed p read as the smallest of the row, against {level:g}")


@claim
def expected_rejections(paper: Paper) -> Finding:
    expected = _sum("Runs tested", paper) * paper.said("level").value
    stated = paper.said("expected rejections")
    return decide(stated.may_equal(expected), show(stated, 1), f"{expected:g}")


@claim
def bonferroni(paper: Paper) -> Finding:
    corrected = paper.said("level").value / _sum("Runs tested", paper)
    stated = paper.said("bonferroni level")
    smallest = ordered(paper.numbers(_TABLE, "Perm. p").values())[0]
    return decide(
        stated.may_equal(corrected) and not smallest.surely_below(corrected),
        f"{show(stated, 4)}, not passed by {show(paper.said('sweep', 'smallest p'), 3)}",
        f"{corrected:.5f}; smallest p {show(smallest, 3)}",
    )


def seeds_aggregated(paper: Paper, table: str, row: str, variant: str, column: str) -> Finding:
    """Mean and standard deviation in a table against the three Swin-Tiny / CIFAR-10 seeds of a variant."""
    values = list(paper.numbers(_SEEDS, column, SEED_ROWS[variant]).values())
    return mean_and_std(paper, table, row, column, values)


for _variant, _row in _SWIN.items():
    for _column, _key in (("Max gap", "max_gap"), ("Wt. gap", "weighted_gap")):
        register(f"sweep_{_key}_{_variant[:-3].lower()}", seeds_aggregated, _TABLE, _row, _variant, _column)


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
    register(f"sweep_p_{_variant[:-3].lower()}", _seed_p, _variant)


@claim
def caption_example(paper: Paper) -> Finding:
    here, there = (STATEMENTS, "sweep caption example", "value"), (_TABLE, _SWIN["Block-AR"], "Max gap")
    said, spread = paper.band(*here)
    return decide(paper.agree(here, there), f"{show(said, 3)} ± {show(spread, 3)}", paper.shown(*there))


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
    )


register("max_gap_span", _span, "Max gap", "sweep span of max gap")
register("weighted_gap_span", _span, "Wt. gap", "sweep span of weighted gap")


@claim
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
    return decide(inside, stated, found)


@claim
def weighted_gap_is_tighter(paper: Paper) -> Finding:
    rows = [row for row in paper.rows(_TABLE) if paper.count(_TABLE, row, "Runs tested") > 1]
    parts = [(row, paper.std(_TABLE, row, "Wt. gap").may_be_at_most(paper.std(_TABLE, row, "Max gap"))) for row in rows]
    return all_of(parts, "markedly tighter")


@claim
def swin_order_changes(paper: Paper) -> Finding:
    block, full = (paper.numbers(_SEEDS, "Max gap", SEED_ROWS[name]).values() for name in ("Block-AR", "Full-AR"))
    signs = [one.value > other.value for one, other in zip(block, full, strict=True)]
    larger = ", ".join("Block-AR" if sign else "Full-AR" for sign in signs)
    return decide(len(set(signs)) == 2, "order not kept", f"larger at seeds 0, 1, 2: {larger}")


@claim
def deit_order_changes(paper: Paper) -> Finding:
    rows = {variant: f"DeiT-S / C-10 / {variant}" for variant in ("Block-AR", "Full-AR")}
    said = {variant: paper.said("DeiT-Small seed 0 max gap", variant) for variant in rows}
    bands = {variant: paper.band(_TABLE, row, "Max gap") for variant, row in rows.items()}
    parts = [(f"{name} possible beside its row", reachable(said[name], *bands[name], 3)) for name in rows]
    parts.append(("Block-AR below Full-AR at seed 0", said["Block-AR"].may_be_at_most(said["Full-AR"])))
    parts.append(("Block-AR above Full-AR on average", bands["Full-AR"][0].may_be_at_most(bands["Block-AR"][0])))
    stated = quoted(paper, *(("DeiT-Small seed 0 max gap", variant) for variant in rows))
    return all_of(parts, stated)


register(
    "vit_pilot_gaps",
    repeats,
    [("ViT pilot max gap", variant, _TABLE, f"ViT-B/16 / C-10 / {variant}", "Max gap") for variant in _SWIN],
)


@claim
def vit_pilot_threshold(paper: Paper) -> Finding:
    threshold = paper.said("ViT pilot max gap", "threshold").value
    gaps = {variant: paper.value(_TABLE, f"ViT-B/16 / C-10 / {variant}", "Max gap") for variant in _SWIN}
    parts = [(variant, not gap.surely_below(threshold)) for variant, gap in gaps.items()]
    return all_of(parts, f"at least {threshold:g}")
