"""The public functions of the engine, each with what its arguments are meant to be.

`ENTRIES` is what the fuzz calls; `missing` says, per field or column of the result, what NaN means there. A public
function that is not called says why in `exempt.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from engine import (
    benchmark,
    contingency,
    controls,
    feature_search,
    features,
    gaps,
    intervals,
    kernel,
    mechanism,
    metrics,
    probes,
    published,
    pvalues,
    reliability,
    splitting,
    sweep,
    trust,
    verdict,
    verdict_bandwidth,
    verdict_benchmark,
    verdict_browse,
    verdict_features,
    verdict_probes,
    verdict_scores,
)
from engine.calibrators import CALIBRATORS, KernelCalibrator
from engine.features import CustomFeature
from engine.gaps.presets import TESTS
from engine.probes.result import PROBES
from engine.types import RunData
from tests.fuzz.strategies import (
    BINS,
    CONFIDENCE,
    CORRECT,
    FEATURE,
    FLAG,
    FRACTION,
    LABELS,
    LOGITS,
    MATCHING,
    P_VALUES,
    PROBABILITIES,
    QUANTILES,
    RHO,
    RUN,
    RUN_FIELDS,
    SEED,
    SOME_BINS,
    TEXT,
    VALUES,
    WILD_PROFILE,
    WRONG_NUMBERS,
    Kind,
    choice,
    number,
    regressors,
    whole,
)

EMPTY_BIN = "a bin without samples has no such number"
FEW = "too few samples in the group for it"
UNTESTABLE = "the data cannot move the statistic"
NO_RESAMPLES = "no bootstrap was asked for, or none of its resamples has the value"
NO_PROFILE = "the run has nothing to cut into tertiles"
CONSTANT = "the quantity does not vary, so it has no R squared"
FAR = "every kernel weight underflows there"
ONE_RUN = "one run has no spread"


@dataclass(frozen=True)
class Entry:
    """A function with its arguments (always given), settings (given or left out) and what is the same in every call.

    `covers` lists the public functions that the call exercises, `also` what else an error may name as the culprit.
    """

    name: str
    function: Callable[..., object]
    arguments: Mapping[str, Kind]
    settings: Mapping[str, Kind] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    covers: tuple[object, ...] = ()
    also: tuple[str, ...] = ()
    at_least: int = 0
    at_most: int = 300

    @property
    def named(self) -> set[str]:
        """What an error may call the culprit."""
        fields = RUN_FIELDS if RUN in self.arguments.values() else ()
        return {*self.arguments, *self.settings, *self.fixed, *fields, *self.also}


def as_run(arguments: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """The arguments with runs put together."""
    return {name: RunData("run", **value) if kinds.get(name) is RUN else value for name, value in arguments.items()}


PAIR = {"confidence": CONFIDENCE, "correct": CORRECT}
TRIPLE = {**PAIR, "rho": RHO}
PREDICTED = {"probabilities": PROBABILITIES, "labels": LABELS}
CUT = {"n_bins": BINS, "matching": MATCHING, "quantiles": QUANTILES}
SUPPORT = {"min_support": whole(1, 6)}
DRAWS = {"seed": SEED}
P_METHOD = choice("asymptotic", "permutation")
ACCURACIES = dict.fromkeys(
    ("mean_confidence", "accuracy", "accuracy_low", "accuracy_high", "accuracy_mid", "gap"), EMPTY_BIN
)


def _counted(function: Callable[..., object]) -> Callable[..., object]:
    """A function of counts, given samples."""

    def call(confidence: Any, correct: Any, rho: Any, n_bins: Any = 15, **settings: Any) -> object:
        return function(contingency.tabulate(confidence, correct, rho, n_bins=n_bins), **settings)

    return call


METRICS = [
    Entry("ece", metrics.ece, PAIR, {"n_bins": BINS}),
    Entry("adaptive_ece", metrics.adaptive_ece, PAIR, {"n_bins": BINS}),
    Entry("mce", metrics.mce, PAIR, {"n_bins": BINS, "min_count": whole(1, 6)}),
    Entry("smooth_ece", metrics.smooth_ece, PAIR),
    Entry("classwise_ece", metrics.classwise_ece, PREDICTED, {"n_bins": BINS}),
    Entry("nll", metrics.nll, PREDICTED),
    Entry("brier", metrics.brier, PREDICTED),
    Entry("worst_tertile_ece", metrics.worst_tertile_ece, TRIPLE, {"n_bins": BINS, "quantiles": QUANTILES}),
    Entry(
        "reliability_table", metrics.reliability_table, PAIR, {"n_bins": BINS, "matching": MATCHING}, missing=ACCURACIES
    ),
    Entry("tertiles", metrics.tertiles, {"rho": RHO}, {"quantiles": QUANTILES}),
    Entry("expected_ece", reliability.expected_ece, {"confidence": CONFIDENCE}, {"n_bins": BINS}),
    Entry(
        "calibration_summary",
        lambda *a, **k: _told(reliability.calibration_summary(*a, **k)),
        PAIR,
        {"n_bins": BINS},
        covers=(reliability.calibration_summary, verdict_browse.reliability_sentence),
    ),
    Entry("class_table", reliability.class_table, {**PAIR, "predictions": LABELS}, {"n_bins": BINS}),
    Entry(
        "wilson_interval",
        intervals.wilson_interval,
        {"successes": CORRECT, "trials": Kind(lambda s: CORRECT.valid(s).map(lambda a: a * 3 + 1), dressed=True)},
        {"level": FRACTION},
        missing={"result": "no trials"},
    ),
]


def _told(summary: reliability.CalibrationSummary) -> object:
    return summary, verdict_browse.reliability_sentence(summary)


GAPS = [
    Entry("tabulate", contingency.tabulate, TRIPLE, CUT),
    Entry(
        "matched_gap",
        gaps.matched_gap,
        TRIPLE,
        {**CUT, **SUPPORT},
        missing=ACCURACIES | {f"accuracy_{name}": EMPTY_BIN for name in ("low", "mid", "high")},
    ),
    Entry(
        "permutation_test",
        gaps.permutation_test,
        TRIPLE,
        {
            **CUT,
            **SUPPORT,
            **DRAWS,
            "statistic": choice("max_gap", "weighted_gap"),
            "method": choice("exact", "hypergeometric", "shuffle"),
            "n_permutations": whole(1, 30),
        },
        missing=ACCURACIES,
    ),
    Entry(
        "bootstrap_gap",
        gaps.bootstrap_gap,
        TRIPLE,
        {**CUT, **SUPPORT, **DRAWS, "n_resamples": whole(1, 30), "level": FRACTION},
        missing=ACCURACIES,
    ),
    Entry(
        "cmh_test",
        gaps.cmh_test,
        TRIPLE,
        {"n_bins": SOME_BINS, "matching": MATCHING, "method": P_METHOD, "quantiles": QUANTILES},
    ),
    Entry(
        "trend_test",
        gaps.trend_test,
        TRIPLE,
        {"n_bins": SOME_BINS, "matching": MATCHING, "method": P_METHOD, "n_permutations": whole(1, 30), **DRAWS},
    ),
    Entry(
        "weighted_gap_test",
        gaps.weighted_gap_test,
        TRIPLE,
        {"n_bins": SOME_BINS, "matching": MATCHING, "method": P_METHOD, "quantiles": QUANTILES, **SUPPORT},
    ),
    Entry(
        "match_diagnostic",
        gaps.match_diagnostic,
        {"confidence": CONFIDENCE, "rho": RHO},
        {"n_bins": SOME_BINS, "matching": MATCHING},
    ),
    Entry(
        "gap_of_counts",
        _counted(gaps.gap_of_counts),
        TRIPLE,
        {"n_bins": BINS, **SUPPORT},
        missing=ACCURACIES,
        covers=(gaps.gap_of_counts,),
    ),
    Entry(
        "permutation_test_of_counts",
        _counted(gaps.permutation_test_of_counts),
        TRIPLE,
        {"n_bins": BINS, **SUPPORT, **DRAWS, "n_permutations": whole(1, 30)},
        missing=ACCURACIES,
        covers=(gaps.permutation_test_of_counts,),
    ),
    Entry(
        "bootstrap_gap_of_counts",
        _counted(gaps.bootstrap_gap_of_counts),
        TRIPLE,
        {"n_bins": BINS, **SUPPORT, **DRAWS, "n_resamples": whole(1, 30), "level": FRACTION},
        missing=ACCURACIES,
        covers=(gaps.bootstrap_gap_of_counts,),
    ),
    Entry(
        "cmh_test_of_counts",
        _counted(gaps.cmh_test_of_counts),
        TRIPLE,
        {"n_bins": BINS, "method": P_METHOD},
        covers=(gaps.cmh_test_of_counts,),
    ),
    Entry("audited_bins", gaps.audited_bins, {"n_samples": whole(0, 1000)}),
    Entry("adjust_pvalues", pvalues.adjust_pvalues, {"p": P_VALUES, "method": choice(*pvalues.ADJUSTMENTS)}),
    Entry(
        "adjust_tested",
        pvalues.adjust_tested,
        {"p": P_VALUES, "method": choice(*pvalues.ADJUSTMENTS)},
        missing={"result": "a test that could not be run"},
    ),
    Entry("split", splitting.split, {"n": whole(2, 50)}, DRAWS),
]


def _trusted(confidence: Any, correct: Any, rho: Any, tests: Any = ("paper", "audited_cmh"), **settings: Any) -> object:
    shared = {name: value for name, value in settings.items() if name in ("min_support", "quantiles")}
    alarms = controls.false_alarm_rate(confidence, correct, rho, tests=tests, **settings)
    power = controls.power_curve(confidence, correct, rho, tests=tests, deltas=(0.0, 0.2), **settings)
    return trust.trust_table(confidence, correct, rho, alarms, power, **shared)


WORLDS = {
    "tests": Kind(lambda _: choice(*TESTS).valid(_).map(lambda name: (name,)), choice().wrong),
    "alpha": FRACTION,
    "n_bins": BINS,
    "fit": choice("logistic", "isotonic"),
    "quantiles": QUANTILES,
    **SUPPORT,
    **DRAWS,
    "n_replicates": whole(1, 5),
}
FEW_WORLDS = {"n_replicates": 3}
DELTA = number(0.0, 0.1, 1.0, 5e-324)

CONTROLS = [
    Entry(
        "planted_outcome",
        controls.planted_outcome,
        {**TRIPLE, "delta": DELTA},
        {"fit": choice("logistic", "isotonic"), "quantiles": QUANTILES, **DRAWS},
    ),
    Entry(
        "false_alarm_rate",
        controls.false_alarm_rate,
        TRIPLE,
        WORLDS,
        FEW_WORLDS,
        missing=dict.fromkeys(("p_values", *TESTS), UNTESTABLE),
    ),
    Entry(
        "power_curve",
        controls.power_curve,
        TRIPLE,
        {**WORLDS, "deltas": CONFIDENCE},
        FEW_WORLDS | {"deltas": (0.0, 0.2)},
    ),
    Entry(
        "trust_table",
        _trusted,
        TRIPLE,
        WORLDS,
        FEW_WORLDS,
        missing={"p": UNTESTABLE, "detectable": "no delta reaches the power"},
        covers=(trust.trust_table, trust.reading),
    ),
    Entry(
        "judge",
        verdict.judge,
        TRIPLE,
        {
            "feature": TEXT,
            "controls": FLAG,
            "n_bins": BINS,
            "alpha": FRACTION,
            "n_resamples": whole(1, 20),
            "n_replicates": whole(1, 3),
            "quantiles": QUANTILES,
            **SUPPORT,
            **DRAWS,
        },
        {"n_resamples": 20, "n_replicates": 2},
        missing=ACCURACIES,
    ),
]

KERNEL = [
    Entry("scott_bandwidth", kernel.scott_bandwidth, {"x": regressors()}, {"dimension": whole(1, 5)}),
    Entry(
        "nw_regress",
        kernel.nw_regress,
        {
            "x_cal": regressors(),
            "t_cal": CORRECT,
            "x_query": regressors(),
            "bandwidth": number(0.0, 0.1, 1e-300, 1e300, 5e-324),
        },
    ),
    Entry(
        "nw_regress on reals",
        kernel.nw_regress,
        {"x_cal": RHO, "t_cal": VALUES, "x_query": RHO, "bandwidth": number(0.0, 0.1, 1e-300, 1e300, 5e-324)},
        covers=(kernel.nw_regress,),
    ),
    Entry(
        "nw_surface",
        kernel.nw_surface,
        {
            "x_cal": regressors(2),
            "t_cal": CORRECT,
            "bandwidth": number(0.0, 0.1, 1e-300, 1e300),
            "grid": Kind(lambda s: RHO.valid(s).map(lambda a: (a[:5], a[:4]))),
        },
        {"exact": FLAG},
        missing={"value": FAR},
    ),
    Entry(
        "shrinkage",
        kernel.shrinkage,
        {"distance": number(0.0, 1.0, 1e300, 5e-324), "bandwidth": number(0.0, 1.0, 1e300, 5e-324)},
    ),
    Entry("tertile_distance", kernel.tertile_distance, {"rho": RHO}),
    Entry("solve_temperature", kernel.solve_temperature, {"logits": LOGITS, "target": CONFIDENCE}),
    Entry(
        "cv_nll_bandwidth",
        kernel.cv_nll_bandwidth,
        {"x_cal": regressors(), "logits": LOGITS, "labels": LABELS},
        {"n_folds": whole(2, 4), "multipliers": CONFIDENCE, **DRAWS},
        {"multipliers": (0.5, 2.0)},
        at_most=60,
    ),
]


def _fit(name: str) -> Callable[..., object]:
    def call(logits: Any, labels: Any, feature: Any, **settings: Any) -> object:
        fitted = CALIBRATORS[name](**settings).fit(logits, labels, feature)
        probabilities = fitted.predict_proba(logits, feature)
        assert np.abs(probabilities.sum(axis=1) - 1).max() < 1e-6, "rows do not sum to one"
        return probabilities, fitted.learned, fitted.summary

    return call


BANDWIDTH = Kind(
    lambda _: number(1.0, 0.25, 1e-6, 1e6, 5e-324).valid(_) | choice("cv_nll").valid(_),
    WRONG_NUMBERS | choice().wrong,
)
FIT = {"logits": LOGITS, "labels": LABELS, "feature": RHO}
FITTED = [
    Entry(
        f"calibrator {name}",
        _fit(name),
        FIT,
        {"bandwidth": BANDWIDTH, **DRAWS} if issubclass(kind, KernelCalibrator) else {},
        at_most=80,
        covers=(kind,),
    )
    for name, kind in CALIBRATORS.items()
]

SMALL_PROBES = {"epochs": 2, "n_inits": 1, "n_shuffles": 1, "hidden": 2}
PROBE_SETTINGS = {
    "hidden": whole(1, 4),
    "epochs": whole(1, 3),
    "n_inits": whole(1, 2),
    "n_shuffles": whole(0, 2),
    **DRAWS,
    "lr": number(0.01, 1.0, 1e-9),
    "weight_decay": number(0.0, 1e-4, 1.0),
}
UNDEFINED = dict.fromkeys(("r2", "mean", "std", "value", "low", "high", *PROBES), CONSTANT)


def _audited(confidence: Any, entropies: Any, correct: Any, **settings: Any) -> object:
    result = probes.audit(confidence, entropies, correct, **settings)
    seen = [probes.predicted_against_actual(result, name, n_groups=4) for name in result.predictions]
    steps = [verdict_probes.judge_probes(result, step=step) for step in ("naive", "capacity", "shuffle")]
    return result, seen, steps


def _pooled(run: Any, **settings: Any) -> object:
    found = probes.audit_run(run, **settings)
    identity = {
        "run_id": "run",
        "suite": "s",
        "backbone": "b",
        "dataset": "d",
        "variant": "v",
        "block_size": None,
        "seed": 0,
        "n_layers": 1,
    }
    pooled = probes.pool(pd.DataFrame([identity]), [found])
    return pooled, probes.probe_tables(pooled), verdict_probes.judge_probe_sweep(pooled)


PROBES_ = [
    Entry(
        "probes.audit",
        _audited,
        {"confidence": CONFIDENCE, "entropies": WILD_PROFILE, "correct": CORRECT},
        {**PROBE_SETTINGS, "names": Kind(lambda s: TEXT.valid(s).map(lambda t: [t] * s.layers))},
        SMALL_PROBES,
        missing=UNDEFINED,
        covers=(probes.audit, probes.predicted_against_actual, verdict_probes.judge_probes),
        at_most=60,
    ),
    Entry(
        "probes.audit_run",
        _pooled,
        {"run": RUN},
        PROBE_SETTINGS,
        SMALL_PROBES,
        missing=UNDEFINED
        | {
            "block_size": "the run has none",
            "r2_std": ONE_RUN,
            "r2_mean": CONSTANT,
            "uplift": CONSTANT,
            "p_value": "no shuffle was asked for, or R squared is undefined",
        },
        at_most=60,
        at_least=8,
        covers=(probes.audit_run, probes.pool, probes.probe_tables, verdict_probes.judge_probe_sweep),
    ),
    Entry("probes.descriptor", probes.descriptor, {"run": RUN}, {"layer_names": TEXT}),
]

LAYERS = Kind(lambda s: whole(1, max(s.layers, 1)).valid(s).map(lambda last: list(range(1, last + 1))))
FEATURES = [
    Entry("feature", features.feature, {"run": RUN, "name": FEATURE}, also=("feature", "layers", "summary")),
    Entry(
        "custom",
        features.custom,
        {"run": RUN, "layers": LAYERS},
        {"summary": choice(*features.SUMMARIES), "times_confidence": FLAG},
    ),
    Entry("available_features", features.available_features, {"run": RUN}),
    Entry("predictive_entropy", features.predictive_entropy, {"run": RUN}),
    Entry("check_layers", features.check_layers, {"layers": LAYERS, "n_layers": whole(1, 4)}),
    Entry(
        "CustomFeature",
        lambda layers, summary, times_confidence: _named(layers, summary, times_confidence),
        {"layers": LAYERS, "summary": choice(*features.SUMMARIES), "times_confidence": FLAG},
        covers=(CustomFeature,),
    ),
    Entry("search_candidates", feature_search.search_candidates, {"n_layers": whole(1, 6)}),
    Entry(
        "search_features",
        lambda run, **k: _searched(run, **k),
        {"run": RUN},
        {"n_shuffles": whole(1, 4), "n_bins": BINS, "quantiles": QUANTILES, **SUPPORT, **DRAWS},
        {"n_shuffles": 3},
        missing=dict.fromkeys(
            ("p_values", "shuffled", "holm", "effect", "paper", "audited", "paper_holm", "audited_holm"), UNTESTABLE
        ),
        covers=(feature_search.search_features, verdict_features.search_sentence),
        at_most=80,
    ),
    Entry(
        "judge_scores",
        verdict_scores.judge_scores,
        {"run": RUN},
        {"quantiles": QUANTILES, **SUPPORT},
        also=("feature",),
        missing=dict.fromkeys(("paper_p", "audited_p", "paper_p_holm", "audited_p_holm", "max_gap"), UNTESTABLE),
    ),
]


def _named(layers: Any, summary: Any, times_confidence: Any) -> object:
    chosen = CustomFeature(layers, summary, times_confidence)
    return chosen.name, chosen.label


def _searched(run: Any, **settings: Any) -> object:
    found = feature_search.search_features(run, **settings)
    thresholds = [test.threshold(alpha) for test in found.tests.values() for alpha in (0.05, 0.5)]
    return found, thresholds, verdict_features.search_sentence(found)


MECHANISM = [
    Entry(
        "depth_profile",
        mechanism.depth_profile,
        {"values": WILD_PROFILE, "correct": CORRECT},
        {
            "names": Kind(lambda s: TEXT.valid(s).map(lambda t: [t] * s.layers)),
            "n_sources": Kind(lambda s: TEXT.valid(s).map(lambda _: [2] * s.layers)),
        },
        missing={"mean_correct": "no correct prediction", "mean_wrong": "no wrong prediction"},
    ),
    Entry("spearman", mechanism.spearman, {"first": VALUES, "second": VALUES}),
    Entry("compare_outcomes", mechanism.compare_outcomes, {"rho": RHO, "correct": CORRECT}, {"n_bins": BINS}),
    Entry(
        "error_curve", mechanism.error_curve, TRIPLE, {"n_bins": BINS}, missing={"error_low": FEW, "error_high": FEW}
    ),
    Entry(
        "relate_to_error",
        lambda *a, **k: _related(*a, **k),
        TRIPLE,
        missing={"error_low": FEW, "error_high": FEW},
        covers=(mechanism.relate_to_error, verdict_browse.mechanism_sentence),
    ),
    Entry(
        "reliability_map",
        mechanism.reliability_map,
        TRIPLE,
        {"n_bins": BINS, "min_count": whole(1, 6), "quantiles": QUANTILES},
        missing={"gap": "the cell holds fewer samples than asked for"},
    ),
]


def _related(confidence: Any, correct: Any, rho: Any) -> object:
    relation = mechanism.relate_to_error(confidence, correct, rho)
    return relation, verdict_browse.mechanism_sentence(None, relation, "a feature", lacking="routing")


METHODS = Kind(lambda _: choice(*CALIBRATORS).valid(_).map(lambda name: [name]), choice().wrong)
SCORED = {"value": NO_PROFILE, "worst_tertile_ece": NO_PROFILE, "ci_low": NO_RESAMPLES, "ci_high": NO_RESAMPLES}
QUICK = ("none", "ts", "hb", "nw_conf", "nw_conf_entropy", "nw_conf_routing")


def _benchmarked(run: Any, **settings: Any) -> object:
    result = benchmark.run_benchmark(run, **settings)
    told: list[object] = [result, benchmark.learnt_table(result), benchmark.scoreboard([result])]
    told.append(benchmark.leader_in_run(result, "ece"))
    told.append(benchmark.leader_over_seeds(result.scores, "ece"))
    told.append(verdict_benchmark.judge_seeds(result.scores))
    told.append(benchmark.rank_one_counts(result.scores, "run_id"))
    identity = dict.fromkeys(("suite", "backbone", "dataset", "variant"), "x") | {
        "block_size": None,
        "run_id": result.run_id,
    }
    told.append(benchmark.aggregate_seeds(result.scores, pd.DataFrame([identity])))
    if result.n_bootstrap:
        told += [benchmark.contrast_in_run(result), verdict_benchmark.judge_run(result)]
    return told


def _laboratory(run: Any, multiplier: Any = 1.0, **settings: Any) -> object:
    lab = benchmark.BandwidthLab.prepare(run, **settings)
    return lab.evaluate(multiplier), lab.headline(multiplier), lab.surface(multiplier, n_points=5)


def _matched(run: Any, multiplier: Any = (1.0, 2.0), **settings: Any) -> object:
    lab = benchmark.MatchedLab.prepare(run, **settings)
    smoother = lab.smoother
    told: list[object] = [lab.score(name, multiplier) for name in lab.members]
    return [*told, smoother.slices(multiplier, n_points=5), smoother.shrinkage(multiplier), smoother.cells(4)]


def _curves(run: Any, **settings: Any) -> object:
    curves = benchmark.MatchedLab.prepare(run, **settings).curves()
    return (
        curves,
        verdict_bandwidth.judge_bandwidth([curves]),
        verdict_bandwidth.leads(curves) if curves.has_routing else None,
    )


def _sizes(run: Any, **settings: Any) -> object:
    frame = benchmark.calibration_size_sensitivity(run, ["ts"], **settings)
    return frame, benchmark.size_curves(frame, "ece")


def _splits(run: Any, **settings: Any) -> object:
    frame = benchmark.split_trials(benchmark.split_variance(run, ["ts"], **settings))
    return frame, benchmark.rank_one_counts(frame, "trial")


ON_RUN = {"feature": FEATURE, **DRAWS}
CULPRITS = ("feature", "layers", "summary", "metric")
MULTIPLIER = Kind(lambda _: number(1.0, 0.25, 1e-6, 1e6).valid(_), WRONG_NUMBERS)
PAIR_OF_MULTIPLES = Kind(lambda _: number(0.25, 1.0, 4.0).valid(_).map(lambda m: (m, 1.0)), WRONG_NUMBERS)
BENCHMARK = [
    Entry(
        "run_benchmark",
        _benchmarked,
        {"run": RUN},
        {**ON_RUN, "methods": METHODS, "bandwidth": BANDWIDTH, "n_bootstrap": whole(0, 3)},
        {"methods": QUICK, "n_bootstrap": 2},
        missing={
            **SCORED,
            "error": ONE_RUN,
            "low": ONE_RUN,
            "high": ONE_RUN,
            "bootstrap": NO_RESAMPLES,
            "std": ONE_RUN,
            "mean": NO_PROFILE,
            "block_size": "the run has none",
            "place": NO_PROFILE,
            "difference": NO_PROFILE,
            **dict.fromkeys(benchmark.METRICS, NO_PROFILE),
        },
        covers=(
            benchmark.run_benchmark,
            benchmark.learnt_table,
            benchmark.scoreboard,
            benchmark.leader_in_run,
            benchmark.leader_over_seeds,
            benchmark.rank_one_counts,
            benchmark.ranks,
            benchmark.aggregate_seeds,
            benchmark.contrast_in_run,
            benchmark.contrast_over_seeds,
            verdict_benchmark.judge_run,
            verdict_benchmark.judge_seeds,
        ),
        also=CULPRITS,
        at_least=36,
        at_most=90,
    ),
    Entry(
        "feature_ablation",
        benchmark.feature_ablation,
        {"run": RUN},
        {"bandwidth": MULTIPLIER, **DRAWS},
        {"features": ("r_std", "confidence")},
        missing=SCORED,
        also=CULPRITS,
        at_least=36,
        at_most=60,
    ),
    Entry(
        "bandwidth_sensitivity",
        benchmark.bandwidth_sensitivity,
        {"run": RUN},
        ON_RUN,
        missing=SCORED,
        also=CULPRITS,
        at_least=36,
        at_most=60,
    ),
    Entry(
        "BandwidthLab",
        _laboratory,
        {"run": RUN},
        {**ON_RUN, "multiplier": MULTIPLIER},
        missing=SCORED | {"value": FAR},
        covers=(benchmark.BandwidthLab,),
        also=(*CULPRITS, "bandwidth"),
        at_least=36,
        at_most=60,
    ),
    Entry(
        "MatchedLab",
        _matched,
        {"run": RUN},
        {**ON_RUN, "multiplier": PAIR_OF_MULTIPLES},
        missing=SCORED
        | dict.fromkeys(
            ("confidence", "tertiles", "controls", "low", "mid", "high", "nw_conf", "nw_conf_entropy"), FAR
        ),
        covers=(benchmark.MatchedLab, benchmark.Smoother),
        also=(*CULPRITS, "bandwidth"),
        at_least=36,
        at_most=60,
    ),
    Entry(
        "bandwidth curves",
        _curves,
        {"run": RUN},
        {},
        missing=SCORED | {"lead": NO_PROFILE, "spread": ONE_RUN},
        covers=(verdict_bandwidth.judge_bandwidth, verdict_bandwidth.leads),
        also=CULPRITS,
        at_least=40,
        at_most=60,
    ),
    Entry(
        "calibration sizes",
        _sizes,
        {"run": RUN},
        {**ON_RUN, "n_draws": whole(1, 2), "bandwidth": BANDWIDTH, "sizes": LABELS},
        {"sizes": (5, 10), "n_draws": 2},
        missing=SCORED | {"mean": NO_PROFILE, "std": NO_PROFILE},
        covers=(benchmark.calibration_size_sensitivity, benchmark.size_curves),
        also=CULPRITS,
        at_least=36,
        at_most=60,
    ),
    Entry(
        "split variance",
        _splits,
        {"run": RUN},
        {**ON_RUN, "n_splits": whole(1, 2), "bandwidth": BANDWIDTH},
        {"n_splits": 2},
        missing=SCORED,
        covers=(benchmark.split_variance, benchmark.split_trials),
        also=CULPRITS,
        at_least=36,
        at_most=60,
    ),
]

SWEEP = [
    Entry("uniform_order_statistics", sweep.uniform_order_statistics, {"n": whole(0, 30)}, {"level": FRACTION}),
    Entry("ensemble_size", sweep.ensemble_size, {"suite": TEXT}),
    Entry("chance_range", sweep.chance_range, {"n": whole(0, 30)}, {"alpha": FRACTION, "level": FRACTION}),
]

NUMBER = number(0.0, -0.0, 1e308, -1.5, 5e-324, 0.123456)
WORDS = [
    Entry(
        "published.load",
        published.load,
        {"table": choice(*published.TABLES, published.STATEMENTS)},
        missing=dict.fromkeys(("value", "std", "n"), "the paper leaves the cell empty"),
    ),
]

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        *METRICS,
        *GAPS,
        *CONTROLS,
        *KERNEL,
        *FITTED,
        *PROBES_,
        *FEATURES,
        *MECHANISM,
        *BENCHMARK,
        *SWEEP,
        *WORDS,
    )
}
