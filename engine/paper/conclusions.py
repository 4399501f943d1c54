"""The paper's conclusions, asked of a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

import pandas as pd

from engine.paper.checks import calibrators, gaps, probes
from engine.paper.findings import OUTCOMES, Finding, Outcome
from engine.paper.sources import SOURCES, Evidence


@dataclass(frozen=True)
class Conclusion:
    """A conclusion of the paper in our words, where it is drawn, the source it needs and the rule that decides."""

    key: str
    claim: str
    where: str
    source: str
    rule: str
    check: Callable[[Evidence], Finding]


@dataclass(frozen=True)
class Reading:
    """A conclusion beside the cache."""

    key: str
    claim: str
    where: str
    outcome: Outcome
    found: str
    rule: str
    numbers: Mapping[str, float]


def conclude(evidence: Evidence) -> list[Reading]:
    """Every conclusion whose source was computed, in the paper's order."""
    return [_read(item, evidence) for item in CONCLUSIONS if evidence.has([item.source])]


def _read(item: Conclusion, evidence: Evidence) -> Reading:
    finding = item.check(evidence)
    return Reading(item.key, item.claim, item.where, finding.outcome, finding.found, item.rule, finding.numbers)


def as_frame(readings: Iterable[Reading]) -> pd.DataFrame:
    """One row per conclusion; `numbers` as text."""
    columns = ["key", "claim", "where", "outcome", "found", "rule", "numbers"]
    frame = pd.DataFrame([asdict(reading) for reading in readings], columns=columns)
    texts = ["; ".join(f"{name} = {value:.6g}" for name, value in numbers.items()) for numbers in frame["numbers"]]
    return frame.assign(numbers=texts)


def summarise(readings: list[Reading]) -> str:
    """`Of the paper's 11 conclusions this cache supports 6 and does not support 3; 2 cannot be answered from it.`"""
    counts = {name: sum(reading.outcome == name for reading in readings) for name in OUTCOMES}
    all_or_some = f"the paper's {len(readings)} conclusions"
    if len(readings) < len(CONCLUSIONS):
        all_or_some = f"the {len(readings)} of the paper's {len(CONCLUSIONS)} conclusions asked so far"
    against = counts["not supported"]
    sentence = f"Of {all_or_some}, this cache supports {counts['supported']} and "
    sentence += f"does not support {against}" if against else "speaks against none"
    unanswered = counts["not answerable"]
    return sentence + (f"; {unanswered} cannot be answered from it." if unanswered else ".")


_SIGN = "sign test over runs at 5 %"
CONCLUSIONS: tuple[Conclusion, ...] = (
    Conclusion(
        "chance_paper", "At matched confidence, gaps between routing tertiles are at chance level", "sec:rq1", "gaps",
        "the paper's test rejects no more runs than chance gives, and none after Holm", gaps.chance_level("paper"),
    ),
    Conclusion(
        "chance_audited", "The same, by the audited test, which matches confidence more finely", "sec:rq1", "gaps",
        "the audited test rejects no more runs than chance gives, and none after Holm", gaps.chance_level("audited"),
    ),
    Conclusion(
        "not_stable", "No effect is stable across seeds", "sec:rq2", "gaps",
        "in no cell does every seed reject, by either test", gaps.repeats,
    ),
    Conclusion(
        "no_order", "Neither Block-AR nor Full-AR has the larger gap throughout", "sec:rq2", "gaps",
        "two-sided sign test at 5 % over pairs of the same backbone, data and seed, block sizes averaged",
        gaps.no_order,
    ),
    Conclusion(
        "ece_controls", "AR-CondCal does not beat its matched controls on ECE", "sec:rq3", "scores",
        f"it is not lower than both controls by the {_SIGN}", calibrators.beats_controls("ece"),
    ),
    Conclusion(
        "worst_controls", "AR-CondCal does not reliably improve worst-tertile ECE", "sec:rq3", "scores",
        f"it is not lower than both controls by the {_SIGN}", calibrators.beats_controls("worst_tertile_ece"),
    ),
    Conclusion(
        "bandwidth", "No bandwidth reliably improves AR-CondCal's worst-tertile ECE", "app:bw-sensitivity",
        "bandwidth", f"no mode beats Scott's rule by the {_SIGN}, Holm over four modes", calibrators.no_bandwidth,
    ),
    Conclusion(
        "bandwidth_control", "No bandwidth makes routing worth having beside confidence", "app:bw-sensitivity",
        "bandwidth", f"in no mode does it beat confidence only by the {_SIGN}, Holm over five modes",
        calibrators.no_bandwidth_over_control,
    ),
    Conclusion(
        "feature", "No other routing feature beats the controls", "tab:feature_ablation", "ablation",
        f"no feature is lower than both controls by the {_SIGN}, Holm over four features", calibrators.no_feature,
    ),
    Conclusion(
        "error_link", "The spread of routing over depth does not follow calibration error", "app:mechanism",
        "error_link", "no rank correlation with |confidence - correct| differs from zero after Holm", gaps.error_link,
    ),
    Conclusion(
        "naive", "A full-profile network appears to improve on a linear confidence probe", "sec:probe", "probes",
        f"it does, by the {_SIGN}", probes.probe_gain("naive", "the linear confidence probe", expected=True),
    ),
    Conclusion(
        "capacity", "The gain is capacity: it is gone beside a confidence-only network", "sec:probe", "probes",
        f"it does not beat the confidence-only network by the {_SIGN}",
        probes.probe_gain("capacity_matched", "the confidence-only network", expected=False),
    ),
    Conclusion(
        "shuffled", "Shuffled routing profiles do as well", "app:probe-sanity", "probes",
        "runs above their shuffles are no more than chance gives (binomial, 5 %)", probes.routing_specific,
    ),
)  # fmt: skip
"""In the order of the paper; the second asks the paper's question of a test that the paper does not have."""
CONCLUSION_SOURCES = tuple(name for name in SOURCES if any(item.source == name for item in CONCLUSIONS))
"""What must be computed to answer all of them, quickest first."""
