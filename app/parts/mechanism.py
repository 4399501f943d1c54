"""Parts of the Mechanism page: routing across depth, samples and training, and an ensemble beside its last epoch."""

import pandas as pd
import streamlit as st

from app.compute import mechanism as compute
from app.compute import paper
from app.compute.cache import run_table
from app.compute.reliability import diagram
from app.plots import mechanism as plots
from app.shell.long_work import long_work
from app.shell.page import Page
from app.state.selection import feature_label
from engine.core.labels import ensemble_size, name_cells


def depth(page: Page) -> None:
    """The profile of the run."""
    profile, routed = compute.depth(page.view), page.view.row["n_layers"] > 0
    if profile is None:
        page.text(
            "This run has neither a routing profile nor other columns by layer, so routing across depth cannot be "
            "shown."
        )
        return
    if not routed:
        page.text("No routing profile: the run's own extra columns, in their own units, are shown instead.")
    quantity = plots.ENTROPY if routed else "value (its own unit)"
    figure = plots.depth_profile(profile, page.theme, quantity=quantity)
    page.figure(figure, "depth", alt=f"Mean by layer. {figure.layout.title.text}")


def samples(page: Page) -> None:
    """One feature over samples: by outcome, and against the error."""
    name = compute.stand_in(page.view)
    label = feature_label(name)
    found = compute.relation(page.view, name)
    left, right = st.columns(2)
    with left:
        page.figure(plots.outcomes(found.outcomes, label, page.theme), "outcomes", alt="Feature by outcome")
    with right:
        figure = plots.error_curve(found.curve, found.spearman, label, page.theme)
        page.figure(figure, "error", alt="Mean error by the feature")
    page.caption(
        f"Points are groups of about {found.curve['count'].median():,.0f} samples, cut at quantiles of the feature; "
        "all samples count. The dashed line is the error expected if confidence were calibrated."
    )
    page.table(
        compute.correlations(page.view),
        "features",
        names={
            "feature": "Feature", "value": "Rank correlation", "interval": "95 % interval", "p_value": "p",
            "separation": "P(wrong higher)", "mean_correct": "Mean, correct", "mean_wrong": "Mean, wrong",
        },
        formats={"value": "%.3f", "p_value": "p", "separation": "%.3f", "mean_correct": "%.4f", "mean_wrong": "%.4f"},
    )  # fmt: skip


def training(page: Page) -> None:
    """Entropy, accuracy and loss through training."""
    found, names = compute.training(page.view)
    if found is None:
        page.text("No entropy was recorded during the training of this run.")
        return
    single = compute.single_model(page.view)
    if single != page.view.selection.run_id:
        page.caption("Training of the single model whose last sampled epochs make this ensemble.")
    page.caption("Colour: mean routing entropy over samples, 1 for an even mix of all alternatives.")
    page.figure(plots.training_map(found, names, page.theme), "training", alt="Mean entropy by layer and epoch")
    recorded = run_table(page.view.cache, single, "epoch_metrics")
    if len(recorded):
        page.figure(plots.training_curves(recorded, page.theme), "curves", alt="Accuracy and loss by epoch")


def ensembles(page: Page) -> None:
    """What the ensemble changes in the raw errors, of every model that has one."""
    found = long_work("ensembles", paper.source(page.view, "ensembles"), label="Read the ensembles")
    if found is None:
        return
    if found.empty:
        page.text("This cache holds no ensemble of the last epochs of a model with routing.")
        return
    changes = found.join(name_cells(page.view.runs)["cell"], on="run_id").sort_values("cell")
    page.figure(plots.ensembles(changes, page.theme), "ensembles", alt="Change of errors by the ensemble, by cell")
    page.caption("All samples, without calibration; tertiles of the spread of routing entropy over depth.")


def ensemble(page: Page) -> None:
    """The last epoch beside the ensemble of the last sampled ones."""
    pair = compute.ensemble_pair(page.view)
    if pair is None:
        page.text("This cache does not hold both the last epoch and an ensemble of the last epochs of this model.")
        return
    rows = []
    size = ensemble_size(pair[1].row["suite"])
    for model, view in zip(("last epoch", f"ensemble of {size} epochs"), pair, strict=True):
        summary = diagram(view).summary
        name = view.selection.feature
        rank = compute.relation(view, name).spearman if name in compute.known_features(view.row) else None
        rows.append({
            "run": model, "accuracy": summary.accuracy, "confidence": summary.mean_confidence, "ece": summary.ece,
            "spearman": None if rank is None else rank.value,
        })  # fmt: skip
    page.table(
        pd.DataFrame(rows), "ensembles",
        names={
            "run": "Model", "accuracy": "Accuracy", "confidence": "Mean confidence", "ece": "ECE",
            "spearman": f"Rank correlation, {page.view.feature_label}",
        },
        formats={"accuracy": "%.4f", "confidence": "%.4f", "ece": "%.4f", "spearman": "%.3f"},
    )  # fmt: skip
