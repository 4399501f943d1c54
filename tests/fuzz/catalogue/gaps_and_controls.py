"""Metrics, gaps, their tests and controls."""

from __future__ import annotations

from typing import Any

from engine import controls, gaps, metrics, verdict
from engine.controls import table as trust
from engine.core import binning, contingency, pvalues, rounding
from engine.metrics import debiased, reliability
from engine.verdict import wording as verdict_browse
from tests.fuzz.catalogue.entry import (
    ACCURACIES,
    CUT,
    DRAWS,
    EMPTY_BIN,
    P_METHOD,
    PAIR,
    PREDICTED,
    SUPPORT,
    TRIPLE,
    UNTESTABLE,
    Entry,
    on_counts,
    with_settings,
)
from tests.fuzz.strategies import (
    BINS,
    CONFIDENCE,
    CORRECT,
    FLAG,
    FRACTION,
    LABELS,
    MATCHING,
    P_VALUES,
    PROBABILITIES,
    QUANTILES,
    RHO,
    SOME_BINS,
    TEXT,
    Kind,
    choice,
    number,
    whole,
)

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
    Entry("debiased_ece", debiased.debiased_ece, PAIR, {"n_bins": BINS, "matching": MATCHING}),
    Entry("find_rounding", rounding.find_rounding, {"confidence": CONFIDENCE}),
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
        pvalues.wilson_interval,
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
            "statistic": choice("max_gap", "weighted_gap", "cmh"),
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
    Entry("shape_test", gaps.shape_test, TRIPLE, {"clusters": LABELS}),
    Entry("combined_test", gaps.combined_test, TRIPLE, {"clusters": LABELS}, covers=(gaps.combined_test, gaps.combine)),
    Entry("routing_gain", gaps.routing_gain, TRIPLE, {"clusters": LABELS, **DRAWS}),
    Entry(
        "effect_bound",
        gaps.effect_bound,
        {"effect": number(-1.0, 0.0, 0.1), "standard_error": number(0.0, 0.1, 1.0)},
        {"alpha": FRACTION},
    ),
    Entry(
        "effect_by_decile",
        gaps.effect_by_decile,
        {**TRIPLE, "outputs": PROBABILITIES},
        {"rung": whole(0, 3), "n_groups": whole(2, 12), **DRAWS},
        missing=dict.fromkeys(("values", "low", "high", "fitted"), "ties leave no sample in the group"),
    ),
    Entry("ladder_test", gaps.ladder_test, {**TRIPLE, "outputs": PROBABILITIES}, DRAWS),
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
        on_counts(gaps.gap_of_counts),
        TRIPLE,
        {"n_bins": BINS, **SUPPORT},
        missing=ACCURACIES,
        covers=(gaps.gap_of_counts,),
    ),
    Entry(
        "permutation_test_of_counts",
        on_counts(gaps.permutation_test_of_counts),
        TRIPLE,
        {"n_bins": BINS, **SUPPORT, **DRAWS, "n_permutations": whole(1, 30)},
        missing=ACCURACIES,
        covers=(gaps.permutation_test_of_counts,),
    ),
    Entry(
        "bootstrap_gap_of_counts",
        on_counts(gaps.bootstrap_gap_of_counts),
        TRIPLE,
        {"n_bins": BINS, **SUPPORT, **DRAWS, "n_resamples": whole(1, 30), "level": FRACTION},
        missing=ACCURACIES,
        covers=(gaps.bootstrap_gap_of_counts,),
    ),
    Entry("TestSettings", gaps.TestSettings, {}, {"n_bins": BINS, "quantiles": QUANTILES, **SUPPORT}),
    Entry("primary_bins", gaps.primary_bins, {"n_samples": whole(0, 1000)}),
    Entry("adjust_pvalues", pvalues.adjust_pvalues, {"p": P_VALUES, "method": choice(*pvalues.ADJUSTMENTS)}),
    Entry(
        "adjust_tested",
        pvalues.adjust_tested,
        {"p": P_VALUES, "method": choice(*pvalues.ADJUSTMENTS)},
        missing={"result": "a test that could not be run"},
    ),
    Entry("split", binning.split, {"n": whole(2, 50)}, DRAWS),
]


def _trusted(confidence: Any, correct: Any, rho: Any, tests: Any = ("paper", "primary_cmh"), **settings: Any) -> object:
    alarms = controls.false_alarm_rate(confidence, correct, rho, tests=tests, **settings)
    power = controls.power_curve(confidence, correct, rho, tests=tests, deltas=(0.0, 0.2), **settings)
    return trust.controls_table(confidence, correct, rho, alarms, power, settings=settings["settings"])


PLANTED = {"shape": choice(*controls.SHAPES), "scale": choice(*controls.SCALES)}
WORLDS = {
    "tests": Kind(lambda _: choice(*controls.SIMULATED).valid(_).map(lambda name: (name,)), choice().wrong),
    "alpha": FRACTION,
    "n_bins": BINS,
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
        {"quantiles": QUANTILES, **PLANTED, **DRAWS},
    ),
    Entry(
        "false_alarm_rate",
        with_settings(controls.false_alarm_rate),
        TRIPLE,
        WORLDS,
        FEW_WORLDS,
        covers=(controls.false_alarm_rate,),
        missing=dict.fromkeys(("p_values", *controls.SIMULATED), UNTESTABLE),
    ),
    Entry(
        "power_curve",
        with_settings(controls.power_curve),
        TRIPLE,
        {**WORLDS, **PLANTED, "deltas": CONFIDENCE},
        FEW_WORLDS | {"deltas": (0.0, 0.2)},
        covers=(controls.power_curve,),
    ),
    Entry(
        "controls_table",
        with_settings(_trusted),
        TRIPLE,
        WORLDS,
        FEW_WORLDS,
        missing={"p": UNTESTABLE, "detectable": "no delta reaches the power"},
        covers=(trust.controls_table, trust.reading),
    ),
    Entry(
        "positive_control",
        controls.positive_control,
        TRIPLE,
        {"alpha": FRACTION, **DRAWS, "n_replicates": whole(1, 3)},
        {"n_replicates": 2},
    ),
    Entry(
        "real_control",
        lambda confidence, correct, rho, **settings: controls.real_control(
            confidence, correct, {"other": rho}, **settings
        ),
        TRIPLE,
        {"alpha": FRACTION},
        covers=(controls.real_control,),
        missing={"p_value": UNTESTABLE, "z": UNTESTABLE},
    ),
    Entry(
        "judge",
        with_settings(verdict.judge),
        TRIPLE,
        {
            "feature": TEXT,
            "controls": FLAG,
            "clusters": LABELS,
            "n_bins": BINS,
            "alpha": FRACTION,
            "n_resamples": whole(1, 20),
            "n_replicates": whole(1, 3),
            "quantiles": QUANTILES,
            **SUPPORT,
            **DRAWS,
        },
        {"n_resamples": 20, "n_replicates": 2},
        covers=(verdict.judge,),
        missing=ACCURACIES | dict.fromkeys(("p_values", "verdict", "paper"), UNTESTABLE),
    ),
]
