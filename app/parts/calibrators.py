"""Parts of the Calibrators page: its studies, and the tables behind its figures, best and second-best marked."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.compute import calibrators as compute
from app.plots import calibrators as plots
from app.plots.reliability import diagram, diagram_title
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import Page
from engine.benchmark import (
    HEADLINE,
    METRICS,
    BenchmarkResult,
    Scoreboard,
    rank_one_counts,
    ranks,
    size_curves,
    split_trials,
)
from engine.benchmark.sensitivity import SIZES
from engine.benchmark.setup import REFERENCE
from engine.calibrators import CALIBRATORS
from engine.core.labels import FIRST, SECOND

FURTHER = ("mce", "classwise_ece", "smooth_ece", "accuracy")
CHANGES = ("delta_nll", "delta_brier", "delta_accuracy")


def full_name(method: str) -> str:
    """`Temperature scaling (TS)`: the abbreviation of the figures beside the full name."""
    label, short = CALIBRATORS[method].label, plots.short_name(method)
    return f"{label} ({short})" if short.isupper() and short not in label else label


def _spread(board: Scoreboard, row: pd.Series, digits: int) -> str:
    if pd.isna(row["low"]):
        return "–"
    if board.n_runs > 1:
        return f"± {row['std']:.{digits}f}"
    debiased = "" if pd.isna(row["debiased"]) else f"{row['debiased']:.{digits}f} "
    return f"{debiased}[{row['low']:.{digits}f}, {row['high']:.{digits}f}]"


def _standing(board: Scoreboard, method: str) -> str:
    """`best ECE, NLL; second Brier`: the marks in words, for grey print and for files."""
    own = board.rows[(board.rows["method"] == method) & ~board.rows["metric"].isin(CHANGES)]
    parts = []
    for place, word in ((FIRST, "best"), (SECOND, "second")):
        names = [METRICS[metric].label for metric in own[own["place"] == place]["metric"]]
        if names:
            parts.append(f"{word} {', '.join(names)}")
    return "; ".join(parts)


def _metrics_table(
    page: Page, board: Scoreboard, key: str, metrics: Sequence[str], spreads: Sequence[str], *, standing: bool = False
) -> None:
    """A row per method; standing : say in words in which metrics it comes first and second."""
    methods = list(dict.fromkeys(board.rows["method"]))
    frame = pd.DataFrame({"method": [full_name(method) for method in methods]})
    names, formats, places = {"method": "Method"}, {}, {}
    for metric in metrics:
        shown, rows = METRICS[metric], board.rows[board.rows["metric"] == metric].set_index("method").loc[methods]
        if rows["value"].isna().all():
            continue
        frame[metric] = rows["value"].to_numpy()
        names[metric], places[metric] = shown.label, rows["place"].tolist()
        formats[metric] = f"%{'+' if metric.startswith('delta') else ''}.{shown.digits}f"
        if metric in spreads and rows["low"].notna().any():
            interval = "95 % interval" if rows["debiased"].isna().all() else "debiased and 95 % interval"
            after = "± over seeds" if board.n_runs > 1 else interval
            frame[f"{metric}_spread"] = [_spread(board, row, shown.digits) for _, row in rows.iterrows()]
            names[f"{metric}_spread"] = f"{shown.label}, {after}"
    if standing:
        frame["standing"] = [_standing(board, method) for method in methods]
        names["standing"] = "Best and second-best in"
    page.table(frame, key, names=names, formats=formats, places=places)


def scores_table(page: Page, board: Scoreboard) -> None:
    """The headline metrics with their spread, then the others."""
    _metrics_table(page, board, "scores", [*HEADLINE, *FURTHER], HEADLINE, standing=True)
    page.caption(
        "Dark shade: best of the column; light: second-best. The uncalibrated row is not ranked. "
        "Click a column header to sort."
    )


def changes_table(page: Page, board: Scoreboard) -> None:
    """What each method changes against no calibration, on the same samples."""
    _metrics_table(page, board, "changes", CHANGES, CHANGES)


def contrasts_table(page: Page, contrasts: pd.DataFrame) -> None:
    """AR-CondCal minus its controls, with simultaneous intervals."""
    frame = contrasts.assign(
        name=[full_name(control) for control in contrasts["control"]],
        label=[METRICS[metric].label for metric in contrasts["metric"]],
        verdict=[
            "–" if pd.isna(low) else "yes" if clear else "no"
            for clear, low in contrasts[["clear", "low"]].itertuples(index=False)
        ],
    )
    page.table(
        frame,
        "contrasts",
        names={
            "label": "Metric", "name": "AR-CondCal minus", "difference": "Difference",
            "low": "Low", "high": "High", "verdict": "Clear",
        },
        formats={"difference": "%+.4f", "low": "%+.4f", "high": "%+.4f"},
    )  # fmt: skip


def sizes_table(page: Page, curves: pd.DataFrame, metric: str) -> None:
    """Mean ± std over draws by the number of calibration samples."""
    sizes = sorted(int(size) for size in curves["size"].unique())
    frame = pd.DataFrame({"method": list(dict.fromkeys(curves["method"]))})
    frame["name"] = [full_name(method) for method in frame["method"]]
    digits = METRICS[metric].digits
    for size in sizes:
        part = curves[curves["size"] == size].set_index("method")
        frame[str(size)] = [
            f"{part.loc[m, 'mean']:.{digits}f} ± {part.loc[m, 'std']:.{digits}f}" for m in frame["method"]
        ]
    page.table(frame, "sizes", names={"name": "Method"} | {str(size): f"{size:,} samples" for size in sizes})


def ranks_table(page: Page, counts: pd.DataFrame, metric: str) -> None:
    """Wins, mean rank and the metric over the splits."""
    label, digits = METRICS[metric].label, METRICS[metric].digits
    page.table(
        counts.assign(name=[full_name(method) for method in counts["method"]]),
        "ranks",
        names={
            "name": "Method", "n_first": "Times first", "n_trials": "Splits", "mean_rank": "Mean rank",
            "mean": f"Mean {label}", "std": "± over splits",
        },
        formats={"mean_rank": "%.1f", "mean": f"%.{digits}f", "std": f"%.{digits}f"},
    )  # fmt: skip


def learnt_by_method(page: Page, result: BenchmarkResult) -> None:
    """One phrase per method."""
    frame = result.learnt
    noted = frame["note"].mask(~frame["converged"] & (frame["note"] == ""), "the fit did not reach its optimum")
    keeps = frame["keeps_prediction"].map({True: "kept", False: "may change"})
    names = {"name": "Method", "learnt": "Fitted parameters", "keeps": "Predicted class"}
    page.table(
        frame.assign(name=[full_name(method) for method in frame["method"]], keeps=keeps, noted=noted),
        "learnt",
        names=names | ({"noted": "Note"} if noted.any() else {}),
        widths={"learnt": 460},
    )


def benchmarks(page: Page, run_ids: Sequence[str]) -> list[BenchmarkResult] | None:
    """Every run benchmarked, None as long as one is not; a job for each, so that a run is not fitted twice."""
    found = []
    for run_id in run_ids:
        result = long_work(f"benchmark-{run_id}", compute.benchmark(page.view, run_id), label="Fit all calibrators")
        if result is None:
            return None
        found.append(result)
    return found


@fragment
def before_and_after(page: Page, result: BenchmarkResult) -> None:
    """Reliability of the chosen method beside no calibration, on the evaluated half."""
    methods = [name for name in result.methods if name != REFERENCE]
    chosen = st.selectbox("Method", methods, format_func=full_name, key="calibrator", bind="query-params", width=360)
    for column, (key, method) in zip(st.columns(2), (("before", REFERENCE), ("after", chosen)), strict=True):
        with column:
            shown = compute.diagram(page.view, result, method)
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
        page.text(f"This needs at least {SIZES[0]} samples for fitting; there are {n_fitted}.")
        return
    span = f"{sizes[0]:,} to {sizes[-1]:,}" if len(sizes) > 1 else f"{sizes[0]:,}"
    work = compute.sizes(page.view, run_ids)
    found = long_work("sizes", work, label=f"Refit on {span} samples, five times each", start=False)
    if found is not None:
        _by_size(page, pd.concat(found))


def offer_splits(page: Page, run_ids: Sequence[str]) -> None:
    """The study of random splits behind its button."""
    work = compute.splits(page.view, run_ids)
    found = long_work("splits", work, label="Compare ten random splits", start=False)
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
    sizes_table(page, curves, metric)


@fragment
def _by_split(page: Page, frame: pd.DataFrame) -> None:
    """Ranks over random splits."""
    metric = _choose_metric(frame, "split-metric")
    trials = split_trials(frame)
    counts = rank_one_counts(trials, "trial", metric).sort_values("mean_rank", kind="stable")
    figure = plots.rank_dots(ranks(trials, "trial", metric), counts, metric, page.theme)
    page.figure(figure, "ranks", alt="How often each method takes each rank over splits")
    page.caption("Area of a dot: number of splits at this rank. Upright line: mean rank.", key="ranks")
    ranks_table(page, counts, metric)
