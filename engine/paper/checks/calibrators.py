"""Conclusions about AR-CondCal beside its matched controls: as it is, at other bandwidths, on other features."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from engine.benchmark.ablation import GAINS_OVER
from engine.benchmark.contrasts import CONTROLS
from engine.benchmark.halves import TERTILE_FEATURE
from engine.benchmark.matched import FAMILY
from engine.benchmark.methods import ROUTING
from engine.core.pvalues import SignTest, adjust_pvalues, sign_test
from engine.features import FEATURES
from engine.paper.findings import ALPHA, Finding, decide, fewest_runs, too_few
from engine.paper.sources import Evidence
from engine.paper.tables.studies import MODES

ROUTING_FEATURES = ("r_agg", "r_std", "last", "r_agg_x_conf")
"""Without 1 - r_agg, which orders samples as r_agg does."""


def beats_controls(metric: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
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

    return check


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
