"""Claims about the matched-confidence gap of seed 0 and its cell, and about single seeds beside their aggregates.

One of n numbers with mean m and standard deviation s lies within sqrt(n - 1) s of m (dividing by n; with n - 1 the
bound is tighter), so a seed's number can contradict an aggregate row without the other seeds being known.
"""

from __future__ import annotations

import math
from functools import partial

from engine.paper.claims.compare import BOTH_STDS, decision_fits, quoted, reachable, repeats, show
from engine.paper.claims.registry import AR_CONDCAL, SEED_ROWS, TS, Finding, Paper, Topic, all_of, decide
from engine.paper.claims.rounding import Rounded, exactly, std

GAPS = Topic("Matched-confidence gap")

_SEED0, _ROBUST, _SEEDS = "matched_gap", "gap_robustness", "per_seed_diagnostics"
_VARIANTS = ("Block-AR", "Full-AR")


def _shared_cells(paper: Paper, other: str, row_of: dict[str, str]) -> list[tuple[str, bool]]:
    columns = [column for column in paper.columns(_SEED0) if column in paper.columns(other)]
    return [
        (f"{variant} {column}", paper.value(_SEED0, variant, column).may_equal(paper.value(other, row, column)))
        for variant, row in row_of.items()
        for column in columns
    ]


@GAPS.claim("The robustness table repeats the numbers of the first table", "tab:gap-robustness")
def robustness_repeats_table(paper: Paper) -> Finding:
    cells = _shared_cells(paper, _ROBUST, {variant: variant for variant in _VARIANTS})
    return all_of(cells, f"{len(cells)} shared cells", "cell by cell against tab:phenomenon")


@GAPS.claim(
    "The seed-0 rows of the per-seed table repeat the numbers of the first table", "tab:perseed-swin-c10-diagnostic"
)
def seed_rows_repeat_table(paper: Paper) -> Finding:
    cells = _shared_cells(paper, _SEEDS, {variant: SEED_ROWS[variant][0] for variant in _VARIANTS})
    return all_of(cells, f"{len(cells)} shared cells", "cell by cell against tab:phenomenon")


@GAPS.claim("Max gap and permutation p of seed 0 quoted in the text", "sec:rq1")
def seed_zero_in_text(paper: Paper) -> Finding:
    quotes = [
        (f"seed 0 {variant}", column, _SEED0, variant, column)
        for variant in _VARIANTS
        for column in ("Max gap", "Perm. p")
    ]
    return repeats(paper, quotes, "against tab:phenomenon")


@GAPS.claim("Permutation p of the other two Block-AR seeds", "app:gap-robustness")
def other_seeds_in_text(paper: Paper) -> Finding:
    said, rows = "permutation p of the other Block-AR seeds", SEED_ROWS["Block-AR"]
    quotes = [(said, f"seed {seed}", _SEEDS, rows[seed], "Perm. p") for seed in (1, 2)]
    return repeats(paper, quotes, "against tab:perseed-swin-c10-diagnostic")


@GAPS.claim("Max gap of Block-AR at seed 0 and at seed 2", "sec:rq2")
def gap_by_seed_in_text(paper: Paper) -> Finding:
    rows = SEED_ROWS["Block-AR"]
    quotes = [("max gap by seed", f"seed {seed}", _SEEDS, rows[seed], "Max gap") for seed in (0, 2)]
    return repeats(paper, quotes, "against tab:perseed-swin-c10-diagnostic")


@GAPS.claim(
    "The column of decisions follows from p at the 5 % level; only Block-AR seed 0 rejects",
    "tab:perseed-swin-c10-diagnostic",
)
def decisions_follow_from_p(paper: Paper) -> Finding:
    level = paper.said("level").value
    rows = [row for variant in _VARIANTS for row in SEED_ROWS[variant]]
    decided = {row: paper.cell(_SEEDS, row, "Rejects").printed == "yes" for row in rows}
    parts = [(row, decision_fits(decided[row], paper.value(_SEEDS, row, "Perm. p"), level)) for row in rows]
    only_first = [row for row in rows if decided[row]] == [SEED_ROWS["Block-AR"][0]]
    return all_of([*parts, ("one rejection, at Block-AR seed 0", only_first)], "one yes", f"p <= {level:g}")


