"""The claims that need more than the language of `claims.toml`, where each function is named or has its claim's name.

One of n numbers with mean m and standard deviation s lies within sqrt(n - 1) s of m (dividing by n; with n - 1 the
bound is tighter), so a seed's number can contradict an aggregate row without the other seeds being known.
"""

import math
import re
from itertools import combinations, permutations

from scipy.stats import t as student

from engine.metrics.mechanism import spearman
from engine.paper.claims.compare import bands_overlap, decision_fits, reachable, show, within_band
from engine.paper.claims.registry import Finding, MissingCell, Paper, all_of, claim, decide
from engine.paper.claims.rounding import Rounded, exactly, mean, ordered, std
from engine.paper.published import AR_CONDCAL, CELLS, KERNEL_FAMILY, RAW, SEED_ROWS, STATEMENTS, SUPPLEMENT_NAMES, TS

_SEED0, _SEEDS, _SWEEP, _MAIN, _MORE = (
    "matched_gap",
    "per_seed_diagnostics",
    "ar_sweep",
    "calibration",
    "supplementary_metrics",
)
_WORST = "Worst-tertile ECE"
_VARIANTS = ("Block-AR", "Full-AR")
_LISTED = [row for rows in SEED_ROWS.values() for row in rows]


def _lowest(values: dict[str, Rounded]) -> str:
    return min(values, key=lambda row: values[row].value)


# ---- gaps and the sweep


@claim
def decisions_follow_from_p(paper: Paper) -> Finding:
    level = paper.said("level").value
    decided = {row: paper.cell(_SEEDS, row, "Rejects").printed == "yes" for row in _LISTED}
    parts = [(row, decision_fits(decided[row], paper.value(_SEEDS, row, "Perm. p"), level)) for row in _LISTED]
    only_first = [row for row in _LISTED if decided[row]] == _LISTED[:1]
    return all_of([*parts, ("one rejection, at Block-AR seed 0", only_first)], "one yes", f"p <= {level:g}")


@claim
def p_fits_null_quantile(paper: Paper) -> Finding:
    def fits(variant: str) -> bool:
        gap, quantile, p = (paper.value(_SEED0, variant, column) for column in ("Max gap", "Null q.975", "Perm. p"))
        if p.low > 0.025:
            return gap.may_be_at_most(quantile)
        return p.high >= 0.025 or quantile.may_be_at_most(gap)

    return all_of([(variant, fits(variant)) for variant in _VARIANTS], "p beside the null's percentile")


@claim
def p_values_are_possible(paper: Paper) -> Finding:
    n = paper.said_count("permutations")

    def possible(p: Rounded) -> bool:
        # hits / n or (1 + hits) / (n + 1), hits a whole number between 0 and n
        plain = math.ceil(p.low * n - 1e-6) <= min(math.floor(p.high * n + 1e-6), n)
        added = max(math.ceil(p.low * (n + 1) - 1e-6), 1) <= min(math.floor(p.high * (n + 1) + 1e-6), n + 1)
        return p.high >= 0 and (plain or added)

    sources = {_SEED0: _VARIANTS, _SEEDS: _LISTED, _SWEEP: paper.rows(_SWEEP)}
    values = [(row, p) for table, rows in sources.items() for row, p in paper.numbers(table, "Perm. p", rows).items()]
    parts = [(f"{row}: {p.value:g}", possible(p)) for row, p in values]
    return all_of(parts, f"multiples of 1/{n} or 1/{n + 1}")


@claim
def one_cell_rejects(paper: Paper) -> Finding:
    rejecting = [row for row in paper.rows(_SWEEP) if paper.count(_SWEEP, row, "Rejections")]
    return decide(rejecting == ["Sw-T / C-10 / Block-AR"], "one cell, 1/3", ", ".join(rejecting) or "none")


