"""`python -m engine audit CACHE`: what the protocol says about every run.

`--paper` asks whether the paper adds up, `--conclusions` what the cache says about the paper's conclusions.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Hashable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from engine.commands.command_line import terminal_progress
from engine.core.errors import InvalidInput
from engine.core.labels import format_p, name_cells
from engine.core.latex import to_latex
from engine.core.types import Progress
from engine.paper import CONCLUSION_SOURCES, conclude, gather, summarise
from engine.paper.claims import OUTCOMES, ClaimResult, as_frame
from engine.paper.claims import audit as audit_paper
from engine.paper.conclusions import as_frame as as_conclusions
from engine.store import open_cache
from engine.sweep import by_cell, diagnose, multiplicity, single_models

_SHOWN = {
    "run_id": "run",
    "accuracy": "accuracy",
    "raw_ece": "raw ECE",
    "max_gap": "max gap",
    "weighted_gap": "weighted gap",
    "paper_p": "paper p",
    "primary_p": "primary p",
    "bins": "bins",
}

_WRAPPER = textwrap.TextWrapper(width=118, subsequent_indent=" " * 15, break_on_hyphens=False)
_EMPTY = "This cache holds no runs; build some with `python -m cache_builder sweep` and publish them."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cache", nargs="?", help="cache file (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parser.add_argument("--feature", default="r_agg", help="feature or extra column to test (default: r_agg)")
    parser.add_argument("--alpha", type=float, default=0.05, help="level of the tests (default: 0.05)")
    question = parser.add_mutually_exclusive_group()
    question.add_argument("--paper", action="store_true", help="audit the paper's published numbers instead of a cache")
    question.add_argument(
        "--conclusions", action="store_true", help="what the cache says about each of the paper's conclusions"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="all columns as JSON records")
    output.add_argument("--csv", action="store_true", help="all columns as CSV")
    output.add_argument("--latex", action="store_true", help="the printed table as LaTeX")


def run(arguments: argparse.Namespace) -> int:
    if arguments.paper:
        return _run_paper(arguments)
    progress = terminal_progress()
    if arguments.conclusions:
        return _run_conclusions(arguments, progress)
    with open_cache(arguments.cache) as cache:
        rows = single_models(
            diagnose(cache, feature_name=arguments.feature, alpha=arguments.alpha, progress=progress), arguments.alpha
        )
    if arguments.json:
        print(rows.to_json(orient="records", indent=2))
    elif arguments.csv:
        print(rows.to_csv(index=False), end="")
    elif arguments.latex:
        print(to_latex(_printed(rows), caption="The gap tests of every run.", label="tab:audit"))
    else:
        _print_table(rows, arguments.alpha)
    return 0


def _run_paper(arguments: argparse.Namespace) -> int:
    if arguments.cache is not None:
        raise InvalidInput("cache", "no cache file together with --paper", repr(arguments.cache))
    results = audit_paper()
    if arguments.json:
        print(as_frame(results).to_json(orient="records", indent=2, force_ascii=False))
    elif arguments.csv:
        print(as_frame(results).to_csv(index=False), end="")
    elif arguments.latex:
        shown = as_frame(results)[["where", "claim", "stated", "recomputed", "outcome"]]
        print(to_latex(shown, caption="The paper's statements, recomputed.", label="tab:claims"))
    else:
        _print_claims(results)
    return 0


def _run_conclusions(arguments: argparse.Namespace, progress: Progress | None) -> int:
    with open_cache(arguments.cache) as cache:
        if cache.runs().empty:
            print(_EMPTY)
            return 0
        readings = conclude(gather(cache, CONCLUSION_SOURCES, progress=progress))
    if arguments.json:
        print(json.dumps([asdict(reading) for reading in readings], indent=2, ensure_ascii=False))
    elif arguments.csv:
        print(as_conclusions(readings).to_csv(index=False), end="")
    elif arguments.latex:
        shown = as_conclusions(readings)[["claim", "where", "found", "outcome"]]
        print(to_latex(shown, caption="The paper's conclusions, asked of a cache.", label="tab:conclusions"))
    else:
        for reading in readings:
            besides = " (also checked)" if reading.added else ""
            print(_WRAPPER.fill(f"{reading.outcome:<14} {reading.claim}{besides} [{reading.where}]"))
            print(_WRAPPER.fill(f"{'':<14} {reading.found} (rule: {reading.rule})"))
        print(f"\n{summarise(readings)}")
    return 0


def _print_claims(results: list[ClaimResult]) -> None:
    topic = None
    for result in results:
        if result.topic != topic:
            print(result.topic if topic is None else f"\n{result.topic}")
            topic = result.topic
        print(_WRAPPER.fill(f"{result.outcome:<13} {result.claim} [{result.where}]"))
        if result.outcome != "agrees":
            found = f"; recomputed: {result.recomputed}" if result.recomputed else ""
            print(_WRAPPER.fill(f"{'':<13} stated: {result.stated}{found} ({result.how})"))
    counts = ", ".join(f"{sum(result.outcome == name for result in results)} {name}" for name in OUTCOMES)
    print(f"\n{len(results)} claims: {counts}")


def _printed(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns a reader wants, rounded, with a dash for what could not be computed."""
    shown = rows.assign(
        bins=[
            "–" if pd.isna(shared) else f"{int(shared)}/{int(total)}"
            for shared, total in zip(rows["shared_bins"], rows["n_bins"], strict=True)
        ]
    )[list(_SHOWN)]
    for column in ("accuracy", "raw_ece", "max_gap", "weighted_gap"):
        shown[column] = ["–" if pd.isna(value) else f"{value:.3f}" for value in shown[column]]
    for column in ("paper_p", "primary_p"):
        shown[column] = ["–" if pd.isna(value) else format_p(value).removeprefix("p = ") for value in shown[column]]
        shown[column] = shown[column].str.removeprefix("p ")
    return shown.rename(columns=_SHOWN)