@GAPS.claim("Bootstrap intervals of the max gap quoted in the text", "app:gap-robustness")
def max_gap_intervals_in_text(paper: Paper) -> Finding:
    quotes = [
        (f"max gap interval {variant}", end, _ROBUST, variant, f"Max gap CI {end}")
        for variant in _VARIANTS
        for end in ("low", "high")
    ]
    return repeats(paper, quotes, "against tab:gap-robustness")


def _position(paper: Paper, variant: str) -> Rounded:
    """Where the max gap lies in its interval: 0 at the lower end, 1 at the upper end."""
    low, high = (paper.value(_ROBUST, variant, f"Max gap CI {end}") for end in ("low", "high"))
    return (paper.value(_ROBUST, variant, "Max gap") - low) / (high - low)


@GAPS.claim("The Block-AR max gap lies in the lower half of its bootstrap interval", "app:gap-robustness")
def block_gap_in_lower_half(paper: Paper) -> Finding:
    position = _position(paper, "Block-AR")
    holds = exactly(0.0).may_be_at_most(position) and position.may_be_at_most(0.5)
    return decide(holds, "lower half", f"{100 * position.value:.0f} % of the way up", "position in its interval")


@GAPS.claim("The Full-AR max gap lies at the lower edge of its bootstrap interval", "app:gap-robustness")
def full_gap_at_lower_edge(paper: Paper) -> Finding:
    position = _position(paper, "Full-AR")
    holds = exactly(0.0).may_be_at_most(position) and position.may_be_at_most(0.1)
    return decide(holds, "lower edge", f"{100 * position.value:.0f} % of the way up", "within the lowest tenth")


@GAPS.claim("The Full-AR weighted gap lies below its own bootstrap interval", "app:gap-robustness")
def full_weighted_gap_below_interval(paper: Paper) -> Finding:
    point, low = (paper.said("weighted gap Full-AR", column) for column in ("point", "low"))
    parts = [
        ("the point rounds to the table's", point.may_equal(paper.value(_ROBUST, "Full-AR", "Wt. gap"))),
        ("the bound rounds to the table's", low.may_equal(paper.value(_ROBUST, "Full-AR", "Wt. gap CI low"))),
        ("the point is below the bound", point.may_be_at_most(low)),
    ]
    stated = f"{show(point, 4)} below {show(low, 4)}"
    return all_of(parts, stated, "text and tab:gap-robustness")


@GAPS.claim("The weighted-gap intervals of the two variants overlap", "app:gap-robustness")
def weighted_intervals_overlap(paper: Paper) -> Finding:
    low = [paper.value(_ROBUST, variant, "Wt. gap CI low") for variant in _VARIANTS]
    high = [paper.value(_ROBUST, variant, "Wt. gap CI high") for variant in _VARIANTS]
    left, right = max(value.value for value in low), min(value.value for value in high)
    holds = low[0].may_be_at_most(high[1]) and low[1].may_be_at_most(high[0])
    return decide(holds, "overlapping", f"common part [{left:.3f}, {right:.3f}]", "the two printed intervals")


@GAPS.claim("Number of bins that both outer tertiles share", "app:gap-robustness")
def shared_bins_in_text(paper: Paper) -> Finding:
    quotes = [("shared bins", variant, _SEED0, variant, "Shared bins") for variant in _VARIANTS]
    quotes.append(("shared bins", "total", _SEED0, "Block-AR", "Total bins"))
    return repeats(paper, quotes, "against tab:phenomenon")


@GAPS.claim("Tens to hundreds of samples in each shared bin of seed 0", "app:gap-robustness")
def support_is_not_tiny(paper: Paper) -> Finding:
    columns = ("Support min", "Support q25", "Support median")
    counts = [paper.count(_SEED0, variant, column) for variant in _VARIANTS for column in columns]
    return decide(
        min(counts) >= 10 and max(counts) < 1000,
        "tens to hundreds",
        f"{min(counts)} to {max(counts)}",
        "minimum, lower quartile and median of the smaller group",
    )


