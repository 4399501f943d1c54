"""Claims about parameter counts."""

from __future__ import annotations

from functools import partial

from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide
from engine.paper.claims.rounding import exactly

TOPIC = Topic("Parameter counts")

_TABLE, _LABEL = "parameter_overhead", "tab:overhead-params"

_WIDTHS = {
    "ViT-B/16": ((768, 24),),
    "DeiT-Small": ((384, 24),),
    "Swin-Tiny": ((96, 4), (192, 4), (384, 12), (768, 4)),
}
"""Width and number of sub-layers, stage by stage."""


@TOPIC.claim("Block-AR and Full-AR have the same number of parameters on every backbone", _LABEL)
def variants_share_parameters(paper: Paper) -> Finding:
    return all_of(
        (
            (row, paper.value(_TABLE, row, "Full-AR") == paper.value(_TABLE, row, "Block-AR"))
            for row in paper.rows(_TABLE)
        ),
        "equal",
        "the two printed counts of each backbone",
    )


@TOPIC.claim("The added parameters are the difference of the two counts", _LABEL)
def parameter_difference(paper: Paper) -> Finding:
    def fits(row: str) -> bool:
        difference = paper.value(_TABLE, row, "Full-AR") - paper.value(_TABLE, row, "Baseline")
        return paper.value(_TABLE, row, "Δ params").may_equal(difference)

    rows = paper.rows(_TABLE)
    stated = ", ".join(paper.cell(_TABLE, row, "Δ params").printed for row in rows)
    return all_of(((row, fits(row)) for row in rows), stated, "Full-AR minus Baseline, millions")


@TOPIC.claim("The added share in percent is the difference over the baseline", _LABEL)
def parameter_share(paper: Paper) -> Finding:
    def fits(row: str) -> bool:
        baseline = paper.value(_TABLE, row, "Baseline")
        share = (paper.value(_TABLE, row, "Full-AR") - baseline) / baseline * 100
        return paper.value(_TABLE, row, "Δ (%)").may_equal(share)

    rows = paper.rows(_TABLE)
    stated = ", ".join(paper.cell(_TABLE, row, "Δ (%)").printed for row in rows)
    return all_of(((row, fits(row)) for row in rows), stated, "100 (Full-AR - Baseline) / Baseline")


@TOPIC.claim("The routing path adds less than 0.1 % of the parameters on every backbone", "app:overhead")
def overhead_is_small(paper: Paper) -> Finding:
    limit = paper.said("overhead in percent", "below").value
    shares = {row: paper.value(_TABLE, row, "Δ (%)") for row in paper.rows(_TABLE)}
    largest = max(share.value for share in shares.values())
    holds = all(not exactly(limit).surely_below(share) for share in shares.values())
    return decide(holds, f"< {limit:g} %", f"at most {largest:.2f} %", "largest printed share")


def _module(backbone: str, paper: Paper) -> Finding:
    added = sum(2 * width * layers for width, layers in _WIDTHS[backbone])
    printed = paper.cell(_TABLE, backbone, "Δ params").printed
    return decide(
        paper.value(_TABLE, backbone, "Δ params").may_equal(added / 1e6),
        printed,
        f"+{added / 1e6:.6f} ({added:,} parameters)",
        "one pseudo-query and one norm weight of the model's width for each of the 24 sub-layers, in millions",
    )


for _backbone in _WIDTHS:
    TOPIC.register(
        f"module_size_{_backbone.split('-')[0].lower()}",
        f"What the routing module adds to {_backbone}, to three decimals of a million",
        _LABEL,
        partial(_module, _backbone),
    )