@claim
def rejections_follow_from_p(paper: Paper) -> Finding:
    level = paper.said("level").value
    parts = [
        (row, decision_fits(paper.count(_SWEEP, row, "Rejections") > 0, p, level))
        for row, p in paper.numbers(_SWEEP, "Perm. p").items()
    ]
    return all_of(parts, "p beside rej/n", f"the printed p read as the smallest of the row, against {level:g}")


@claim
def seed_p(paper: Paper, row: str, variant: str) -> Finding:
    listed = ordered(paper.numbers(_SEEDS, "Perm. p", SEED_ROWS[variant]).values())
    summaries = {"smallest": listed[0], "median": listed[1], "mean": mean(listed)}
    printed = paper.value(_SWEEP, row, "Perm. p")
    return decide(
        any(printed.may_equal(summary) for summary in summaries.values()),
        paper.cell(_SWEEP, row, "Perm. p").printed,
        ", ".join(f"{name} {show(summary, 3)}" for name, summary in summaries.items()),
        f"three seeds of tab:perseed-swin-c10-diagnostic ({', '.join(show(p, 3) for p in listed)}); any would do",
    )


@claim
def span(paper: Paper, column: str, statement: str) -> Finding:
    """Every listed run lies inside the span, and each end can be the value of some run."""
    low, high = paper.said(statement, "low"), paper.said(statement, "high")
    ends = {"low": False, "high": False}
    rows = paper.numbers(_SWEEP, column)
    for row, centre in rows.items():
        runs = paper.count(_SWEEP, row, "Runs tested")
        spread = paper.std(_SWEEP, row, column) if runs > 1 else exactly(0.0)
        for name, end in (("low", low), ("high", high)):
            ends[name] |= reachable(end, centre, spread, runs)
    listed = [*rows.items(), *paper.numbers(_SEEDS, column, _LISTED).items()]
    problems = [f"{row} lies outside" for row, value in listed if value.surely_below(low) or high.surely_below(value)]
    problems += [f"no row can hold the {name} end" for name, found in ends.items() if not found]
    found = "; ".join(problems) or "all rows and listed seeds inside, both ends reachable"
    return decide(not problems, f"{show(low, 3)} to {show(high, 3)}", found)


@claim
def p_span(paper: Paper) -> Finding:
    low, high = paper.said("sweep span of p", "low"), paper.said("sweep span of p", "high")
    seeds = paper.numbers(_SEEDS, "Perm. p", _LISTED)
    listed = ordered([*paper.numbers(_SWEEP, "Perm. p").values(), *seeds.values()])
    inside = all(not p.surely_below(low) and not high.surely_below(p) for p in listed)
    stated = f"{show(low, 3)} to {show(high, 3)}"
    found = f"{show(listed[0], 3)} to {show(listed[-1], 3)} among the listed"
    if inside and any(low.may_equal(p) for p in listed) and not any(high.may_equal(p) for p in listed):
        how = "the lower end is listed; the run with the largest p is in no table"
        return Finding(stated, found, "not checkable", how)
    return decide(inside, stated, found)


# ---- calibration tables


@claim
def kernel_family_in_bands(paper: Paper) -> Finding:
    bands = {row: paper.band(_MAIN, row, "ECE") for row in KERNEL_FAMILY}
    pairs = list(permutations(bands, 2))
    inside = sum(within_band(bands[one][0], *bands[other]) for one, other in pairs)
    overlapping = sum(bands_overlap(one, other) for one, other in combinations(bands.values(), 2))
    found = (
        f"mean in the other's band in {inside} of {len(pairs)} ordered pairs; bands may overlap in {overlapping} of 3"
    )
    return decide(inside == len(pairs), "within each other's bands", found)


@claim
def internal_comparators_listed(paper: Paper) -> Finding:
    names = [paper.said_text("internal comparators", column) for column in ("first", "second")]
    absent = [name for name in names if name not in paper.rows(_MAIN)]
    found = f"no row {', '.join(absent)}" if absent else "both listed"
    return decide(not absent, " and ".join(names), found)