@GAPS.claim("A p above 0.025 goes with a max gap below the 97.5th percentile of its null", "tab:phenomenon")
def p_fits_null_quantile(paper: Paper) -> Finding:
    def fits(variant: str) -> bool:
        gap, quantile, p = (paper.value(_SEED0, variant, column) for column in ("Max gap", "Null q.975", "Perm. p"))
        if p.low > 0.025:
            return gap.may_be_at_most(quantile)
        return p.high >= 0.025 or quantile.may_be_at_most(gap)

    parts = [(variant, fits(variant)) for variant in _VARIANTS]
    return all_of(parts, "p beside the null's percentile", "both come from one null distribution")


@GAPS.claim("Permutation p-values come from 5,000 permutations", "app:gap-robustness")
def p_values_are_possible(paper: Paper) -> Finding:
    n = paper.said_count("permutations")

    def possible(p: Rounded) -> bool:
        # hits / n or (1 + hits) / (n + 1), hits a whole number between 0 and n
        plain = math.ceil(p.low * n - 1e-6) <= min(math.floor(p.high * n + 1e-6), n)
        added = max(math.ceil(p.low * (n + 1) - 1e-6), 1) <= min(math.floor(p.high * (n + 1) + 1e-6), n + 1)
        return p.high >= 0 and (plain or added)

    sources = [(_SEED0, row) for row in _VARIANTS]
    sources += [(_SEEDS, row) for variant in _VARIANTS for row in SEED_ROWS[variant]]
    sources += [("ar_sweep", row) for row in paper.rows("ar_sweep")]
    values = [(row, paper.value(table, row, "Perm. p")) for table, row in sources]
    parts = [(f"{row}: {p.value:g}", possible(p)) for row, p in values]
    return all_of(parts, f"multiples of 1/{n} or 1/{n + 1}", "three decimals leave room for several multiples each")


SEEDS = Topic("Single seeds beside three-seed rows")

_MAIN, _ABLATION = "calibration", "feature_ablation"
_ROW_OF_FEATURE = {
    "Confidence only": "Conf-only",
    "Predictive entropy": "Conf + PredEntropy",
    "Depth-variance r_std": AR_CONDCAL,
}
"""The kernel family is part of the feature ablation, where the second feature names the row."""


def _two_seeds(method: str, paper: Paper) -> Finding:
    """Two seeds are stated; the third follows from the mean, and then the standard deviation from all three."""
    first, last = paper.said("seed-0 ECE", method), paper.said("seed-2 ECE", method)
    centre, spread = paper.value(_MAIN, method, "ECE"), paper.std(_MAIN, method, "ECE")
    middle = centre * 3 - first - last
    spreads = [std([first, middle, last], ddof) for ddof in (0, 1)]
    cell = paper.cell(_MAIN, method, "ECE")
    return decide(
        any(spread.may_equal(found) for found in spreads) and exactly(0.0).may_be_at_most(middle),
        f"{show(first, 4)} and {show(last, 4)} beside {cell.printed} ± {cell.printed_std}",
        f"third seed {show(middle, 4)}, std {show(spreads[0], 4)} (or {show(spreads[1], 4)})",
        f"third seed from the mean of tab:calibration_block_ar; {BOTH_STDS}",
    )


for _method, _key in ((TS, "ts"), (AR_CONDCAL, "ar_condcal")):
    SEEDS.register(
        f"two_seeds_{_key}",
        f"ECE of {_method} at seeds 0 and 2 fits its mean and standard deviation over three seeds",
        "app:cross-arch-multiseed",
        partial(_two_seeds, _method),
    )


