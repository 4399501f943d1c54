"""What Mechanism shows, computed once for all viewers. Objects are shared: do not change them."""

import pandas as pd

from app.compute.cache import run_table
from app.compute.keep import keep
from app.compute.reliability import diagram
from app.report.study import depth_of
from app.shell.wording import typeset
from app.state.selection import feature_label, known_features
from app.state.view import View
from engine.core.labels import ensemble_size, format_p
from engine.metrics.mechanism import DepthProfile, ErrorRelation, TrainingEntropy, relate_to_error, training_entropy


@keep(max_entries=128, by=lambda view: view.selection.of_any_feature)
def depth(view: View) -> DepthProfile | None:
    """The routing profile by layer; of a run without one, its extra columns; None if there are none either."""
    if view.row["n_layers"] == 0 and not len(view.row["extra_names"]):
        return None
    return depth_of(view.run, run_table(view.cache, view.run.run_id, "layers"))


def stand_in(view: View) -> str:
    """The chosen feature, or what replaces it in a run that lacks it: r_agg, its last extra column, its confidence."""
    if view.rho is not None:
        return view.selection.feature
    return "r_agg" if view.run.n_layers else next(reversed(view.run.extra), "confidence")


@keep(max_entries=256, by=lambda view, name: (view.selection.of_any_feature, name))
def relation(view: View, name: str) -> ErrorRelation:
    """How a feature goes with being wrong; raises what the engine raises for one that the run lacks."""
    return relate_to_error(view.run.confidence, view.run.correct, view.feature(name))


def correlations(view: View) -> pd.DataFrame:
    """Every feature of this run against the error: rank correlation with interval and p, separation of wrong ones."""
    rows = []
    for name in known_features(view.row):
        found = relation(view, name)
        rank, outcomes = found.spearman, found.outcomes
        interval = "" if rank is None or rank.low is None else typeset(f"[{rank.low:.3f}, {rank.high:.3f}]")
        rows.append(
            {
                "feature": feature_label(name),
                "spearman": None if rank is None else rank.value,
                "interval": interval,
                "p": "" if rank is None else format_p(rank.p_value).removeprefix("p ").removeprefix("= "),
                "separation": outcomes.separation,
                "mean_correct": outcomes.mean_correct,
                "mean_wrong": outcomes.mean_wrong,
            }
        )
    return pd.DataFrame(rows)


def single_model(view: View) -> str:
    """The id of the single model behind this run: its own, unless it is an ensemble."""
    return view.selection.run_id.removesuffix(f"-last{ensemble_size(view.row['suite'])}")


def training(view: View) -> tuple[TrainingEntropy | None, dict[int, str]]:
    """Entropy through training of the single model behind this run, and the names of its layers."""
    run_id = single_model(view)
    if run_id not in view.runs.index:
        return None, {}
    layers = run_table(view.cache, run_id, "layers")
    names = dict(zip(layers["layer"], layers["name"], strict=True))
    return training_entropy(run_table(view.cache, run_id, "epochs")), names


def ensemble_pair(view: View) -> tuple[View, View] | None:
    """Last epoch and ensemble of this model, if the cache holds both and the slice leaves samples in both."""
    single, runs = single_model(view), view.runs
    of_it = [run_id for run_id, suite in runs["suite"].items() if run_id == f"{single}-last{ensemble_size(suite)}"]
    if single not in runs.index or not of_it:
        return None
    last, ensemble = view.of_run(single), view.of_run(of_it[0])
    return None if diagram(last) is None or diagram(ensemble) is None else (last, ensemble)
