"""What the Feature lab shows, computed once for all viewers. Objects are shared: do not change them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from app.compute.cache import run_table
from app.compute.jobs import Work, within_a_job
from app.compute.keep import keep
from app.state.selection import N_SIMULATIONS, feature_label
from app.state.view import View
from engine.benchmark import contrast_in_run, feature_ablation, run_benchmark
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import Progress, RunData, part_of
from engine.features import CustomFeature, available_features, feature
from engine.features.search import FeatureSearch, search_features
from engine.gaps import PermutationResult, permutation_test
from engine.verdict import Verdict, judge
from engine.verdict.features import judge_scores, score_row

KERNELS = ("nw_conf", "nw_conf_entropy", "nw_conf_routing")
SCORES = ("ece", "worst_tertile_ece", "nll")
TESTED = ("max_gap", "paper_p", "verdict_p")
_NUMBERS = dict.fromkeys((*TESTED, *SCORES), np.float64)


def search(view: View, n_shuffles: int) -> Work[FeatureSearch]:
    """The search over these samples."""
    run, settings = view.run, view.selection.protocol.test_settings

    def compute(progress: Progress) -> FeatureSearch:
        return search_features(run, n_shuffles=n_shuffles, progress=progress, settings=settings)

    return Work(("search", view.selection.of_any_feature, n_shuffles), view.kept_by, compute)


def layer_names(view: View) -> list[str]:
    """Names of the layers of this run's profile, first to last."""
    return run_table(view.cache, view.selection.run_id, "layers").sort_values("layer")["name"].tolist()


@keep(max_entries=128, by=lambda view, own: (view.selection.of_any_feature, own))
def gap(view: View, own: CustomFeature) -> PermutationResult:
    """The paper's test of a scalar of one's own."""
    given = view.run.confidence, view.run.correct, feature(view.run, own)
    return permutation_test(*given, **view.selection.protocol.test_settings.keywords)


def verdict(view: View, own: CustomFeature) -> Work[Verdict]:
    """Both tests of a scalar of one's own, with their controls."""
    run, samples = view.run, view.selection.of_any_feature

    def compute(progress: Progress) -> Verdict:
        given = run.confidence, run.correct, feature(run, own)
        return judge(
            *given,
            feature=own.label,
            clusters=run.clusters,
            n_replicates=N_SIMULATIONS,
            progress=progress,
            settings=samples.protocol.test_settings,
        )

    return Work(("verdict on a scalar", samples, own), view.kept_by, compute)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """AR-CondCal with a scalar against its controls, or `missing`: why there is nothing to fit.

    scores : of the scalar, by its name.
    """

    contrasts: pd.DataFrame | None
    scores: pd.DataFrame
    missing: str


def calibrated(view: View, own: CustomFeature) -> Work[Calibrated]:
    """The kernel on (confidence, scalar) minus its two controls; all samples of the run, half of them held out."""
    cache, run_id = view.cache, view.selection.run_id

    def compute(progress: Progress) -> Calibrated:
        run = cache.load(run_id)
        scores = _scores(run, (own,), part_of(progress, 0, 0.5))
        try:
            result = run_benchmark(run, KERNELS, feature=own, progress=part_of(progress, 0.5, 0.5))
        except (MissingData, InvalidInput) as error:
            return Calibrated(None, scores, str(error))
        return Calibrated(contrast_in_run(result, SCORES), scores, "")

    return Work(("calibrated with a scalar", run_id, own), view.kept_by, compute)


def _scores(run: RunData, asked: Sequence[str | CustomFeature], progress: Progress) -> pd.DataFrame:
    """Scores of AR-CondCal with each scalar on the held-out half, by its name; empty where nothing can be fitted."""
    try:
        found = feature_ablation(run, asked, progress=progress)
    except (MissingData, InvalidInput):
        return pd.DataFrame(columns=SCORES)
    return found.pivot_table(index="feature", columns="metric", values="value", dropna=False)[list(SCORES)]


def candidates(view: View) -> Work[pd.DataFrame]:
    """Every feature and column that the run has: tests on these samples, scores on the held-out half."""
    cache, run, samples = view.cache, view.run_with_logits, view.selection.of_any_feature
    names = available_features(run)
    # The scores know no slice and no settings of a test: they outlive a change of those.
    fits = Work(
        ("scores of the features", samples.run_id),
        view.kept_by,
        lambda progress: _scores(cache.load(samples.run_id), names, progress),
    )
    scores = within_a_job(fits)

    def compute(progress: Progress) -> pd.DataFrame:
        scored = scores(part_of(progress, 0, 0.7))
        tested = judge_scores(
            run, names, settings=samples.protocol.test_settings,
            progress=part_of(progress, 0.7, 0.3),
        )  # fmt: skip
        table = pd.DataFrame({"label": {name: feature_label(name) for name in names}})
        table = table.join(tested.set_index("name")[list(TESTED)]).join(scored)
        return table.reset_index(drop=True).astype(_NUMBERS)

    return Work(("candidates", samples), view.kept_by, compute)


def own_row(own: CustomFeature, judged: Verdict | None, fitted: Calibrated | None) -> pd.DataFrame | None:
    """The scalar of one's own as a row below the named ones; None as long as a part of it is not there."""
    if judged is None or fitted is None:
        return None
    row = {
        "label": f"yours: {own.label}",
        **score_row(judged.paper, judged.p_value, judged.primary),
        **fitted.scores.reindex([own.name]).iloc[0],
    }
    return pd.DataFrame([row]).astype(_NUMBERS)