@SEEDS.claim(
    "ECEs of four methods at seed 2 fit their means and standard deviations over three seeds",
    "app:cross-arch-multiseed",
)
def seed_two_fits_table(paper: Paper) -> Finding:
    methods = [method for method in paper.said_columns("seed-2 ECE") if method not in (TS, AR_CONDCAL)]
    parts = []
    for method in methods:
        cell, said = paper.cell(_MAIN, method, "ECE"), paper.said("seed-2 ECE", method)
        fits = reachable(said, paper.value(_MAIN, method, "ECE"), paper.std(_MAIN, method, "ECE"), 3)
        parts.append((f"{method} {show(said, 4)} beside {cell.printed} ± {cell.printed_std}", fits))
    stated = quoted(paper, *(("seed-2 ECE", method) for method in methods))
    return all_of(
        parts, stated, "one of three numbers lies within sqrt(2) std of their mean (tab:calibration_block_ar)"
    )


@SEEDS.claim("At seed 2 AR-CondCal and four other methods have a lower ECE than TS", "app:cross-arch-multiseed")
def seed_two_order(paper: Paper) -> Finding:
    others = [method for method in paper.said_columns("seed-2 ECE") if method != TS]
    reference = paper.said("seed-2 ECE", TS)
    parts = [(method, paper.said("seed-2 ECE", method).may_be_at_most(reference)) for method in others]
    return all_of(parts, f"below {show(reference, 4)}", "the numbers stated for seed 2")


@SEEDS.claim("ECE of AR-CondCal at seed 0: text and feature ablation", "app:cross-arch-multiseed")
def seed_zero_ar_condcal(paper: Paper) -> Finding:
    said = paper.said("seed-0 ECE", AR_CONDCAL)
    found = paper.value(_ABLATION, "CIFAR-10 / Depth-variance r_std", "Block-AR ECE")
    return decide(
        said.may_equal(found),
        show(said, 4),
        show(found, 4),
        "the depth-variance row of tab:feature_ablation is AR-CondCal on Swin-Tiny / CIFAR-10 / Block-AR, seed 0",
    )


def _ablation(data: str, variant: str, table: str, paper: Paper) -> Finding:
    parts = []
    for feature, row in _ROW_OF_FEATURE.items():
        value, cell = paper.value(_ABLATION, f"{data} / {feature}", f"{variant} ECE"), paper.cell(table, row, "ECE")
        fits = reachable(value, paper.value(table, row, "ECE"), paper.std(table, row, "ECE"), 3)
        parts.append((f"{row} {show(value, 4)} beside {cell.printed} ± {cell.printed_std}", fits))
    stated = ", ".join(
        paper.cell(_ABLATION, f"{data} / {feature}", f"{variant} ECE").printed for feature in _ROW_OF_FEATURE
    )
    return all_of(parts, stated, "one of three numbers lies within sqrt(2) std of their mean")


for _data, _variant, _table in (
    ("CIFAR-10", "Block-AR", "calibration"),
    ("CIFAR-10", "Full-AR", "calibration_swin_c10_full"),
    ("CIFAR-100", "Block-AR", "calibration_swin_c100_block"),
    ("CIFAR-100", "Full-AR", "calibration_swin_c100_full"),
):
    SEEDS.register(
        f"ablation_seed_{_data.replace('CIFAR-', 'c')}_{_variant[:-3].lower()}",
        f"Seed-0 ECEs of the kernel family in the feature ablation fit the three-seed row ({_data}, {_variant})",
        "tab:feature_ablation",
        partial(_ablation, _data, _variant, _table),
    )


@SEEDS.claim("ECE of AR-CondCal over two Full-AR seeds fits its seed-0 value in the feature ablation", "fig:bench-full")
def two_seed_figure(paper: Paper) -> Finding:
    said, spread = (
        paper.said("Full-AR over two seeds", "AR-CondCal ECE"),
        paper.said_std("Full-AR over two seeds", "AR-CondCal ECE"),
    )
    first = paper.value(_ABLATION, "CIFAR-10 / Depth-variance r_std", "Full-AR ECE")
    second = said * 2 - first
    spreads = [std([first, second], ddof) for ddof in (0, 1)]
    return decide(
        any(spread.may_equal(found) for found in spreads),
        quoted(paper, ("Full-AR over two seeds", "AR-CondCal ECE")),
        f"seed 0 {show(first, 4)}, so seed 1 {show(second, 4)}: std {show(spreads[0], 4)} (or {show(spreads[1], 4)})",
        f"second seed from the mean; {BOTH_STDS}",
    )