@claim
def cells_and_seeds(paper: Paper) -> Finding:
    cells, seeds = (paper.said_count("cross-substrate sweep", noun) for noun in ("cells", "seeds"))
    rows = [row for row in paper.rows(_SWEEP) if paper.count(_SWEEP, row, "Runs tested") == seeds]
    found = sum(bool(paper.rows(table)) for table in CELLS)
    listed = f"{found} calibration tables, {len(rows)} rows of {seeds} seeds in tab:ar-sweep"
    return decide(found == cells == len(rows), f"{cells} cells x {seeds} seeds", listed)


def _rivals(paper: Paper, table: str) -> tuple[Rounded, Rounded, Rounded, Rounded]:
    """Worst-tertile ECE and its std: of AR-CondCal, then of the best other method."""
    others = [row for row in paper.rows(table) if row not in (RAW, AR_CONDCAL)]
    best = _lowest(paper.numbers(table, _WORST, others))
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


@claim
def two_seeds(paper: Paper, method: str) -> Finding:
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


@claim
def two_seed_figure(paper: Paper) -> Finding:
    where = (STATEMENTS, "Full-AR over two seeds", "AR-CondCal ECE")
    said, spread = paper.band(*where)
    first = paper.value("feature_ablation", "CIFAR-10 / Depth-variance r_std", "Full-AR ECE")
    second = said * 2 - first
    spreads = [std([first, second], ddof) for ddof in (0, 1)]
    return decide(
        any(spread.may_equal(found) for found in spreads),
        paper.shown(*where),
        f"seed 0 {show(first, 4)}, so seed 1 {show(second, 4)}: std {show(spreads[0], 4)} (or {show(spreads[1], 4)})",
    )


# ---- proper scores and supplementary metrics


@claim
def ar_condcal_paired_std(paper: Paper) -> Finding:
    stds = {row: paper.std("paired_deltas", row, "ΔNLL") for row in paper.rows("paired_deltas")}
    rank = 1 + sum(std.surely_below(stds[AR_CONDCAL]) for std in stds.values())
    return decide(rank <= 3, "one of the smallest", f"rank {rank} of {len(stds)}")


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


_SHOWN = (TS, "BBQ", "RCMMC", SUPPLEMENT_NAMES[AR_CONDCAL])


@claim
def bbq_wins_smooth_ece(paper: Paper) -> Finding:
    values = paper.numbers(_MORE, "SmoothECE", _SHOWN)
    better = [f"{row} {show(value, 4)}" for row, value in values.items() if value.surely_below(values["BBQ"])]
    return decide(not better, "BBQ lowest", f"BBQ {show(values['BBQ'], 4)}; lower: {', '.join(better) or 'none'}")


# ---- studies


@claim
def high_shrinkage(paper: Paper) -> Finding:
    """tanh(d^2 / 4 h^2) with h = sigma n^(-1 / (m + 4)): the gap kept when tertiles lie d apart."""
    sigma, ratio = (paper.said("Proposition 4", name) for name in ("std of r_std", "spacing over std"))
    n, m = (paper.said_count("Proposition 4", name) for name in ("calibration samples", "kernel dimension"))
    shrunk = n ** (-1 / (m + 4))
    kept = [math.tanh((spacing / shrunk) ** 2 / 4) for spacing in (ratio.value, max(ratio.low, 0.0))]
    halved = 2 * math.sqrt(math.atanh(0.5)) * sigma.value * shrunk
    return decide(
        kept[1] <= 0.5,
        "high shrinkage, tanh small",
        f"tanh = {kept[0]:.4f} at d = {ratio.value * sigma.value:g}, h = {sigma.value * shrunk:.4f}: the gap is kept; "
        f"half of it is lost where d is below {halved:.3f}",
        f"Scott's rule for sigma = {sigma.value:g}, n = {n:,}, m = {m}; little would be less than half, for any d that "
        "rounds to sigma",
    )


_VIT = "feature_ablation_vit"