def _spread(cell: Mapping[Hashable, Any], measure: str) -> str:
    """Mean and std over seeds, a single run without a std, or a dash where no seed has the measure."""
    mean, std = cell[f"{measure}_mean"], cell[f"{measure}_std"]
    if pd.isna(mean):
        return "–"
    return f"{mean:.3f} ± {std:.3f}" if cell["n"] > 1 else f"{mean:.3f}"


def _print_table(rows: pd.DataFrame, alpha: float) -> None:
    if rows.empty:
        print(_EMPTY)
        return
    print(_printed(rows).to_string(index=False))
    cells = by_cell(rows)
    if not cells.empty:
        print("\nCells (mean ± std over seeds)")
        for cell in cells.join(name_cells(cells)["cell"]).to_dict("records"):
            print(
                f"  {cell['cell']} (n = {cell['n']}): "
                f"max gap {_spread(cell, 'max_gap')}, weighted gap {_spread(cell, 'weighted_gap')}, "
                f"rejections {cell['paper_rejections']} (paper), {cell['primary_rejections']} (primary)"
            )
    print(f"\nRejections at {alpha:g}")
    for row in multiplicity(rows, alpha).itertuples():
        print(
            f"  {row.test}: {row.nominal} of {row.n_tested} (expected by chance {row.expected_by_chance:.1f}); "
            f"Bonferroni {row.bonferroni}, Holm {row.holm}, Benjamini-Hochberg {row.benjamini_hochberg}"
        )
    for run_row in rows[rows[["paper_p", "primary_p"]].isna().any(axis=1)].to_dict("records"):
        untested = pd.isna(run_row["paper_p"]) and pd.isna(run_row["primary_p"])
        print(f"  {'not tested' if untested else 'tested in part'}: {run_row['run_id']} ({run_row['note']})")
