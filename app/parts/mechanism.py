"""Parts of the Mechanism page: routing across depth, samples and training, and an ensemble beside its last epoch."""

import pandas as pd
import streamlit as st

from app.compute import mechanism as compute
from app.compute.reliability import diagram
from app.plots import mechanism as plots
from app.shell.page import Page
from app.state.selection import feature_label
from app.state.view import View
from engine.core.labels import ensemble_size


def depth(page: Page, views: list[tuple[View, str]]) -> None:
    """The profile of the run, and of the one to compare with."""
    for column, (view, key) in zip(st.columns(len(views)), views, strict=True):
        with column:
            if len(views) > 1:
                page.caption(view.label)
            if diagram(view) is None:
                page.text("No sample of this run is in the slice.")
                continue
            profile = compute.depth(view)
            if profile is None:
                page.text(
                    "This run has neither a routing profile nor other columns by layer, so routing across depth "
                    "cannot be shown."
                )
                continue
            routed = view.row["n_layers"] > 0
            if not routed:
                page.text("No routing profile: the run's own extra columns, in their own units, are shown instead.")
            quantity = plots.ENTROPY if routed else "value (its own unit)"
            page.figure(plots.depth_profile(profile, page.theme, quantity=quantity), key, alt="Mean by layer")


def samples(page: Page, name: str) -> None:
    """One feature over samples: by outcome, and against the error."""
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
            "feature": "Feature", "spearman": "Rank correlation", "interval": "95 % interval", "p": "p",
            "separation": "P(wrong higher)", "mean_correct": "Mean, correct", "mean_wrong": "Mean, wrong",
        },
        formats={"spearman": "%.3f", "separation": "%.3f", "mean_correct": "%.4f", "mean_wrong": "%.4f"},
    )  # fmt: skip


def training(page: Page) -> None:
    """Entropy through training."""
    found, names = compute.training(page.view)
    if found is None:
        page.text("No entropy was recorded during the training of this run.")
        return
    if compute.single_model(page.view) != page.view.selection.run_id:
        page.caption("Training of the single model whose last sampled epochs make this ensemble.")
    page.caption("Colour: mean routing entropy over samples, 1 for an even mix of all alternatives.")
    page.figure(plots.training_map(found, names, page.theme), "training", alt="Mean entropy by layer and epoch")


def ensemble(page: Page) -> None:
    """The last epoch beside the ensemble of the last sampled ones."""
    pair = compute.ensemble_pair(page.view)
    if pair is None:
        page.text("This cache does not hold both the last epoch and an ensemble of the last epochs of this model.")
        return
    profiles = [compute.depth(view) for view in pair if view.row["n_layers"]]
    if len(profiles) == 2:
        page.figure(plots.ensemble(*profiles, page.theme), "ensemble", alt="Mean entropy of last epoch and ensemble")
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