@claim
def vit_gain_is_small(paper: Paper) -> Finding:
    limit = paper.said("ViT feature gain", "at most").value
    routing = paper.rows(_VIT)[3:]
    gains = {
        (column, row): paper.value(_VIT, "Confidence only", column) - paper.value(_VIT, row, column)
        for column in paper.columns(_VIT)
        for row in routing
    }
    largest = max(gains, key=lambda key: gains[key].value)
    holds = all(gain.fits_within(limit) for gain in gains.values())
    return decide(holds, f"at most {limit:g}", f"{gains[largest].value:.4f} ({largest[1]}, {largest[0]})")


@claim
def depth_variance_does_not_win(paper: Paper) -> Finding:
    rows = paper.rows(_VIT)[1:]  # without the uncalibrated one
    wins = [_lowest(paper.numbers(_VIT, column, rows)) == "Depth-variance r_std" for column in paper.columns(_VIT)]
    return decide(not all(wins), "not consistently", f"best on {sum(wins)} of {len(wins)}")


@claim
def ts_rises_least(paper: Paper) -> Finding:
    full, small = (
        {method: paper.said(f"ECE at {n} samples", method) for method in (TS, "RCMMC", AR_CONDCAL)} for n in (5000, 250)
    )
    rises = {method: small[method] - full[method] for method in full}
    factors = {method: small[method] / full[method] for method in full}
    listed = ", ".join(f"{method} +{rises[method].value:.4f} (x{factors[method].value:.2f})" for method in full)
    return decide(TS in (_lowest(rises), _lowest(factors)), "TS most sample-efficient", listed)


# ---- probes


def _uplifts(paper: Paper, rows: str) -> list[Rounded]:
    columns = ("Full (MLP) R²", "Conf-only (linear) R²")
    found = [row for row in paper.rows("naive_probe") if row.endswith("Block-AR") and rows in row]
    return [paper.value("naive_probe", row, columns[0]) - paper.value("naive_probe", row, columns[1]) for row in found]


@claim
def naive_uplift_mean(paper: Paper) -> Finding:
    where = (STATEMENTS, "naive uplift", "three Block-AR cells")
    (said, spread), uplifts, swin = paper.band(*where), _uplifts(paper, ""), _uplifts(paper, "Swin")
    fits = any(
        said.may_equal(mean(choice)) and any(spread.may_equal(std(choice, ddof)) for ddof in (0, 1))
        for choice in (*combinations(uplifts, 3), uplifts)
    )
    return decide(
        fits,
        paper.shown(*where),
        f"{mean(swin).value:+.3f} ± {std(swin, 0).value:.3f} over the Swin seeds, "
        f"{mean(uplifts).value:+.3f} ± {std(uplifts, 0).value:.3f} over all {len(uplifts)} Block-AR rows",
    )


@claim
def naive_last_column(paper: Paper) -> Finding:
    said, there = paper.said_text("naive uplift", "last column"), paper.columns("naive_probe")[-1]
    return decide(said == there, said, there)


@claim
def spearman_p(paper: Paper) -> Finding:
    said, rho, n = paper.said("Spearman", "p"), paper.said("Spearman", "rho"), paper.said_count("Spearman", "samples")

    def p_value(correlation: float) -> float:
        # t = rho sqrt((n - 2) / (1 - rho^2)), two-sided
        return float(2 * student.sf(abs(correlation) * math.sqrt((n - 2) / (1 - correlation**2)), n - 2))

    ends = sorted(p_value(end) for end in (rho.low, rho.high))
    return decide(
        said.may_equal(Rounded(p_value(rho.value), *ends)),
        show(said, 2),
        f"{ends[0]:.2f} to {ends[1]:.2f}",
        f"two-sided t test of rho = {show(rho, 3)} (rounded) on {n:,} samples",
    )


@claim
def vanilla_rejections(paper: Paper) -> Finding:
    level = paper.said("level").value
    names = paper.columns(STATEMENTS, "vanilla p")
    found = ", ".join(name for name in names if paper.said("vanilla p", name).value <= level) or "none"
    return decide(found == "ViT-Large", "ViT-Large", found, f"the stated p against {level:g}")


