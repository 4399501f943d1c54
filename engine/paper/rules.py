"""The rules by which a cache supports a conclusion of the paper or does not: each reads what was computed of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import binom, norm

from engine.benchmark.bandwidth import FAMILY
from engine.benchmark.sensitivity import GAINS_OVER
from engine.benchmark.setup import CONTROLS, ROUTING, TERTILE_FEATURE
from engine.core.labels import counted, format_p
from engine.core.pvalues import SignTest, adjust_pvalues, sign_test
from engine.features import FEATURES
from engine.gaps.settings import PAPER, PRIMARY
from engine.paper.sources import Evidence
from engine.paper.tables import MODES, RULE_GAP, rule_by_cell
from engine.probes import ProbeSweep
from engine.sweep import by_cell, chance_range, multiplicity, pool_effects

Outcome = Literal["supported", "not supported", "not answerable", "not computed"]
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


def no_evidence(evidence: Evidence) -> Finding:
    """By run, and by the effect pooled over runs."""
    runs, pooled = chance_level("primary", evidence), pool_effects(evidence["gaps"])
    if pooled is None:
        return runs
    bound = pooled.bound
    found = (
        f"{runs.found}; pooled over cells, accuracy changes by {bound.effect:+.3f} from low to high routing entropy "
        f"(95 % interval {bound.low:+.3f} to {bound.high:+.3f})"
    )
    numbers = {**runs.numbers, "pooled": bound.effect, "pooled_p": pooled.p_value, "excluded": bound.excluded}
    return decide(runs.outcome == "not supported" or pooled.p_value <= ALPHA, found, numbers)


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
    pairs = evidence["pairs"].query("error > 0").astype({"difference": float, "error": float})
    if len(pairs) < fewest_runs(2):
        return too_few(len(pairs), "pair", "of a Block-AR and a Full-AR run on the same samples", 2)
    difference = pairs["difference"].to_numpy()
    p = min(1.0, 2 * min(sign_test(difference).p, sign_test(-difference).p))
    each = adjust_pvalues(2 * norm.sf(np.abs(difference) / pairs["error"].to_numpy()), "holm")
    larger, clear = int((difference > 0).sum()), int((each <= ALPHA).sum())
    found = (
        f"Block-AR has the larger gap in {larger} of {len(pairs)} pairs (two-sided sign test, {format_p(p)}); a "
        f"bootstrap of the shared samples tells {clear} of them apart after Holm"
    )
    return decide(p <= ALPHA or clear > 0, found, {"n": len(pairs), "block_larger": larger, "clear": clear, "p": p})


def error_link(evidence: Evidence) -> Finding:
    links = evidence["routing"].dropna(subset=["p"])
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


def shrinkage_regime(evidence: Evidence) -> Finding:
    kept = evidence["routing"].query("bandwidth > 0")["kept"].astype(float)
    if kept.empty:
        return Finding("not answerable", "no run has a routing profile that varies", {"n": 0})
    small = int((kept < 0.5).sum())
    found = (
        f"at least {100 * kept.min():.1f} % of a gap between the outer tertiles is kept, less than half in {small} of "
        f"{counted(len(kept), 'run')}"
    )
    return decide(2 * small <= len(kept), found, {"n": len(kept), "lowest": kept.min(), "below_half": small})


def explains_nothing(evidence: Evidence) -> Finding:
    rows = evidence["gain"].astype({"low": float, "share": float})
    if rows.empty:
        return Finding("not answerable", "no run has a routing profile", {"n": 0})
    n, above, high = len(rows), int((rows["low"] > 0).sum()), int(binom.ppf(0.975, len(rows), ALPHA / 2))
    low, most = 100 * rows["share"].min(), 100 * rows["share"].max()
    found = (
        f"routing removes {low:.2f} to {most:.2f} % of the squared error that confidence leaves, out of sample; more "
        f"than zero in {above} of {counted(n, 'run')} (by chance at most {high} in 97.5 % of cases)"
    )
    return decide(above > high, found, {"n": n, "above": above, "largest_percent": most})


NEAR_DETERMINISTIC = 0.1
"""Mean normalised entropy: of two sources, one has 98.7 % of the weight."""


def collapse(evidence: Evidence) -> Finding:
    rows = evidence["routing"]
    if len(rows) < fewest_runs():
        return too_few(len(rows), "run", "with a routing profile")
    early, deep = (rows[name].to_numpy(float) for name in ("early", "deep"))
    test, near = sign_test(early - deep), int((deep <= NEAR_DETERMINISTIC).sum())
    found = (
        f"the last third of the layers has less entropy than the first in {test.n_better} of {test.n_runs} runs (on "
        f"average {deep.mean():.2f} against {early.mean():.2f}), and at most {NEAR_DETERMINISTIC:g} in {near}"
    )
    return decide(test.p > ALPHA or 2 * near <= test.n_runs, found, {"n": test.n_runs, "p": test.p, "near": near})


def no_rescue(evidence: Evidence) -> Finding:
    rows = evidence["ensembles"].astype({"ece": float, "worst_tertile_ece": float})
    if len(rows) < fewest_runs():
        return too_few(len(rows), "run", "with an ensemble of its last epochs")
    test = sign_test(-rows["worst_tertile_ece"].to_numpy())
    found = (
        f"lower for the ensemble in {test.n_better} of {test.n_runs} runs (mean change {-test.mean:+.4f}; of the ECE "
        f"over all samples {rows['ece'].mean():+.4f})"
    )
    return decide(test.p <= ALPHA, found, {"n": test.n_runs, "mean": -test.mean, "p": test.p})


def rule_not_met(evidence: Evidence) -> Finding:
    cells = rule_by_cell(evidence)
    n, large, ahead, met = len(cells), *(int(cells[name].sum()) for name in ("large", "ahead", "met"))
    if n == 0:
        return Finding("not answerable", "no cell has both a gap and all three kernel calibrators", {"n": 0})
    chance = int((cells["null_high"] >= RULE_GAP).sum())
    found = (
        f"the largest gap is at least {RULE_GAP:g} in {large} of {counted(n, 'cell')} (chance alone may give that in "
        f"{chance}), AR-CondCal has less ECE than both controls in {ahead}, and both hold in {met}"
    )
    return decide(met > 0, found, {"n": n, "large": large, "ahead": ahead, "met": met})


def within_noise(evidence: Evidence) -> Finding:
    z = evidence["norms"].set_index("run_id")[["routing_z", "norm_z", "random_z"]].astype(float)
    z = z.dropna().abs()
    if z.empty:
        return Finding("not answerable", "no run with logits can be tested", {"n": 0})
    n, (routing, other, noise) = len(z), (z > norm.ppf(1 - ALPHA / 2)).sum().tolist()
    high = chance_range(evidence["gaps"].query("run_id in @z.index"), ALPHA)[1]
    found = (
        f"routing is outside the 95 % band of a random feature in {routing} of {counted(n, 'run')} (by chance at most "
        f"{high} in 97.5 % of cases), the logit norm in {other}, random numbers themselves in {noise}"
    )
    return decide(routing > high, found, {"n": n, "routing": routing, "norm": other, "by_chance_at_most": high})


def no_lift(evidence: Evidence) -> Finding:
    gains = evidence["norms"][["gain_ece", "gain_nll", "gain_brier"]].astype(float)
    if len(gains) < fewest_runs(3):
        return too_few(len(gains), "run", "with logits and a routing profile", 3)
    p = adjust_pvalues([sign_test(gains[name].to_numpy()).p for name in gains], "holm").min()
    ece, nll, brier = (gains < 0).sum().tolist()
    found = (
        f"with routing ECE is higher in {ece} of {len(gains)} runs, NLL in {nll}, Brier in {brier}; the largest gain "
        f"of ECE is {gains['gain_ece'].max():.4f}"
    )
    return decide(p <= ALPHA, found, {"n": len(gains), "smallest_p": p, "worse_ece": ece})


RULES: Mapping[str, tuple[tuple[str, ...], Callable[[Evidence], Finding]]] = {
    "chance_paper": (("gaps",), partial(chance_level, "paper")),
    "no_evidence": (("gaps",), no_evidence),
    "not_stable": (("gaps",), repeats),
    "no_order": (("pairs",), no_order),
    "ece_controls": (("scores",), partial(beats_controls, "ece")),
    "worst_controls": (("scores",), partial(beats_controls, "worst_tertile_ece")),
    "bandwidth": (("bandwidth",), no_bandwidth),
    "feature": (("ablation",), no_feature),
    "error_link": (("routing",), error_link),
    "naive": (("probes",), partial(probe_gain, "naive", "the linear confidence probe", expected=True)),
    "capacity": (("probes",), partial(probe_gain, "capacity_matched", "the confidence-only network", expected=False)),
    "shuffled": (("probes",), routing_specific),
    "shrinkage": (("routing",), shrinkage_regime),
    "rule": (("gaps", "scores"), rule_not_met),
    "collapse": (("routing",), collapse),
    "ensemble": (("ensembles",), no_rescue),
    "noise": (("gaps", "norms"), within_noise),
    "lift": (("norms",), no_lift),
    "bandwidth_control": (("bandwidth",), no_bandwidth_over_control),
    "explained": (("gain",), explains_nothing),
}
"""By conclusion: the sources that it needs, and what reads them."""
