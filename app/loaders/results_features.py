"""What the Feature lab shows, computed once for all viewers. Objects are shared: do not change them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from app.loaders.cache import load_run, run_table
from app.loaders.keeping import keep
from app.selection import Selection
from app.view import View
from engine.benchmark import contrast_in_run, feature_ablation, run_benchmark
from engine.errors import InvalidInput, MissingData
from engine.feature_search import FeatureSearch, search_features
from engine.features import FEATURES, CustomFeature, feature
from engine.gaps import PermutationResult, permutation_test, trend_test
from engine.types import Progress, RunData
from engine.verdict import Verdict, judge

KERNELS = ("nw_conf", "nw_conf_entropy", "nw_conf_routing")
SCORES = ("ece", "worst_tertile_ece", "nll")
_NUMBERS = dict.fromkeys(("max_gap", "paper", "audited", *SCORES), np.float64)


def search_job(view: View, n_shuffles: int) -> tuple[Hashable, Callable[[Progress], FeatureSearch]]:
    """The search over these samples for `long_work`: its key and how to compute it."""
    run, settings = view.run, view.selection.protocol.test_settings
    return ("feature search", view.selection.of_any_feature, n_shuffles), lambda progress: search_features(
        run, n_shuffles=n_shuffles, progress=progress, **settings
    )


def layer_names(view: View) -> list[str]:
    """Names of the layers of this run's profile, first to last."""
    return run_table(view.cache, view.selection.run_id, "layers").sort_values("layer")["name"].tolist()


@keep(max_entries=128)
def _gap(samples: Selection, own: CustomFeature, _run: RunData) -> PermutationResult:
    return _paper_test(_run, own, samples)


def _paper_test(run: RunData, name: str | CustomFeature, samples: Selection) -> PermutationResult:
    return permutation_test(run.confidence, run.correct, feature(run, name), **samples.protocol.test_settings)


def gap(view: View, own: CustomFeature) -> PermutationResult:
    """The paper's test of a scalar of one's own."""
    return _gap(view.selection.of_any_feature, own, view.run)


@keep(max_entries=64, show_spinner="Testing, and testing the tests")
def _verdict(samples: Selection, own: CustomFeature, _run: RunData) -> Verdict:
    rho = feature(_run, own)
    return judge(_run.confidence, _run.correct, rho, feature=own.label, **samples.protocol.test_settings)


def verdict(view: View, own: CustomFeature) -> Verdict:
    """Both tests of a scalar of one's own, with their controls."""
    return _verdict(view.selection.of_any_feature, own, view.run)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """AR-CondCal with a scalar against its controls, or `missing`: why there is nothing to fit."""

    contrasts: pd.DataFrame | None
    n_evaluation: int
    missing: str


@keep(max_entries=64, show_spinner="Fitting on the calibration half")
def _calibrated(fingerprint: str, run_id: str, own: CustomFeature, _view: View) -> Calibrated:  # noqa: ARG001
    try:
        result = run_benchmark(load_run(_view.cache, run_id, with_logits=True), KERNELS, feature=own)
    except (MissingData, InvalidInput) as error:
        return Calibrated(None, 0, str(error))
    return Calibrated(contrast_in_run(result, SCORES), result.n_evaluation, "")


def calibrated(view: View, own: CustomFeature) -> Calibrated:
    """The kernel on (confidence, scalar) minus its two controls; all samples of the run, half of them held out."""
    return _calibrated(view.selection.fingerprint, view.selection.run_id, own, view)


@keep(max_entries=64)
def _scores(fingerprint: str, run_id: str, own: CustomFeature | None, _view: View) -> pd.DataFrame:  # noqa: ARG001
    asked = tuple(FEATURES) if own is None else (own,)
    try:
        found = feature_ablation(load_run(_view.cache, run_id, with_logits=True), asked)
    except (MissingData, InvalidInput):
        return pd.DataFrame(columns=SCORES)
    return found.pivot_table(index="feature", columns="metric", values="value", dropna=False)[list(SCORES)]


def _row(run: RunData, name: str | CustomFeature, samples: Selection) -> dict[str, object]:
    """Gap and both p-values; empty where the run lacks the feature."""
    if isinstance(name, str) and not FEATURES[name].available(run):
        return {"max_gap": None, "paper": None, "audited": None}
    paper = _paper_test(run, name, samples)
    audited = trend_test(run.confidence, run.correct, feature(run, name))
    return {"max_gap": paper.observed, "paper": paper.p_value, "audited": audited.p_value}


@keep(max_entries=64)
def _named(samples: Selection, _view: View) -> pd.DataFrame:
    run = _view.run_with_logits
    scores = _scores(samples.fingerprint, samples.run_id, None, _view)
    rows = [{"label": entry.label, **_row(run, name, samples)} for name, entry in FEATURES.items()]
    return pd.DataFrame(rows).join(scores.reindex(list(FEATURES)).reset_index(drop=True)).astype(_NUMBERS)


def candidates(view: View, own: CustomFeature | None) -> pd.DataFrame:
    """The seven features, then the scalar of one's own: tests on these samples, kernel scores on the held-out half."""
    samples = view.selection.of_any_feature
    named = _named(samples, view)
    if own is None:
        return named
    scores = _scores(samples.fingerprint, samples.run_id, own, view).reindex([own.name]).iloc[0]
    row = {"label": f"yours: {own.label}", **_row(view.run, own, samples), **scores}
    return pd.concat([named, pd.DataFrame([row]).astype(_NUMBERS)], ignore_index=True)
