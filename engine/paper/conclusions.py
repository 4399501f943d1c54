"""The paper's conclusions, asked of a cache.

A conclusion that something is absent is "supported" when nothing here speaks against it, which is no proof of absence.
Over runs, "reliably better" is an exact one-sided sign test at 5 %: the number of runs that are better is
Binomial(n, 1/2) where nothing is there, ties left out. Where there are too few runs for the test to reach 5 % at all,
the conclusion is "not answerable" rather than supported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import binom

from engine.benchmark.bandwidth import FAMILY
from engine.benchmark.contrasts import CONTROLS
from engine.benchmark.sensitivity import GAINS_OVER
from engine.benchmark.setup import ROUTING, TERTILE_FEATURE
from engine.core.labels import counted, format_p
from engine.core.pvalues import SignTest, adjust_pvalues, sign_test
from engine.features import FEATURES
from engine.gaps.settings import PAPER, PRIMARY
from engine.paper.sources import SOURCES, Evidence
from engine.paper.tables import MODES
from engine.probes import ProbeSweep
from engine.sweep import by_cell, multiplicity

Outcome = Literal["supported", "not supported", "not answerable"]
OUTCOMES: tuple[Outcome, ...] = ("supported", "not supported", "not answerable")
ALPHA = 0.05


@dataclass(frozen=True)
class Finding:
    """What the cache says: in words, as numbers, and what that means for the conclusion."""

    outcome: Outcome
    found: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def fewest_runs(n_comparisons: int = 1) -> int:
    """Runs from which a sign test can reject at all: 2^-n <= alpha / m for the smallest of m p-values under Holm.

    5 for one comparison, 6 for two (or two sides), 7 for four or five.
    """
    return math.ceil(math.log2(n_comparisons / ALPHA))


def too_few(n: int, noun: str, what: str, n_comparisons: int = 1) -> Finding:
    """Fewer runs than a verdict over them needs: `1 run with logits; a verdict over runs needs 5`."""
    needed = fewest_runs(n_comparisons)
    return Finding("not answerable", f"{counted(n, noun)} {what}; a verdict over runs needs {needed}", {"n": n})


def decide(contradicted: bool, found: str, numbers: Mapping[str, float]) -> Finding:
    """Supported unless contradicted."""
    return Finding("not supported" if contradicted else "supported", found, numbers)


def chance_level(test: str, evidence: Evidence) -> Finding:
    counts = multiplicity(evidence["gaps"], ALPHA).set_index("test").to_dict("index")[test]
    n, rejected, corrected, high = (int(counts[name]) for name in ("n_tested", "nominal", "holm", "chance_high"))
    if n == 0:
        return Finding("not answerable", "no run can be tested", {"n": 0})
    found = (
        f"{rejected} of {counted(n, 'run')} reject ({corrected} after Holm); chance gives {n * ALPHA:.1f}, "
        f"at most {high} in 97.5 % of cases"
    )
    numbers = {"n": n, "rejected": rejected, "after_holm": corrected, "by_chance_at_most": high}
    return decide(corrected > 0 or rejected > high, found, numbers)


def repeats(evidence: Evidence) -> Finding:
    cells = by_cell(evidence["gaps"])
    several = cells[cells["n"] > 1]
    if several.empty:
        return Finding("not answerable", "no cell has a second tested run", {"n_cells": 0})
    primary, paper = (int(several[f"{test}_all"].astype(bool).sum()) for test in ("primary", "paper"))
    n = len(several)
    found = (
        f"every seed rejects in {paper} of {counted(n, 'cell')} by {PAPER.label} and in {primary} by {PRIMARY.label}"
    )
    numbers: dict[str, float] = {"n_cells": n, "paper": paper, "primary": primary}
    spread = float(several["max_gap_spread"].max())
    if np.isfinite(spread):  # without a shared bin there is no gap to move
        found += f"; the largest gap moves by up to {spread:.2f} between seeds"
        numbers["largest_spread"] = spread
    return decide(paper + primary > 0, found, numbers)


def no_order(evidence: Evidence) -> Finding:
    gaps = evidence["gaps"].dropna(subset=["max_gap"]).astype({"max_gap": float})
    keys = ["suite", "backbone", "dataset", "seed"]
    # One pair per training seed: a Full-AR run beside several block sizes would be several pairs that are not
    # independent. A run whose seed nobody knows has no partner.
    block, full = (gaps[gaps["variant"] == name].groupby(keys)["max_gap"].mean() for name in ("block_ar", "full_ar"))
    pairs = (block - full).dropna()
    difference = pairs.to_numpy()
    if len(pairs) < fewest_runs(2):
        return too_few(len(pairs), "pair", "of a Block-AR and a Full-AR run", 2)
    p = min(1.0, 2 * min(sign_test(difference).p, sign_test(-difference).p))
    larger = int((difference > 0).sum())
    found = f"Block-AR has the larger gap in {larger} of {len(pairs)} pairs (two-sided sign test, {format_p(p)})"
    return decide(p <= ALPHA, found, {"n": len(pairs), "block_larger": larger, "p": p})


def error_link(evidence: Evidence) -> Finding:
    links = evidence["error_link"]
    if links.empty:
        return Finding("not answerable", "no run has a routing profile that varies", {"n": 0})
    significant = int((adjust_pvalues(links["p"].to_numpy(float), "holm") <= ALPHA).sum())
    values = links["correlation"].astype(float)
    found = (
        f"Spearman {values.min():+.2f} to {values.max():+.2f} over {counted(len(links), 'run')}, {significant} of them "
        "other than zero after Holm"
    )
    numbers = {"n": len(links), "lowest": values.min(), "highest": values.max(), "significant": significant}
    return decide(significant > 0, found, numbers)


ROUTING_FEATURES = ("r_agg", "r_std", "last", "r_agg_x_conf")
"""Without 1 - r_agg, which orders samples as r_agg does."""


def beats_controls(metric: str, evidence: Evidence) -> Finding:
    scores = evidence["scores"]
    wide = scores[scores["metric"] == metric].pivot_table(index="run_id", columns="method", values="value")
    wide = wide.reindex(columns=list(FAMILY)).dropna()
    if len(wide) < fewest_runs():
        return too_few(len(wide), "run", "with all three kernel calibrators")
    tests = [sign_test((wide[control] - wide[ROUTING]).to_numpy()) for control in CONTROLS]
    texts = [
        f"lower than {control} in {test.n_better} of {test.n_runs} runs (mean change {-test.mean:+.4f})"
        for control, test in zip(("confidence only", "confidence + entropy"), tests, strict=True)
    ]
    numbers = {"n": len(wide), "p_confidence": tests[0].p, "p_entropy": tests[1].p}
    return decide(max(test.p for test in tests) <= ALPHA, "; ".join(texts), numbers)


def _best_of(tests: Mapping[str, SignTest], what: str) -> Finding:
    """The most favourable of several comparisons, corrected for having looked at all of them."""
    p = adjust_pvalues([test.p for test in tests.values()], "holm")
    name, best = min(tests.items(), key=lambda item: (item[1].p, -item[1].mean))
    reliable = int((p <= ALPHA).sum())
    found = (
        f"{reliable} of {len(tests)} {what} reliably, after Holm; closest is {name}, in {best.n_better} of "
        f"{best.n_runs} runs (mean change {-best.mean:+.4f})"
    )
    return decide(reliable > 0, found, {"n": best.n_runs, "reliable": reliable, "smallest_p": float(p.min())})


def _by_mode(evidence: Evidence, feature: str) -> pd.DataFrame:
    """(runs, modes) worst-tertile ECE of the kernel calibrator."""
    frame = evidence["bandwidth"]
    kept = frame[(frame["metric"] == "worst_tertile_ece") & (frame["feature"] == feature)]
    wide = kept.pivot_table(index="run_id", columns="mode", values="value").reindex(columns=list(MODES))
    return wide.dropna().rename(columns=MODES)


def no_bandwidth(evidence: Evidence) -> Finding:
    modes = _by_mode(evidence, TERTILE_FEATURE)
    if len(modes) < fewest_runs(len(MODES) - 1):
        return too_few(len(modes), "run", "with logits and a routing profile", len(MODES) - 1)
    default = MODES["1x"]
    others = {mode: sign_test((modes[default] - modes[mode]).to_numpy()) for mode in MODES.values() if mode != default}
    return _best_of(others, "other bandwidths lower the worst-tertile ECE of Scott's rule")


def no_bandwidth_over_control(evidence: Evidence) -> Finding:
    routing, control = _by_mode(evidence, TERTILE_FEATURE), _by_mode(evidence, "confidence")
    if len(routing) < fewest_runs(len(MODES)):
        return too_few(len(routing), "run", "with logits and a routing profile", len(MODES))
    tests = {mode: sign_test((control[mode] - routing[mode]).to_numpy()) for mode in MODES.values()}
    return _best_of(tests, "bandwidths put AR-CondCal's worst-tertile ECE below that of its confidence-only control")


def no_feature(evidence: Evidence) -> Finding:
    ece = evidence["ablation"][evidence["ablation"]["metric"] == "ece"]
    n_runs = ece["run_id"].nunique()
    if n_runs < fewest_runs(len(ROUTING_FEATURES)):
        return too_few(n_runs, "run", "with logits and a routing profile", len(ROUTING_FEATURES))
    tests = {}
    for name in ROUTING_FEATURES:
        rows = ece[ece["feature"] == name]
        # It must beat both controls, so the weaker of the two comparisons counts.
        against = [sign_test(rows[column].to_numpy(float)) for column in GAINS_OVER]
        tests[FEATURES[name].label] = max(against, key=lambda test: test.p)
    return _best_of(tests, "routing features lower the ECE below both controls")


def _contrast(evidence: Evidence, name: str) -> pd.DataFrame:
    sweep: ProbeSweep = evidence["probes"]
    return sweep.contrasts[(sweep.contrasts["contrast"] == name) & sweep.contrasts["estimate"].notna()]


def probe_gain(name: str, against: str, evidence: Evidence, *, expected: bool) -> Finding:
    """Whether the full-profile network gains over another probe; the paper expects it to, or not to."""
    rows = _contrast(evidence, name)
    if len(rows) < fewest_runs():
        return too_few(len(rows), "run", "with a probed profile")
    test = sign_test(rows["estimate"].to_numpy(float))
    found = (
        f"higher R² than {against} in {test.n_better} of {test.n_runs} runs, by {test.mean:+.3f} on average "
        f"(sign test, {format_p(test.p)})"
    )
    gains = test.p <= ALPHA
    return decide(gains != expected, found, {"n": test.n_runs, "mean": test.mean, "p": test.p})


def routing_specific(evidence: Evidence) -> Finding:
    rows = _contrast(evidence, "routing_specific").dropna(subset=["p_value"])
    n = len(rows)
    if n == 0:
        return Finding("not answerable", "no run has a probed profile", {"n": 0})
    rejected = int((rows["p_value"].astype(float) <= ALPHA).sum())
    p = float(binom.sf(rejected - 1, n, ALPHA)) if rejected else 1.0
    mean = float(rows["estimate"].astype(float).mean())
    found = (
        f"above shuffled profiles with similar confidence in {rejected} of {n} runs at p ≤ {ALPHA:g} (chance gives "
        f"{n * ALPHA:.1f}); over an unrestricted shuffle R² gains {mean:+.3f} on average"
    )
    return decide(p <= ALPHA, found, {"n": n, "rejected": rejected, "mean": mean, "p": p})


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
    asked = [(item, item.check(evidence)) for item in CONCLUSIONS if evidence.has([item.source])]
    return [
        Reading(item.key, item.claim, item.where, finding.outcome, finding.found, item.rule, finding.numbers)
        for item, finding in asked
    ]


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
        "the paper's test rejects no more runs than chance gives, and none after Holm", partial(chance_level, "paper"),
    ),
    Conclusion(
        "chance_primary", "The same, by the primary test, which matches confidence more finely", "sec:rq1", "gaps",
        "the primary test rejects no more runs than chance gives, and none after Holm",
        partial(chance_level, "primary"),
    ),
    Conclusion(
        "not_stable", "No effect is stable across seeds", "sec:rq2", "gaps",
        "in no cell does every seed reject, by either test", repeats,
    ),
    Conclusion(
        "no_order", "Neither Block-AR nor Full-AR has the larger gap throughout", "sec:rq2", "gaps",
        "two-sided sign test at 5 % over pairs of the same backbone, data and seed, block sizes averaged",
        no_order,
    ),
    Conclusion(
        "ece_controls", "AR-CondCal does not beat its matched controls on ECE", "sec:rq3", "scores",
        f"it is not lower than both controls by the {_SIGN}", partial(beats_controls, "ece"),
    ),
    Conclusion(
        "worst_controls", "AR-CondCal does not reliably improve worst-tertile ECE", "sec:rq3", "scores",
        f"it is not lower than both controls by the {_SIGN}", partial(beats_controls, "worst_tertile_ece"),
    ),
    Conclusion(
        "bandwidth", "No bandwidth reliably improves AR-CondCal's worst-tertile ECE", "app:bw-sensitivity",
        "bandwidth", f"no mode beats Scott's rule by the {_SIGN}, Holm over four modes", no_bandwidth,
    ),
    Conclusion(
        "bandwidth_control", "No bandwidth makes routing worth having beside confidence", "app:bw-sensitivity",
        "bandwidth", f"in no mode does it beat confidence only by the {_SIGN}, Holm over five modes",
        no_bandwidth_over_control,
    ),
    Conclusion(
        "feature", "No other routing feature beats the controls", "tab:feature_ablation", "ablation",
        f"no feature is lower than both controls by the {_SIGN}, Holm over four features", no_feature,
    ),
    Conclusion(
        "error_link", "The spread of routing over depth does not follow calibration error", "app:mechanism",
        "error_link", "no rank correlation with |confidence - correct| differs from zero after Holm", error_link,
    ),
    Conclusion(
        "naive", "A full-profile network appears to improve on a linear confidence probe", "sec:probe", "probes",
        f"it does, by the {_SIGN}", partial(probe_gain, "naive", "the linear confidence probe", expected=True),
    ),
    Conclusion(
        "capacity", "The gain is capacity: it is gone beside a confidence-only network", "sec:probe", "probes",
        f"it does not beat the confidence-only network by the {_SIGN}",
        partial(probe_gain, "capacity_matched", "the confidence-only network", expected=False),
    ),
    Conclusion(
        "shuffled", "Shuffled routing profiles do as well", "app:probe-sanity", "probes",
        "runs above their shuffles are no more than chance gives (binomial, 5 %)", routing_specific,
    ),
)  # fmt: skip
"""In the order of the paper; the second asks the paper's question of a test that the paper does not have."""
CONCLUSION_SOURCES = tuple(name for name in SOURCES if any(item.source == name for item in CONCLUSIONS))
"""What must be computed to answer all of them, quickest first."""
