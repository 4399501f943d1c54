"""The benchmark and the studies around it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine import benchmark
from engine.calibrators import CALIBRATORS
from engine.verdict import bandwidth as verdict_bandwidth
from engine.verdict import benchmark as verdict_benchmark
from tests.fuzz.catalogue.entry import (
    DRAWS,
    FAR,
    NO_INTERVAL,
    NO_PROFILE,
    ONE_RUN,
    Entry,
)
from tests.fuzz.catalogue.fits import BANDWIDTH
from tests.fuzz.strategies import (
    FEATURE,
    LABELS,
    RUN,
    WRONG_NUMBERS,
    Kind,
    choice,
    number,
    whole,
)

METHODS = Kind(lambda _: choice(*CALIBRATORS).valid(_).map(lambda name: [name]), choice().wrong)
SCORED = {
    "value": NO_PROFILE,
    "worst_tertile_ece": NO_PROFILE,
    "ci_low": NO_INTERVAL,
    "ci_high": NO_INTERVAL,
    "debiased": NO_INTERVAL,
}
QUICK = ("none", "ts", "hb", "nw_conf", "nw_conf_entropy", "nw_conf_routing")


def _benchmarked(run: Any, **settings: Any) -> object:
    result = benchmark.run_benchmark(run, **settings)
    told: list[object] = [result, result.learnt, benchmark.scoreboard([result])]
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
            "bootstrap": NO_PROFILE,
            "std": ONE_RUN,
            "mean": NO_PROFILE,
            "block_size": "the run has none",
            "place": NO_PROFILE,
            "difference": NO_PROFILE,
            **dict.fromkeys(benchmark.METRICS, NO_PROFILE),
        },
        covers=(
            benchmark.run_benchmark,
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
