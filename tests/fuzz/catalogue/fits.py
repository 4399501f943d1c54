"""Kernels, calibrators and probes: what is fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from engine import kernel, probes
from engine.calibrators import CALIBRATORS, KernelCalibrator
from engine.probes.result import PROBES
from engine.verdict import probes as verdict_probes
from tests.fuzz.catalogue.entry import (
    CONSTANT,
    DRAWS,
    FAR,
    ONE_RUN,
    Entry,
)
from tests.fuzz.strategies import (
    CONFIDENCE,
    CORRECT,
    LABELS,
    LOGITS,
    RHO,
    RUN,
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


def _primary(confidence: Any, entropies: Any, correct: Any, **settings: Any) -> object:
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
    return pooled, verdict_probes.judge_probe_sweep(pooled)


PROBE_ENTRIES = [
    Entry(
        "probes.audit",
        _primary,
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
        covers=(probes.audit_run, probes.pool, verdict_probes.judge_probe_sweep),
    ),
    Entry("probes.descriptor", probes.descriptor, {"run": RUN}, {"layer_names": TEXT}),
]
