"""Parts of the Calibrators page that a control of their own redraws."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.compute import calibrators as results
from app.parts import calibrator_tables as tables
from app.plots import calibrators as plots
from app.plots.reliability import diagram, diagram_title
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import Page
from engine.benchmark import HEADLINE, METRICS, BenchmarkResult, rank_one_counts, ranks, size_curves, split_trials
from engine.benchmark.methods import REFERENCE
from engine.benchmark.sensitivity import SIZES
from engine.calibrators import CALIBRATORS


def benchmarks(page: Page, run_ids: Sequence[str]) -> list[BenchmarkResult] | None:
    """Every run benchmarked, None as long as one is not; a job for each, so that a run is not fitted twice."""
    found = []
    for run_id in run_ids:
        work = results.benchmark(page.view, run_id)
        result = long_work(f"benchmark-{run_id}", work.key, work.compute, label="Fit all calibrators")
        if result is None:
            return None
        found.append(result)
    return found


@fragment
def before_and_after(page: Page, result: BenchmarkResult) -> None:
    """Reliability of the chosen method beside no calibration, on the evaluated half."""
    methods = [name for name in result.fitted if name != REFERENCE]
    chosen = st.selectbox(
        "Method", methods, format_func=tables.full_name, key="calibrator", bind="query-params", width=360
    )
    for column, (key, method) in zip(st.columns(2), (("before", REFERENCE), ("after", chosen)), strict=True):
        with column:
            shown = results.diagram(result, method)
            title = f"{CALIBRATORS[method].label}: ECE {shown.summary.ece:.4f}. {diagram_title(shown.table)}"
            figure = diagram(shown.table, page.theme, title=title, height=420)
            page.figure(figure, f"reliability-{key}", alt=f"Reliability diagram. {title}")


def _choose_metric(frame: pd.DataFrame, key: str) -> str:
    """One of the headline metrics that the study has values of."""
    measured = set(frame.loc[frame["value"].notna(), "metric"])
    available = [name for name in HEADLINE if name in measured]
    return st.selectbox(
        "Metric", available, format_func=lambda name: METRICS[name].label, key=key, bind="query-params", width=240
    )


def offer_sizes(page: Page, run_ids: Sequence[str], n_fitted: int) -> None:
    """The study of set size behind its button, if there are samples enough to fit on fewer of them."""
    sizes = [size for size in SIZES if size <= n_fitted]
    if not sizes:
        page.text(f"This asks for at least {SIZES[0]} samples to fit on; there are {n_fitted}.")
        return
    span = f"{sizes[0]:,} to {sizes[-1]:,}" if len(sizes) > 1 else f"{sizes[0]:,}"
    work = results.sizes(page.view, run_ids)
    found = long_work("sizes", work.key, work.compute, label=f"Refit on {span} samples, five times each", start=False)
    if found is not None:
        _by_size(page, pd.concat(found))


def offer_splits(page: Page, run_ids: Sequence[str]) -> None:
    """The study of random splits behind its button."""
    work = results.splits(page.view, run_ids)
    found = long_work("splits", work.key, work.compute, label="Compare ten random splits", start=False)
    if found is not None:
        _by_split(page, pd.concat(found))


@fragment
def _by_size(page: Page, frame: pd.DataFrame) -> None:
    """A metric against the number of calibration samples."""
    metric = _choose_metric(frame, "size-metric")
    curves = size_curves(frame, metric)
    page.figure(plots.size_curves(curves, metric, page.theme), "sizes", alt="A metric by calibration samples")
    page.caption(
        "Mean over random draws; bands are ± one standard deviation, for the three kernels. Grey lines are the other "
        "methods. At the size of the whole fitting half all draws are the same samples.",
        key="sizes",
    )
    tables.sizes_table(page, curves, metric)


@fragment
def _by_split(page: Page, frame: pd.DataFrame) -> None:
    """Ranks over random splits."""
    metric = _choose_metric(frame, "split-metric")
    trials = split_trials(frame)
    counts = rank_one_counts(trials, "trial", metric).sort_values("mean_rank", kind="stable")
    figure = plots.rank_dots(ranks(trials, "trial", metric), counts, metric, page.theme)
    page.figure(figure, "ranks", alt="How often each method takes each rank over splits")
    page.caption("Area of a dot: number of splits at this rank. Upright line: mean rank.", key="ranks")
    tables.ranks_table(page, counts, metric)
