"""Claims about the probes of the calibration error."""

import math
from functools import partial
from itertools import combinations

from scipy.stats import t as student

from engine.paper.claims.compare import column_follows, equal, quoted, repeats, same, same_count, show
from engine.paper.claims.registry import Finding, Paper, all_of, claim, decide, register
from engine.paper.claims.rounding import Rounded, exactly, mean, ordered, std
from engine.paper.published import STATEMENTS

_POOLED, _NAIVE, _VANILLA = "probe_sanity", "naive_probe", "vanilla_backbones"
_LINEAR, _NETWORK = "Conf-only (linear) R²", "Full (MLP) R²"


def _uplift(paper: Paper, row: str) -> Rounded:
    return paper.value(_NAIVE, row, _NETWORK) - paper.value(_NAIVE, row, _LINEAR)


def _naive_rows(paper: Paper, variant: str, backbone: str = "") -> list[str]:
    return [row for row in paper.rows(_NAIVE) if row.endswith(variant) and backbone in row]


def _pooled(first: str, second: str, paper: Paper) -> Rounded:
    return paper.value(_POOLED, first, "R²") - paper.value(_POOLED, second, "R²")


register("pooled_r2", repeats, [("pooled R²", row, _POOLED, row, "R²") for row in ("conf-mlp", "full-mlp")])
register("shuffling_change", same, "shuffled routing", "change", partial(_pooled, "full-mlp", "shuf-full-mlp"))


@claim
def shuffling_within(paper: Paper) -> Finding:
    limit = paper.said("shuffled routing", "within")
    found = abs(_pooled("full-mlp", "shuf-full-mlp", paper))
    holds = found.may_be_at_most(limit.value)
    return decide(holds, f"within {show(limit, 3)}", show(found, 4))


@claim
def confidence_network_leads(paper: Paper) -> Finding:
    others = [row for row in paper.rows(_POOLED) if row != "conf-mlp"]
    best, spread = paper.band(_POOLED, "conf-mlp", "R²")
    parts = [(f"R² above {row}", not best.surely_below(paper.value(_POOLED, row, "R²"))) for row in others]
    parts += [(f"std below {row}", not paper.std(_POOLED, row, "R²").surely_below(spread)) for row in others]
    return all_of(parts, "highest and lowest")


register("pooled_uplift", same, "naive uplift", "pooled", partial(_pooled, "full-mlp", "conf-lin"))


@claim
def naive_uplift_mean(paper: Paper) -> Finding:
    said, spread = paper.band(STATEMENTS, "naive uplift", "three Block-AR cells")
    uplifts = [_uplift(paper, row) for row in _naive_rows(paper, "Block-AR")]
    fits = any(
        said.may_equal(mean(choice)) and any(spread.may_equal(std(choice, ddof)) for ddof in (0, 1))
        for choice in (*combinations(uplifts, 3), uplifts)
    )
    swin = [_uplift(paper, row) for row in _naive_rows(paper, "Block-AR", "Swin")]
    return decide(
        fits,
        quoted(paper, ("naive uplift", "three Block-AR cells")),
        f"{mean(swin).value:+.3f} ± {std(swin, 0).value:.3f} over the Swin seeds, "
        f"{mean(uplifts).value:+.3f} ± {std(uplifts, 0).value:.3f} over all {len(uplifts)} Block-AR rows",
    )


_QUOTED = ("naive uplift", "Block-AR cells")
register("naive_block_cells", same_count, *_QUOTED, lambda paper: len(_naive_rows(paper, "Block-AR")))


@claim
def naive_uplift_positive(paper: Paper) -> Finding:
    parts = [(row, exactly(0.0).may_be_at_most(_uplift(paper, row))) for row in _naive_rows(paper, "Block-AR")]
    return all_of(parts, "positive")


@claim
def naive_uplift_by_seed(paper: Paper) -> Finding:
    found = {seed: _uplift(paper, f"C-10 / Swin-T s{seed} (b=2) / Block-AR") for seed in (0, 2)}
    said = {seed: paper.said("naive uplift", f"seed {seed}") for seed in found}
    return decide(
        all(said[seed].may_equal(found[seed]) for seed in found),
        ", ".join(f"{said[seed].value:+.3f}" for seed in found),
        ", ".join(f"{found[seed].value:+.3f}" for seed in found),
    )


register(
    "naive_last_column",
    equal,
    lambda paper: paper.said_text("naive uplift", "last column"),
    lambda paper: paper.columns(_NAIVE)[-1],
)


@claim
def naive_uplift_full(paper: Paper) -> Finding:
    stated = paper.said("naive uplift", "Swin Full-AR")
    uplifts = {row: _uplift(paper, row) for row in _naive_rows(paper, "Full-AR", "Swin")}
    # "Essentially none" is read as at most 0.01.
    holds = all(abs(uplift - stated.value).fits_within(0.01) for uplift in uplifts.values())
    found = ", ".join(f"{row.split(' / ')[1]} {uplift.value:+.3f}" for row, uplift in uplifts.items())
    return decide(holds, f"about {stated.value:g}", found)


def _groups_won(place: str, paper: Paper) -> str:
    won, groups = (paper.said_count("groups where conf-mlp wins", column) for column in (place, "groups"))
    return f"{won} of {groups}"


@claim
def groups_won(paper: Paper) -> Finding:
    return Finding(_groups_won("appendix", paper), "", "not checkable")


register("groups_won_discussion", equal, partial(_groups_won, "extended discussion"), partial(_groups_won, "appendix"))


@claim
def positive_group_within_std(paper: Paper) -> Finding:
    value, spread = paper.band(STATEMENTS, "positive group", "value")
    pooled = paper.std(_POOLED, "full-mlp", "R²")
    return decide(
        value.may_be_at_most(spread),
        quoted(paper, ("positive group", "value")),
        f"{value.value / spread.value:.1f} times the standard deviation given with it",
        f"mean against its own std; it is within the cross-cell one of tab:probe-sanity ({show(pooled, 3)})",
    )


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


def _vanilla_uplift(paper: Paper, row: str) -> Rounded:
    return paper.value(_VANILLA, row, "MLP R²") - paper.value(_VANILLA, row, "Conf-only R²")


register("vanilla_uplift", column_follows, _VANILLA, "Uplift", _vanilla_uplift)


@claim
def vanilla_range(paper: Paper) -> Finding:
    uplifts = ordered(paper.numbers(_VANILLA, "Uplift").values())
    low, high = paper.said("vanilla uplift", "low"), paper.said("vanilla uplift", "high")
    holds, found = low.may_equal(uplifts[0]) and high.may_equal(uplifts[-1]), (uplifts[0].value, uplifts[-1].value)
    stated = quoted(paper, ("vanilla uplift", "low"), ("vanilla uplift", "high"))
    return decide(holds, stated, "{:+.3f}, {:+.3f}".format(*found))


@claim
def vanilla_rejections(paper: Paper) -> Finding:
    level = paper.said("level").value
    names = paper.said_columns("vanilla p")
    rejecting = [name for name in names if paper.said("vanilla p", name).value <= level]
    found = ", ".join(rejecting) or "none"
    return decide(found == "ViT-Large", "ViT-Large", found, f"the stated p against {level:g}")
