"""The rules by which a cache supports a conclusion of the paper or does not: each reads what was computed of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom, norm

from engine.benchmark.bandwidth import FAMILY
from engine.benchmark.sensitivity import GAINS_OVER
from engine.benchmark.setup import CONTROLS, ROUTING, TERTILE_FEATURE
from engine.core.pvalues import SignTest, adjust_pvalues, sign_test
from engine.features import FEATURES
from engine.gaps.settings import PAPER, PRIMARY
from engine.paper.sources import Evidence
from engine.paper.tables import MODES, RULE_GAP, rule_by_cell
from engine.probes import ProbeSweep
from engine.sweep import by_cell, chance_range, multiplicity, pool_effects

ALPHA = 0.05


@dataclass(frozen=True)
class Found:
    """Whether a cache speaks against a conclusion, the numbers to report, and what else the sentence says of it."""

    contradicted: bool
    numbers: Mapping[str, float]
    said: Mapping[str, Any]


class TooFew(Exception):
    """Fewer runs, or cells, than a verdict over them needs; with how many there are, and how many it needs."""

    def __init__(self, n: int, needed: int, name: str = "n") -> None:
        self.n, self.needed, self.name = n, needed, name


def fewest_runs(n_comparisons: int = 1) -> int:
    """Runs from which a sign test can reject at all: 2^-n <= alpha / m for the smallest of m p-values under Holm.

    5 for one comparison, 6 for two (or two sides), 7 for four or five.
    """
    return math.ceil(math.log2(n_comparisons / ALPHA))


def need(n: int, n_comparisons: int = 1) -> None:
    """Runs enough for a sign test."""
    need_some(n, fewest_runs(n_comparisons))


def need_some(n: int, needed: int = 1, name: str = "n") -> None:
    if n < needed:
        raise TooFew(n, needed, name)


def decide(contradicted: bool, numbers: Mapping[str, float], **said: Any) -> Found:
    return Found(contradicted, numbers, said)


def chance_level(test: str, evidence: Evidence) -> Found:
    counts = multiplicity(evidence["gaps"], ALPHA).set_index("test").to_dict("index")[test]
    n, rejected, corrected, high = (int(counts[name]) for name in ("n_tested", "nominal", "holm", "chance_high"))
    need_some(n)
    numbers = {"n": n, "rejected": rejected, "after_holm": corrected, "by_chance_at_most": high}
    return decide(corrected > 0 or rejected > high, numbers, by_chance=n * ALPHA, pooled_clause="")


def no_evidence(evidence: Evidence) -> Found:
    """By run, and by the effect pooled over runs."""
    runs, pooled = chance_level("primary", evidence), pool_effects(evidence["gaps"])
    if pooled is None:
        return runs
    bound = pooled.bound
    numbers = {**runs.numbers, "pooled": bound.effect, "pooled_p": pooled.p_value, "excluded": bound.excluded}
    clause = f"; pooled over cells, accuracy changes by {bound.effect:+.3f} from low to high routing entropy "
    clause += f"(95 % interval {bound.low:+.3f} to {bound.high:+.3f})"
    contradicted = runs.contradicted or pooled.p_value <= ALPHA
    return decide(contradicted, numbers, **{**runs.said, "pooled_clause": clause})


def repeats(evidence: Evidence) -> Found:
    cells = by_cell(evidence["gaps"])
    several = cells[cells["n"] > 1]
    need_some(len(several), name="n_cells")
    primary, paper = (int(several[f"{test}_all"].astype(bool).sum()) for test in ("primary", "paper"))
    numbers: dict[str, float] = {"n_cells": len(several), "paper": paper, "primary": primary}
    spread, clause = float(several["max_gap_spread"].max()), ""
    if np.isfinite(spread):  # without a shared bin there is no gap to move
        clause = f"; the largest gap moves by up to {spread:.2f} between seeds"
        numbers["largest_spread"] = spread
    labels = {"paper_label": PAPER.label, "primary_label": PRIMARY.label}
    return decide(paper + primary > 0, numbers, spread_clause=clause, **labels)


def no_order(evidence: Evidence) -> Found:
    pairs = evidence["pairs"].query("error > 0").astype({"difference": float, "error": float})
    need(len(pairs), 2)
    difference = pairs["difference"].to_numpy()
    p = min(1.0, 2 * min(sign_test(difference).p, sign_test(-difference).p))
    each = adjust_pvalues(2 * norm.sf(np.abs(difference) / pairs["error"].to_numpy()), "holm")
    larger, clear = int((difference > 0).sum()), int((each <= ALPHA).sum())
    return decide(p <= ALPHA or clear > 0, {"n": len(pairs), "block_larger": larger, "clear": clear, "p": p})


def error_link(evidence: Evidence) -> Found:
    links = evidence["routing"].dropna(subset=["p"])
    need_some(len(links))
    significant = int((adjust_pvalues(links["p"].to_numpy(float), "holm") <= ALPHA).sum())
    values = links["correlation"].astype(float)
    numbers = {"n": len(links), "lowest": values.min(), "highest": values.max(), "significant": significant}
    return decide(significant > 0, numbers)


ROUTING_FEATURES = ("r_agg", "r_std", "last", "r_agg_x_conf")
"""Without 1 - r_agg, which orders samples as r_agg does."""


def beats_controls(metric: str, evidence: Evidence) -> Found:
    scores = evidence["scores"]
    wide = scores[scores["metric"] == metric].pivot_table(index="run_id", columns="method", values="value")
    wide = wide.reindex(columns=list(FAMILY)).dropna()
    need(len(wide))
    tests = [sign_test((wide[control] - wide[ROUTING]).to_numpy()) for control in CONTROLS]
    numbers = {"n": len(wide), "p_confidence": tests[0].p, "p_entropy": tests[1].p}
    changes = [-test.mean for test in tests]
    return decide(max(test.p for test in tests) <= ALPHA, numbers, tests=tests, changes=changes)


def _best_of(tests: Mapping[str, SignTest]) -> Found:
    """The most favourable of several comparisons, corrected for having looked at all of them."""
    p = adjust_pvalues([test.p for test in tests.values()], "holm")
    name, best = min(tests.items(), key=lambda item: (item[1].p, -item[1].mean))
    reliable = int((p <= ALPHA).sum())
    numbers = {"n": best.n_runs, "reliable": reliable, "smallest_p": float(p.min())}
    return decide(reliable > 0, numbers, tried=len(tests), name=name, better=best.n_better, change=-best.mean)


def _by_mode(evidence: Evidence, feature: str) -> pd.DataFrame:
    """(runs, modes) worst-tertile ECE of the kernel calibrator."""
    frame = evidence["bandwidth"]
    kept = frame[(frame["metric"] == "worst_tertile_ece") & (frame["feature"] == feature)]
    wide = kept.pivot_table(index="run_id", columns="mode", values="value").reindex(columns=list(MODES))
    return wide.dropna().rename(columns=MODES)


def no_bandwidth(evidence: Evidence) -> Found:
    modes = _by_mode(evidence, TERTILE_FEATURE)
    need(len(modes), len(MODES) - 1)
    default = MODES["1x"]
    others = {mode: sign_test((modes[default] - modes[mode]).to_numpy()) for mode in MODES.values() if mode != default}
    return _best_of(others)


def no_bandwidth_over_control(evidence: Evidence) -> Found:
    routing, control = _by_mode(evidence, TERTILE_FEATURE), _by_mode(evidence, "confidence")
    need(len(routing), len(MODES))
    return _best_of({mode: sign_test((control[mode] - routing[mode]).to_numpy()) for mode in MODES.values()})


def no_feature(evidence: Evidence) -> Found:
    ece = evidence["ablation"][evidence["ablation"]["metric"] == "ece"]
    need(ece["run_id"].nunique(), len(ROUTING_FEATURES))
    tests = {}
    for name in ROUTING_FEATURES:
        rows = ece[ece["feature"] == name]
        # It must beat both controls, so the weaker of the two comparisons counts.
        against = [sign_test(rows[column].to_numpy(float)) for column in GAINS_OVER]
        tests[FEATURES[name].label] = max(against, key=lambda test: test.p)
    return _best_of(tests)


def _contrast(evidence: Evidence, name: str) -> pd.DataFrame:
    sweep: ProbeSweep = evidence["probes"]
    return sweep.contrasts[(sweep.contrasts["contrast"] == name) & sweep.contrasts["estimate"].notna()]


def probe_gain(name: str, evidence: Evidence, *, expected: bool) -> Found:
    """Whether the full-profile network gains over another probe; the paper expects it to, or not to."""
    rows = _contrast(evidence, name)
    need(len(rows))
    test = sign_test(rows["estimate"].to_numpy(float))
    numbers = {"n": test.n_runs, "mean": test.mean, "p": test.p}
    return decide((test.p <= ALPHA) != expected, numbers, better=test.n_better)


def routing_specific(evidence: Evidence) -> Found:
    rows = _contrast(evidence, "routing_specific").dropna(subset=["p_value"])
    n = len(rows)
    need_some(n)
    rejected = int((rows["p_value"].astype(float) <= ALPHA).sum())
    p = float(binom.sf(rejected - 1, n, ALPHA)) if rejected else 1.0
    mean = float(rows["estimate"].astype(float).mean())
    numbers = {"n": n, "rejected": rejected, "mean": mean, "p": p}
    return decide(p <= ALPHA, numbers, alpha=ALPHA, by_chance=n * ALPHA)


def shrinkage_regime(evidence: Evidence) -> Found:
    kept = evidence["routing"].query("bandwidth > 0")["kept"].astype(float)
    need_some(len(kept))
    small = int((kept < 0.5).sum())
    numbers = {"n": len(kept), "lowest": kept.min(), "below_half": small}
    return decide(2 * small <= len(kept), numbers, percent=100 * kept.min())


def explains_nothing(evidence: Evidence) -> Found:
    rows = evidence["gain"].astype({"low": float, "share": float})
    need_some(len(rows))
    n, above, high = len(rows), int((rows["low"] > 0).sum()), int(binom.ppf(0.975, len(rows), ALPHA / 2))
    low, most = 100 * rows["share"].min(), 100 * rows["share"].max()
    return decide(above > high, {"n": n, "above": above, "largest_percent": most}, low=low, high=high)


NEAR_DETERMINISTIC = 0.1
"""Mean normalised entropy: of two sources, one has 98.7 % of the weight."""


def collapse(evidence: Evidence) -> Found:
    rows = evidence["routing"]
    need(len(rows))
    early, deep = (rows[name].to_numpy(float) for name in ("early", "deep"))
    test, near = sign_test(early - deep), int((deep <= NEAR_DETERMINISTIC).sum())
    numbers = {"n": test.n_runs, "p": test.p, "near": near}
    means = {"deep": deep.mean(), "early": early.mean(), "limit": NEAR_DETERMINISTIC}
    return decide(test.p > ALPHA or 2 * near <= test.n_runs, numbers, better=test.n_better, **means)


def no_rescue(evidence: Evidence) -> Found:
    rows = evidence["ensembles"].astype({"ece": float, "worst_tertile_ece": float})
    need(len(rows))
    test = sign_test(-rows["worst_tertile_ece"].to_numpy())
    numbers = {"n": test.n_runs, "mean": -test.mean, "p": test.p}
    return decide(test.p <= ALPHA, numbers, better=test.n_better, ece=rows["ece"].mean())


def rule_not_met(evidence: Evidence) -> Found:
    cells = rule_by_cell(evidence)
    n, large, ahead, met = len(cells), *(int(cells[name].sum()) for name in ("large", "ahead", "met"))
    need_some(n)
    chance = int((cells["null_high"] >= RULE_GAP).sum())
    return decide(met > 0, {"n": n, "large": large, "ahead": ahead, "met": met}, gap=RULE_GAP, chance=chance)


def within_noise(evidence: Evidence) -> Found:
    z = evidence["norms"].set_index("run_id")[["routing_z", "norm_z", "random_z"]].astype(float)
    z = z.dropna().abs()
    need_some(len(z))
    n, (routing, other, noise) = len(z), (z > norm.ppf(1 - ALPHA / 2)).sum().tolist()
    high = chance_range(evidence["gaps"].query("run_id in @z.index"), ALPHA)[1]
    numbers = {"n": n, "routing": routing, "norm": other, "by_chance_at_most": high}
    return decide(routing > high, numbers, noise=noise)


def no_lift(evidence: Evidence) -> Found:
    gains = evidence["norms"][["gain_ece", "gain_nll", "gain_brier"]].astype(float)
    need(len(gains), 3)
    p = adjust_pvalues([sign_test(gains[name].to_numpy()).p for name in gains], "holm").min()
    ece, nll, brier = (gains < 0).sum().tolist()
    numbers = {"n": len(gains), "smallest_p": p, "worse_ece": ece}
    return decide(p <= ALPHA, numbers, nll=nll, brier=brier, largest=gains["gain_ece"].max())


RULES: Mapping[str, Callable[[Evidence], Found]] = {
    "chance_paper": partial(chance_level, "paper"),
    "no_evidence": no_evidence,
    "not_stable": repeats,
    "no_order": no_order,
    "ece_controls": partial(beats_controls, "ece"),
    "worst_controls": partial(beats_controls, "worst_tertile_ece"),
    "bandwidth": no_bandwidth,
    "feature": no_feature,
    "error_link": error_link,
    "naive": partial(probe_gain, "naive", expected=True),
    "capacity": partial(probe_gain, "capacity_matched", expected=False),
    "shuffled": routing_specific,
    "shrinkage": shrinkage_regime,
    "rule": rule_not_met,
    "collapse": collapse,
    "ensemble": no_rescue,
    "noise": within_noise,
    "lift": no_lift,
    "bandwidth_control": no_bandwidth_over_control,
    "explained": explains_nothing,
}
"""What decides each conclusion; what it needs and how it is told stands in `data/paper/words/conclusions.csv`."""
