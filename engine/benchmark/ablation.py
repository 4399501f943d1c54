"""Which scalar serves AR-CondCal best: the seven candidates, and any of one's own."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.benchmark.halves import feature_name, halve
from engine.benchmark.methods import make_kernel
from engine.benchmark.scores import HEADLINE, headline_scores, predict_kernel
from engine.calibrators import Bandwidth
from engine.core.splitting import SPLIT_SEED
from engine.core.types import Progress, RunData, silent
from engine.features import FEATURES, CustomFeature

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
    rows = [
        (
            run.run_id,
            name,
            metric,
            scores[name][metric],
            *(scores[control][metric] - scores[name][metric] for control in GAINS_OVER.values()),
        )
        for name in asked
        for metric in HEADLINE
    ]
    return pd.DataFrame(rows, columns=["run_id", "feature", "metric", "value", *GAINS_OVER])
