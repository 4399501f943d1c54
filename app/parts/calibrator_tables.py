"""The tables of the Calibrators page: every number behind its figures, sortable, best and second-best marked."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from app.plots.calibrators import short_name
from app.shell.page import Page
from engine.benchmark import HEADLINE, METRICS, BenchmarkResult, Scoreboard, learnt_table
from engine.calibrators import CALIBRATORS
from engine.core.ranking import FIRST, SECOND

FURTHER = ("mce", "classwise_ece", "smooth_ece", "accuracy")
CHANGES = ("delta_nll", "delta_brier", "delta_accuracy")


def full_name(method: str) -> str:
    """`Temperature scaling (TS)`: the abbreviation of the figures beside the full name."""
    label, short = CALIBRATORS[method].label, short_name(method)
    return f"{label} ({short})" if short.isupper() and short not in label else label


def _spread(board: Scoreboard, row: pd.Series, digits: int) -> str:
    if pd.isna(row["low"]):
        return "–"
    return f"± {row['std']:.{digits}f}" if board.n_runs > 1 else f"[{row['low']:.{digits}f}, {row['high']:.{digits}f}]"


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
    after = "± over seeds" if board.n_runs > 1 else "95 % interval"
    for metric in metrics:
        shown, rows = METRICS[metric], board.rows[board.rows["metric"] == metric].set_index("method").loc[methods]
        if rows["value"].isna().all():
            continue
        frame[metric] = rows["value"].to_numpy()
        names[metric], places[metric] = shown.label, rows["place"].tolist()
        formats[metric] = f"%{'+' if metric.startswith('delta') else ''}.{shown.digits}f"
        if metric in spreads:
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
        "Dark shade: best of the column, light: second-best, as printed; no calibration does not compete. "
        "A click on a column's head sorts by it."
    )


def changes_table(page: Page, board: Scoreboard) -> None:
    """What each method changes against no calibration, on the same samples."""
    _metrics_table(page, board, "changes", CHANGES, CHANGES)


def contrasts_table(page: Page, contrasts: pd.DataFrame) -> None:
    """AR-CondCal minus its controls, with intervals that hold together."""
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
            "label": "Metric", "name": "AR-CondCal minus", "difference": "Difference", "error": "Standard error",
            "low": "Low", "high": "High", "verdict": "Clear",
        },
        formats={"difference": "%+.4f", "error": "%.4f", "low": "%+.4f", "high": "%+.4f"},
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
    frame = learnt_table(result)
    noted = frame["note"].mask(~frame["converged"] & (frame["note"] == ""), "the fit did not reach its optimum")
    keeps = frame["keeps_prediction"].map({True: "kept", False: "may change"})
    names = {"name": "Method", "learnt": "What it learnt", "keeps": "Predicted class"}
    page.table(
        frame.assign(name=[full_name(method) for method in frame["method"]], keeps=keeps, noted=noted),
        "learnt",
        names=names | ({"noted": "Note"} if noted.any() else {}),
        widths={"learnt": 460},
    )
