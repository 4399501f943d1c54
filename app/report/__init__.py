"""Report: what the protocol says about a cache and some of its runs, in one file. No Streamlit in here."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pandas as pd

from app.compute.overview import CacheSummary, summarise
from app.export import Item, page_html
from app.report.blind import BlindCache, builders, configurations, origins, versions
from app.report.sections import one_run, whole_cache
from app.report.study import Settings, study_run
from engine.core import labels as wording
from engine.core.errors import CacheError
from engine.core.types import CELL, Progress, part_of, silent
from engine.store import Cache
from engine.sweep import diagnose
from engine.verdict.cache import could_have_seen

__all__ = ["Report", "Settings", "build_report"]

MOST_RUNS = 12
_METHODS = Path(__file__).with_name("methods.html")
_SWEEP_SHARE = 0.15


@dataclass(frozen=True, eq=False)
class Report:
    """A report before it is written."""

    title: str
    items: Sequence[Item]

    def html(self) -> str:
        """One self-contained file."""
        return page_html(self.title, self.items, contents=True)


def build_report(
    cache: Cache,
    run_ids: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    diagnosis: Callable[[Progress], pd.DataFrame] | None = None,
    progress: Progress | None = None,
) -> Report:
    """The whole cache, then the named runs in detail; without names, the lowest seed of each cell, the first twelve.

    diagnosis : `engine.sweep.diagnose` over this cache and these settings, for whoever has its rows already.
    Raises `UnknownName` for a run or feature that is not there, `CacheError` for a cache without runs.
    """
    blind = BlindCache(cache)
    chosen = blind.clean_ids(run_ids)
    asked = settings or Settings()
    settings = Settings(blind.clean_feature(asked.feature), asked.min_support)
    runs = blind.runs().set_index("run_id", drop=False)
    if runs.empty:
        raise CacheError("this cache holds no runs; build some with `python -m cache_builder sweep` and publish them")
    if diagnosis is None:
        diagnosis = partial(_diagnose, cache, asked)
    rows = diagnosis(part_of(progress, 0, _SWEEP_SHARE))
    summary = summarise(blind.clean_rows(rows), runs, settings.label)
    runs = runs.join(summary.every.set_index("run_id")[["run"]])
    detailed, rule = (chosen, "those asked for") if chosen else _one_of_each_cell(summary)
    sections, verdicts = list(whole_cache(summary)), []
    for position, run_id in enumerate(detailed):
        row, share = runs.loc[run_id], (1 - _SWEEP_SHARE) / len(detailed)
        tell_part = part_of(progress, _SWEEP_SHARE + position * share, share, f"{row['run']}: ")
        found = study_run(blind, run_id, settings, tell_part)
        sections += one_run(row, found, settings)
        if found.tested is not None:
            verdicts.append(found.tested.verdict)
    sections += _appendix(runs, detailed, blind, settings, by_default=not chosen)
    (progress or silent)(1.0, "done")
    title = f"Does {settings.label} say more about correctness than confidence does?"
    facts = _facts(summary, blind, settings, f"{len(detailed)}: {rule}")
    seen = [Item("text", could_have_seen(verdicts))] if verdicts else []
    return Report(title, [Item("verdict", summary.verdict.sentence), *seen, Item("facts", facts), *sections])


def _diagnose(cache: Cache, settings: Settings, progress: Progress) -> pd.DataFrame:
    return diagnose(cache, feature_name=settings.feature, settings=settings.test, progress=progress)


def _one_of_each_cell(summary: CacheSummary) -> tuple[list[str], str]:
    """The run with the lowest seed of each cell in the order of the table, and the rule in words.

    Runs without a seed share nothing but that, so each counts for itself. A cache of ensembles only shows those.
    """
    rows = summary.every if summary.counted.empty else summary.counted
    first = rows.sort_values("seed", kind="stable").drop_duplicates(list(CELL)).index
    kept = rows[rows.index.isin(first) | rows["seed"].isna()]
    rule = "of each cell the one with the lowest seed"
    if len(kept) > MOST_RUNS:
        rule += f", the first {MOST_RUNS} of {len(kept)} in the order of the table"
    return kept["run_id"].tolist()[:MOST_RUNS], rule


def _facts(summary: CacheSummary, blind: BlindCache, settings: Settings, detailed: str) -> dict[str, str]:
    """What this report is about."""
    counted = summary.counted
    n_ensembles = len(summary.every) - len(counted)
    ensembles = (
        f"; {wording.counted(n_ensembles, 'ensemble')} of last epochs listed, not counted" if n_ensembles else ""
    )
    return {
        "Report": f"RouteCal {versions()['RouteCal']}, {datetime.now(UTC):%d %B %Y}",
        "Cache": f"fingerprint {blind.fingerprint}",
        "Runs": f"{len(counted)} in {wording.counted(counted['cell'].nunique(), 'cell')}{ensembles}",
        "Feature": settings.label,
        "The paper's test": f"{settings.describe()}; exact permutation test of the largest gap",
        "The primary test": "equal-mass bins of 100 samples (fewer in runs below 4,000); Mantel's trend",
        "Samples": "all of each run, nothing fitted",
        "Level": f"{summary.verdict.alpha:g}, two-sided for the trend; corrections over all tested runs",
        "Runs in detail": detailed,
    }


def _appendix(
    runs: pd.DataFrame, detailed: Sequence[str], blind: BlindCache, settings: Settings, *, by_default: bool
) -> Iterator[Item]:
    """Methods, provenance, versions and how to make this report again."""
    yield Item("section", "How each number is computed")
    yield Item("markup", _METHODS.read_text(encoding="utf-8"))
    yield Item("section", "Where the runs come from")
    yield Item("table", origins(runs))
    yield Item("subheading", "Packages that built them")
    yield Item("table", builders(runs))
    shared, differing = configurations(runs.loc[list(detailed)])
    if shared:
        yield Item("subheading", "Settings that the runs in detail share")
        yield Item("facts", shared)
    if not differing.empty:
        yield Item("subheading", "Settings in which they differ")
        yield Item("table", differing)
    yield Item("heading", "How to make this report again")
    yield Item("facts", versions())
    options = [f"--feature {shlex.quote(settings.feature)}", f"--min-support {settings.min_support}"]
    if not by_default:
        options += [f"--run {shlex.quote(run_id)}" for run_id in detailed]
    yield Item("code", "python -m app report CACHE \\\n  " + " \\\n  ".join([*options, "--out report.html"]))
    yield Item(
        "text",
        f"CACHE is a file whose contents have the fingerprint {blind.fingerprint}, which "
        "`python -m cache_builder info CACHE` prints. All random numbers come from seed 42, so the same cache gives "
        "the same numbers.",
    )
    if blind.scrub.n_removed:
        yield Item(
            "text",
            f"For review without names, {blind.scrub.n_removed} words of this cache that may tell who made it, or "
            "where, are written as removed-1, removed-2 and so on, in the ids of runs too.",
        )
