"""Claims about the matched-confidence gap of seed 0 and its cell, and about single seeds beside their aggregates.

One of n numbers with mean m and standard deviation s lies within sqrt(n - 1) s of m (dividing by n; with n - 1 the
bound is tighter), so a seed's number can contradict an aggregate row without the other seeds being known.
"""

import math

from engine.paper.claims.compare import beside, decision_fits, quoted, repeats, show
from engine.paper.claims.registry import Finding, Paper, all_of, claim, decide, register
from engine.paper.claims.rounding import Rounded, exactly, std
from engine.paper.published import AR_CONDCAL, SEED_ROWS, STATEMENTS, TS

_SEED0, _ROBUST, _SEEDS = "matched_gap", "gap_robustness", "per_seed_diagnostics"
_VARIANTS = ("Block-AR", "Full-AR")
_BLOCK = SEED_ROWS["Block-AR"]


def _repeats_first(paper: Paper, other: str, row_of: dict[str, str]) -> Finding:
    columns = [column for column in paper.columns(_SEED0) if column in paper.columns(other)]
    cells = [
        (f"{variant} {column}", paper.agree((_SEED0, variant, column), (other, row, column)))
        for variant, row in row_of.items()
        for column in columns
    ]
    return all_of(cells, f"{len(cells)} shared cells")


register("robustness_repeats_table", _repeats_first, _ROBUST, {variant: variant for variant in _VARIANTS})
register("seed_rows_repeat_table", _repeats_first, _SEEDS, {variant: SEED_ROWS[variant][0] for variant in _VARIANTS})
_OTHER_SEEDS, _ENDS = "permutation p of the other Block-AR seeds", ("low", "high")
_QUOTES = {
    "seed_zero_in_text": [
        (f"seed 0 {row}", name, _SEED0, row, name) for row in _VARIANTS for name in ("Max gap", "Perm. p")
    ],
    "other_seeds_in_text": [(_OTHER_SEEDS, f"seed {seed}", _SEEDS, _BLOCK[seed], "Perm. p") for seed in (1, 2)],
    "gap_by_seed_in_text": [("max gap by seed", f"seed {seed}", _SEEDS, _BLOCK[seed], "Max gap") for seed in (0, 2)],
    "max_gap_intervals_in_text": [
        (f"max gap interval {row}", end, _ROBUST, row, f"Max gap CI {end}") for row in _VARIANTS for end in _ENDS
    ],
    "shared_bins_in_text": [
        *(("shared bins", variant, _SEED0, variant, "Shared bins") for variant in _VARIANTS),
        ("shared bins", "total", _SEED0, "Block-AR", "Total bins"),
    ],
}
for _key, _quotes in _QUOTES.items():
    register(_key, repeats, _quotes)


@claim
def decisions_follow_from_p(paper: Paper) -> Finding:
    level = paper.said("level").value
    rows = [row for variant in _VARIANTS for row in SEED_ROWS[variant]]
    decided = {row: paper.cell(_SEEDS, row, "Rejects").printed == "yes" for row in rows}
    parts = [(row, decision_fits(decided[row], paper.value(_SEEDS, row, "Perm. p"), level)) for row in rows]
    only_first = [row for row in rows if decided[row]] == [SEED_ROWS["Block-AR"][0]]
    return all_of([*parts, ("one rejection, at Block-AR seed 0", only_first)], "one yes", f"p <= {level:g}")


def _low_in_interval(paper: Paper, variant: str, limit: float, stated: str) -> Finding:
    """The max gap lies in the lowest part of its interval: 0 at the lower end, 1 at the upper end."""
    low, high = (paper.value(_ROBUST, variant, f"Max gap CI {end}") for end in ("low", "high"))
    position = (paper.value(_ROBUST, variant, "Max gap") - low) / (high - low)
    holds = exactly(0.0).may_be_at_most(position) and position.may_be_at_most(limit)
    return decide(holds, stated, f"{100 * position.value:.0f} % of the way up")


register("block_gap_in_lower_half", _low_in_interval, "Block-AR", 0.5, "lower half")
register("full_gap_at_lower_edge", _low_in_interval, "Full-AR", 0.1, "lower edge")


@claim
def full_weighted_gap_below_interval(paper: Paper) -> Finding:
    point, low = (paper.said("weighted gap Full-AR", column) for column in ("point", "low"))
    parts = [
        ("the point rounds to the table's", point.may_equal(paper.value(_ROBUST, "Full-AR", "Wt. gap"))),
        ("the bound rounds to the table's", low.may_equal(paper.value(_ROBUST, "Full-AR", "Wt. gap CI low"))),
        ("the point is below the bound", point.may_be_at_most(low)),
    ]
    return all_of(parts, f"{show(point, 4)} below {show(low, 4)}")


@claim
def weighted_intervals_overlap(paper: Paper) -> Finding:
    low = [paper.value(_ROBUST, variant, "Wt. gap CI low") for variant in _VARIANTS]
    high = [paper.value(_ROBUST, variant, "Wt. gap CI high") for variant in _VARIANTS]
    left, right = max(value.value for value in low), min(value.value for value in high)
    holds = low[0].may_be_at_most(high[1]) and low[1].may_be_at_most(high[0])
    return decide(holds, "overlapping", f"common part [{left:.3f}, {right:.3f}]")


