"""`python -m engine audit CACHE`: what the protocol says about every run.

`--paper` asks whether the paper adds up, `--conclusions` what the cache says about the paper's conclusions.
"""

import argparse
import json
import textwrap
from dataclasses import asdict

import pandas as pd

from engine.commands.command_line import terminal_progress
from engine.core.errors import InvalidInput
from engine.core.labels import MISSING, format_p, name_cells
from engine.core.latex import to_latex
from engine.core.types import Progress
from engine.features import FEATURES
from engine.paper import CONCLUSION_SOURCES, conclude, gather, summarise
from engine.paper.claims import OUTCOMES, ClaimResult, as_frame
from engine.paper.claims import audit as audit_paper
from engine.paper.conclusions import as_frame as as_conclusions
from engine.store import open_cache
from engine.sweep import diagnose, single_models
from engine.verdict.cache import judge_cache

_SHOWN = {
    "run_id": "run",
    "accuracy": "accuracy",
    "raw_ece": "raw ECE",
    "primary_effect": "effect",
    "p_value": "p",
    "primary_p": "trend p",
    "shape_p": "shape p",
    "max_gap": "max gap",
    "paper_p": "paper p",
}

_WRAPPER = textwrap.TextWrapper(width=118, subsequent_indent=" " * 15, break_on_hyphens=False)
_EFFECT = "{effect:+.3f} [{effect_low:+.3f}, {effect_high:+.3f}]"
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
    columns = rows.drop(columns="scores")
    if arguments.json:
        print(columns.to_json(orient="records", indent=2))
    elif arguments.csv:
        print(columns.to_csv(index=False), end="")
    elif arguments.latex:
        print(to_latex(_printed(rows), caption="The tests of every run.", label="tab:audit"))
    else:
        _print_table(rows, arguments.feature, arguments.alpha)
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
    shown = rows[list(_SHOWN)].copy()
    for column in shown.columns[1:]:
        form = _p if column.endswith("_p") or column == "p_value" else "{:.3f}".format
        shown[column] = [MISSING if pd.isna(value) else form(value) for value in shown[column]]
    return shown.rename(columns=_SHOWN)


def _p(value: float) -> str:
    return format_p(value).removeprefix("p ").removeprefix("= ")


def _print_table(rows: pd.DataFrame, feature: str, alpha: float) -> None:
    if rows.empty:
        print(_EMPTY)
        return
    verdict = judge_cache(rows, feature=FEATURES[feature].label if feature in FEATURES else feature, alpha=alpha)
    print(f"{verdict.answer}.\n{textwrap.fill(verdict.detail, 118, break_on_hyphens=False)}\n")
    print(_printed(rows).to_string(index=False))
    cells = verdict.cells
    if not cells.empty:
        print("\nCells: pooled effect [95 % interval], seeds that reject")
        for cell in cells.join(name_cells(cells)["cell"]).to_dict("records"):
            effect = MISSING if pd.isna(cell["effect"]) else _EFFECT.format_map(cell)
            print(f"  {cell['cell']} (n = {cell['n']}): {effect}, {cell['verdict_rejections']} of {cell['n']}")
    for run_row in rows[rows[["paper_p", "p_value"]].isna().any(axis=1)].to_dict("records"):
        untested = pd.isna(run_row["paper_p"]) and pd.isna(run_row["p_value"])
        print(f"  {'not tested' if untested else 'tested in part'}: {run_row['run_id']} ({run_row['note']})")
