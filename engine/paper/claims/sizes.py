"""Claims about the size of the calibration set and about clipping; the text is their only source."""

from __future__ import annotations

from functools import partial

from engine.paper.claims.compare import quoted, same, show
from engine.paper.claims.names import AR_CONDCAL, TS
from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide
from engine.paper.claims.rounding import Rounded

TOPIC = Topic("Calibration-set size and clipping")

_SIZE, _CLIP = "app:calsize", "sec:ar-condcal"


def _ends(paper: Paper, method: str) -> tuple[Rounded, Rounded]:
    return paper.said("ECE at 5000 samples", method), paper.said("ECE at 250 samples", method)


def _growth(method: str, paper: Paper) -> Finding:
    full, small = _ends(paper, method)
    said = paper.said("growth of ECE", method)
    how = f"{show(small, 4)} at 250 samples over {show(full, 4)} at 5,000"
    return same(show(said, 1), said, small / full, how)


for _method in ("RCMMC", AR_CONDCAL):
    TOPIC.register(
        f"growth_{_method.lower().replace('-', '_')}",
        f"Factor by which the ECE of {_method} grows when the calibration set shrinks",
        _SIZE,
        partial(_growth, _method),
    )


@TOPIC.claim("RCMMC loses more than AR-CondCal when the calibration set shrinks", _SIZE)
def rcmmc_loses_more(paper: Paper) -> Finding:
    factors = {method: small / full for method in ("RCMMC", AR_CONDCAL) for full, small in [_ends(paper, method)]}
    found = ", ".join(f"{method} {factor.value:.2f}" for method, factor in factors.items())
    return decide(
        factors[AR_CONDCAL].may_be_at_most(factors["RCMMC"]), "RCMMC least robust", found, "ratio of the two ECEs"
    )


@TOPIC.claim("The ECE of TS rises least when the calibration set shrinks", _SIZE)
def ts_rises_least(paper: Paper) -> Finding:
    ends = {method: _ends(paper, method) for method in (TS, "RCMMC", AR_CONDCAL)}
    rises = {method: small - full for method, (full, small) in ends.items()}
    factors = {method: small / full for method, (full, small) in ends.items()}
    least = {min(found, key=lambda method: found[method].value) for found in (rises, factors)}
    listed = ", ".join(f"{method} +{rises[method].value:.4f} (x{factors[method].value:.2f})" for method in ends)
    return decide(
        TS in least,
        "TS most sample-efficient",
        listed,
        "rise and ratio from 5,000 to 250 samples; the least in either would do (its level is the lowest at both ends)",
    )


@TOPIC.claim("TS has the lowest ECE of the three at every size stated", "fig:calsize")
def ts_is_lowest(paper: Paper) -> Finding:
    reference = _ends(paper, TS)
    parts = [
        (f"{method} at {samples} samples", reference[index].may_be_at_most(_ends(paper, method)[index]))
        for method in ("RCMMC", AR_CONDCAL)
        for index, samples in enumerate((5000, 250))
    ]
    stated = quoted(paper, ("ECE at 5000 samples", TS), ("ECE at 250 samples", TS))
    return all_of(parts, stated, "the two sizes with stated numbers")


@TOPIC.claim("Clipping rates at the two bounds add up to the total", "app:impl")
def clipping_total(paper: Paper) -> Finding:
    said = paper.said("clipping in percent", "total")
    found = paper.said("clipping in percent", "lower") + paper.said("clipping in percent", "upper")
    return same(f"{said.value:.2f}", said, found, "lower plus upper, percent")


@TOPIC.claim("The worst cell is clipped at least as often as all cells together", _CLIP)
def clipping_worst(paper: Paper) -> Finding:
    worst = paper.said("clipping in percent", "worst cell")
    pooled = {bound: paper.said("clipping in percent", bound) for bound in ("lower", "upper")}
    parts = [(bound, rate.may_be_at_most(worst)) for bound, rate in pooled.items()]
    return all_of(parts, f"worst cell {show(worst, 2)} %", "a pooled rate is at most the largest of its cells")