@claim
def support_is_not_tiny(paper: Paper) -> Finding:
    columns = ("Support min", "Support q25", "Support median")
    counts = [paper.count(_SEED0, variant, column) for variant in _VARIANTS for column in columns]
    holds = min(counts) >= 10 and max(counts) < 1000
    return decide(holds, "tens to hundreds", f"{min(counts)} to {max(counts)}")


@claim
def p_fits_null_quantile(paper: Paper) -> Finding:
    def fits(variant: str) -> bool:
        gap, quantile, p = (paper.value(_SEED0, variant, column) for column in ("Max gap", "Null q.975", "Perm. p"))
        if p.low > 0.025:
            return gap.may_be_at_most(quantile)
        return p.high >= 0.025 or quantile.may_be_at_most(gap)

    parts = [(variant, fits(variant)) for variant in _VARIANTS]
    return all_of(parts, "p beside the null's percentile")


@claim
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
    return all_of(parts, f"multiples of 1/{n} or 1/{n + 1}")


_MAIN, _ABLATION = "calibration", "feature_ablation"
_ROW_OF_FEATURE = {
    "Confidence only": "Conf-only",
    "Predictive entropy": "Conf + PredEntropy",
    "Depth-variance r_std": AR_CONDCAL,
}
"""The kernel family is part of the feature ablation, where the second feature names the row."""


def _two_seeds(paper: Paper, method: str) -> Finding:
    """Two seeds are stated; the third follows from the mean, and then the standard deviation from all three."""
    first, last = paper.said("seed-0 ECE", method), paper.said("seed-2 ECE", method)
    centre, spread = paper.band(_MAIN, method, "ECE")
    middle = centre * 3 - first - last
    spreads = [std([first, middle, last], ddof) for ddof in (0, 1)]
    return decide(
        any(spread.may_equal(found) for found in spreads) and exactly(0.0).may_be_at_most(middle),
        f"{show(first, 4)} and {show(last, 4)} beside {paper.shown(_MAIN, method, 'ECE')}",
        f"third seed {show(middle, 4)}, std {show(spreads[0], 4)} (or {show(spreads[1], 4)})",
    )


for _method, _key in ((TS, "ts"), (AR_CONDCAL, "ar_condcal")):
    register(f"two_seeds_{_key}", _two_seeds, _method)


@claim
def seed_two_fits_table(paper: Paper) -> Finding:
    methods = [method for method in paper.said_columns("seed-2 ECE") if method not in (TS, AR_CONDCAL)]
    parts = [beside(paper, name, paper.said("seed-2 ECE", name), _MAIN, name, "ECE") for name in methods]
    stated = quoted(paper, *(("seed-2 ECE", method) for method in methods))
    return all_of(parts, stated)


@claim
def seed_two_order(paper: Paper) -> Finding:
    others = [method for method in paper.said_columns("seed-2 ECE") if method != TS]
    reference = paper.said("seed-2 ECE", TS)
    parts = [(method, paper.said("seed-2 ECE", method).may_be_at_most(reference)) for method in others]
    return all_of(parts, f"below {show(reference, 4)}")


@claim
def seed_zero_ar_condcal(paper: Paper) -> Finding:
    said = paper.said("seed-0 ECE", AR_CONDCAL)
    found = paper.value(_ABLATION, "CIFAR-10 / Depth-variance r_std", "Block-AR ECE")
    return decide(said.may_equal(found), show(said, 4), show(found, 4))


def _ablation(paper: Paper, data: str, variant: str, table: str) -> Finding:
    cells = {row: (_ABLATION, f"{data} / {feature}", f"{variant} ECE") for feature, row in _ROW_OF_FEATURE.items()}
    parts = [beside(paper, row, paper.value(*cell), table, row, "ECE") for row, cell in cells.items()]
    return all_of(parts, ", ".join(paper.cell(*cell).printed for cell in cells.values()))


for _data, _variant, _table in (
    ("CIFAR-10", "Block-AR", "calibration"),
    ("CIFAR-10", "Full-AR", "calibration_swin_c10_full"),
    ("CIFAR-100", "Block-AR", "calibration_swin_c100_block"),
    ("CIFAR-100", "Full-AR", "calibration_swin_c100_full"),
):
    register(
        f"ablation_seed_{_data.replace('CIFAR-', 'c')}_{_variant[:-3].lower()}", _ablation, _data, _variant, _table
    )


@claim
def two_seed_figure(paper: Paper) -> Finding:
    said, spread = paper.band(STATEMENTS, "Full-AR over two seeds", "AR-CondCal ECE")
    first = paper.value(_ABLATION, "CIFAR-10 / Depth-variance r_std", "Full-AR ECE")
    second = said * 2 - first
    spreads = [std([first, second], ddof) for ddof in (0, 1)]
    return decide(
        any(spread.may_equal(found) for found in spreads),
        quoted(paper, ("Full-AR over two seeds", "AR-CondCal ECE")),
        f"seed 0 {show(first, 4)}, so seed 1 {show(second, 4)}: std {show(spreads[0], 4)} (or {show(spreads[1], 4)})",
    )