# ---- models, block sizes and external runs


@claim
def low_accuracy_seed(paper: Paper) -> Finding:
    low, others = paper.said("low-accuracy seed", "low"), paper.said("low-accuracy seed", "others")
    found = {name: ordered(paper.numbers(_SEEDS, "Acc@1", rows).values()) for name, rows in SEED_ROWS.items()}
    # "About" is read as within 0.01.
    near = [
        all(abs(value - text).fits_within(0.01) for value, text in zip(values, (low, others, others), strict=True))
        for values in found.values()
    ]
    listed = "; ".join(f"{name}: {', '.join(show(value, 3) for value in values)}" for name, values in found.items())
    return decide(any(near), f"about {show(low, 2)} and {show(others, 2)}", listed)


@claim
def drloc_in_baseline_band(paper: Paper) -> Finding:
    cells = [f"{backbone} / {data}" for backbone in ("Swin-Tiny", "DeiT-Small") for data in ("C-10", "C-100")]
    outside, overlapping = [], 0
    for cell in cells:
        one, other = (paper.band("replication_summary", f"{cell} / {name}", "ECE") for name in ("DrLoc", "Baseline"))
        overlapping += bands_overlap(one, other)
        if not within_band(one[0], *other):
            outside.append(cell)
    found = f"inside in {len(cells) - len(outside)} of {len(cells)}"
    found += (f" (not {', '.join(outside)})" if outside else "") + f"; the two bands may overlap in {overlapping}"
    return decide(not outside, "within the band", found)


@claim
def block_sizes_listed(paper: Paper) -> Finding:
    text = paper.cell("ablation_plan", "Block-size / Swin-Tiny / CIFAR-10", "Values").printed
    rows = " ".join(paper.rows("block_sizes"))
    sizes = [
        sorted({int(size) for size in found})
        for found in (re.findall(r"b(\d+)", text), re.findall(r"size (\d+)", rows))
    ]
    listed, found = (", ".join(f"b{size}" for size in of) for of in sizes)
    return decide(listed == found, listed, found)


@claim
def default_block_size(paper: Paper) -> Finding:
    stated = paper.said_count("default block size")
    rows = ", ".join(row for row in paper.rows("block_sizes") if row.startswith("Block-AR"))
    return decide(re.findall(r"b=(\d+)", rows) == [str(stated)], f"b = {stated}", rows)


_AUDIT = "external_audit"


@claim
def rank_one_shares(paper: Paper) -> Finding:
    cells = paper.count(_AUDIT, "Cross-cell ranking", "Cells")
    columns = [column for column in paper.columns(_AUDIT) if column.endswith("rank-1 (%)")]
    shares = [paper.value(_AUDIT, "Cross-cell ranking", column) for column in columns]
    counts = [share.value / 100 * cells for share in shares]
    whole = all((share / 100 * cells).may_equal(round(count)) for share, count in zip(shares, counts, strict=True))
    found = ", ".join(f"{count:g}" for count in counts) + f" of {cells}"
    return decide(whole and sum(counts) <= cells, ", ".join(f"{share.value:g} %" for share in shares), found)


@claim
def split_winners(paper: Paper) -> Finding:
    row = "Random calibration splits, DeiT-Tiny on CIFAR-100"
    splits = paper.count(_AUDIT, row, "Splits")
    wins = [paper.count(_AUDIT, row, f"{method} rank-1 splits") for method in ("BBQ", AR_CONDCAL)]
    bbq, ours = (paper.value(_AUDIT, row, f"{method} mean ECE") for method in ("BBQ", AR_CONDCAL))
    better = bbq.surely_below(ours)
    return decide(
        sum(wins) <= splits and better == (wins[0] > wins[1]),
        f"{wins[0]} and {wins[1]} of {splits}",
        f"{sum(wins)} of {splits}; {'BBQ' if better else 'AR-CondCal'} has the lower mean ECE",
    )
