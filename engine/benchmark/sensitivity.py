"""How far the answer depends on choices: size of the calibration half, the split, and the feature."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pandas as pd

from engine.benchmark.scores import HEADLINE, headline_scores, predict, predict_kernel
from engine.benchmark.setup import (
    ROUTING,
    TERTILE_FEATURE,
    Halves,
    check_methods,
    feature_name,
    halve,
    make_calibrator,
    make_kernel,
    pick,
)
from engine.calibrators import CALIBRATORS, Bandwidth, Samples
from engine.core import validation
from engine.core.binning import SPLIT_SEED
from engine.core.errors import InvalidInput
from engine.core.types import Progress, RunData, silent
from engine.features import FEATURES, CustomFeature

SIZES = (250, 500, 1000, 2500, 5000)
N_DRAWS, N_SPLITS = 5, 10


def _scored(
    halves: Halves, calibration: Samples, names: list[str], bandwidth: Bandwidth
) -> Iterator[tuple[str, str, float]]:
    for name in names:
        fitted = make_calibrator(name, halves.feature_name, bandwidth).fit_samples(calibration)
        prediction, _ = predict(fitted, halves.evaluation)
        scores = headline_scores(prediction, halves.evaluation, halves.tertile_rho)
        yield from ((name, metric, scores[metric]) for metric in HEADLINE)


def _available(names: list[str], halves: Halves) -> list[str]:
    return [name for name in names if name != ROUTING or not halves.feature_note]


def calibration_size_sensitivity(
    run: RunData,
    methods: Sequence[str] = tuple(CALIBRATORS),
    *,
    sizes: Sequence[int] = SIZES,
    n_draws: int = N_DRAWS,
    feature: str | CustomFeature = TERTILE_FEATURE,
    bandwidth: Bandwidth = 1.0,
    seed: int = SPLIT_SEED,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Refit on random subsets of the calibration half, judged on the same other half (the paper's App. on set size).

    Tidy frame: run_id, size, draw, method, metric, value. Sizes beyond the calibration half are left out; a subset is
    drawn without replacement, so at the full size all draws agree.
    """
    names = check_methods(methods)
    validation.draws("n_draws", n_draws)
    halves = halve(run, feature, seed)
    names = _available(names, halves)
    n_calibration = halves.calibration.n_samples
    if not isinstance(sizes, (tuple, list, range)):
        raise InvalidInput("sizes", "a list of numbers of samples", validation.shown(sizes))
    usable = [size for size in sizes if validation.whole("sizes", size, 2) <= n_calibration]
    if not usable:
        raise InvalidInput("sizes", f"a size of at most {n_calibration}, the calibration half", repr(list(sizes)))
    report = progress or silent
    rng = np.random.default_rng(seed)
    rows = []
    trials = [(size, draw) for size in usable for draw in range(n_draws)]
    for position, (size, draw) in enumerate(trials):
        report(position / len(trials), f"{size} calibration samples, draw {draw + 1}")
        subset = pick(halves.calibration, rng.permutation(n_calibration)[:size])
        rows += [(run.run_id, size, draw, *score) for score in _scored(halves, subset, names, bandwidth)]
    report(1.0, "done")
    return pd.DataFrame(rows, columns=["run_id", "size", "draw", "method", "metric", "value"])


def split_variance(
    run: RunData,
    methods: Sequence[str] = tuple(CALIBRATORS),
    *,
    n_splits: int = N_SPLITS,
    feature: str | CustomFeature = TERTILE_FEATURE,
    bandwidth: Bandwidth = 1.0,
    seed: int = SPLIT_SEED,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The benchmark on `n_splits` random halvings, seeded seed, seed + 1, ...; the first is the protocol's own.

    Tidy frame: run_id, split (its seed), method, metric, value; `rank_one_counts(frame, "split")` counts winners.
    """
    names = check_methods(methods)
    validation.draws("n_splits", n_splits)
    validation.seed(seed)
    report = progress or silent
    rows = []
    for position in range(n_splits):
        report(position / n_splits, f"split {position + 1} of {n_splits}")
        halves = halve(run, feature, seed + position)
        kept = _available(names, halves)
        scored = _scored(halves, halves.calibration, kept, bandwidth)
        rows += [(run.run_id, seed + position, *score) for score in scored]
    report(1.0, "done")
    return pd.DataFrame(rows, columns=["run_id", "split", "method", "metric", "value"])


def size_curves(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean and standard deviation (ddof 0) of a metric over the draws, and runs, of `calibration_size_sensitivity`.

    Columns: method, size, mean, std, n.
    """
    kept = frame[frame["metric"] == validation.choice("metric", metric, HEADLINE)].dropna(subset=["value"])
    grouped = kept.groupby(["method", "size"], sort=False)["value"]
    return grouped.agg(mean="mean", std=lambda values: values.std(ddof=0), n="count").reset_index()


GAINS_OVER = {"delta_vs_confidence": "confidence", "delta_vs_pred_entropy": "pred_entropy"}
"""Columns of gains, and the feature that each is a gain over."""


def feature_ablation(
    run: RunData,
    features: Sequence[str | CustomFeature] = tuple(FEATURES),
    *,
    bandwidth: Bandwidth = 1.0,
    seed: int = SPLIT_SEED,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The kernel on (c, rho) for each candidate rho; confidence itself is the kernel on c alone.

    Tidy frame: run_id, feature, metric, value, and the gain over the two controls (control minus this feature, so
    positive where the feature is better): delta_vs_confidence, delta_vs_pred_entropy. Features that the run lacks are
    left out.
    """
    report = progress or silent
    wanted = [*GAINS_OVER.values(), *(name for name in features if name not in GAINS_OVER.values())]
    scores = {}
    for position, name in enumerate(wanted):
        report(position / len(wanted), f"feature {feature_name(name)}")
        halves = halve(run, name, seed)
        if halves.feature_note:
            continue
        fitted = make_kernel(halves.feature_name, bandwidth).fit_samples(halves.calibration)
        prediction, _ = predict_kernel(fitted, halves.evaluation)
        scores[halves.feature_name] = headline_scores(prediction, halves.evaluation, halves.tertile_rho)
    report(1.0, "done")
    asked = [feature_name(name) for name in features if feature_name(name) in scores]
    rows = []
    for name, metric in product(asked, HEADLINE):
        gains = (scores[control][metric] - scores[name][metric] for control in GAINS_OVER.values())
        rows.append((run.run_id, name, metric, scores[name][metric], *gains))
    return pd.DataFrame(rows, columns=["run_id", "feature", "metric", "value", *GAINS_OVER])
