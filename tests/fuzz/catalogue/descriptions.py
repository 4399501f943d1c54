"""Features and what describes routing without a test."""

from __future__ import annotations

from typing import Any

from engine import features
from engine.features import CustomFeature
from engine.features import search as feature_search
from engine.metrics import mechanism
from engine.verdict import features as verdict_features
from engine.verdict import wording as verdict_browse
from tests.fuzz.catalogue.entry import (
    DRAWS,
    FEW,
    SUPPORT,
    TRIPLE,
    UNTESTABLE,
    Entry,
    with_settings,
)
from tests.fuzz.strategies import (
    BINS,
    CORRECT,
    FEATURE,
    FLAG,
    QUANTILES,
    RHO,
    RUN,
    TEXT,
    VALUES,
    WILD_PROFILE,
    Kind,
    choice,
    whole,
)

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
        with_settings(lambda run, **k: _searched(run, **k)),
        {"run": RUN},
        {"n_shuffles": whole(1, 4), "n_bins": BINS, "quantiles": QUANTILES, **SUPPORT, **DRAWS},
        {"n_shuffles": 3},
        missing=dict.fromkeys(
            ("p_values", "shuffled", "holm", "effect", "paper", "verdict", "paper_holm", "verdict_holm"), UNTESTABLE
        ),
        covers=(feature_search.search_features, verdict_features.search_sentence),
        at_most=80,
    ),
    Entry(
        "judge_scores",
        with_settings(verdict_features.judge_scores),
        {"run": RUN},
        {"quantiles": QUANTILES, **SUPPORT},
        also=("feature",),
        covers=(verdict_features.judge_scores, verdict_features.score_row),
        missing=dict.fromkeys(("paper_p", "verdict_p", "paper_p_holm", "verdict_p_holm", "max_gap"), UNTESTABLE),
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
