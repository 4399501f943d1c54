"""Claims where numbers of single seeds stand beside the mean and standard deviation over three seeds.

One of n numbers with mean m and standard deviation s lies within sqrt(n - 1) s of m (dividing by n; with n - 1 the
bound is tighter), so a seed's number can contradict an aggregate row without the other seeds being known.
"""

from __future__ import annotations

from functools import partial

from engine.paper.claims.compare import BOTH_STDS, quoted, reachable, show
from engine.paper.claims.names import AR_CONDCAL, TS
from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide
from engine.paper.claims.rounding import exactly, std

TOPIC = Topic("Single seeds beside three-seed rows")

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
    TOPIC.register(
        f"two_seeds_{_key}",
        f"ECE of {_method} at seeds 0 and 2 fits its mean and standard deviation over three seeds",
        "app:cross-arch-multiseed",
        partial(_two_seeds, _method),
    )


@TOPIC.claim(
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


@TOPIC.claim("At seed 2 AR-CondCal and four other methods have a lower ECE than TS", "app:cross-arch-multiseed")
def seed_two_order(paper: Paper) -> Finding:
    others = [method for method in paper.said_columns("seed-2 ECE") if method != TS]
    reference = paper.said("seed-2 ECE", TS)
    parts = [(method, paper.said("seed-2 ECE", method).may_be_at_most(reference)) for method in others]
    return all_of(parts, f"below {show(reference, 4)}", "the numbers stated for seed 2")


@TOPIC.claim("ECE of AR-CondCal at seed 0: text and feature ablation", "app:cross-arch-multiseed")
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
    TOPIC.register(
        f"ablation_seed_{_data.replace('CIFAR-', 'c')}_{_variant[:-3].lower()}",
        f"Seed-0 ECEs of the kernel family in the feature ablation fit the three-seed row ({_data}, {_variant})",
        "tab:feature_ablation",
        partial(_ablation, _data, _variant, _table),
    )


@TOPIC.claim("ECE of AR-CondCal over two Full-AR seeds fits its seed-0 value in the feature ablation", "fig:bench-full")
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
