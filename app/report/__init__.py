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
from app.report.blind import BlindCache, origins, versions
from app.report.sections import looked_at, one_run, whole_cache
from app.report.study import Settings, study_run
from engine.core import labels as wording
from engine.core.errors import CacheError
from engine.core.types import CELL, Progress, part_of, silent
from engine.store import Cache
from engine.sweep import diagnose
from engine.verdict.cache import could_have_seen, judge_together

__all__ = ["Report", "Settings", "build_report"]

MOST_RUNS = 3
"""In detail, a page each: a report of a whole cache stays within ten pages."""
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
    """The named runs in detail, then the whole cache; without names the cache comes first, and of its runs those that
    reject, then where to look first, then one of each cell, the first three.

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
    summary = summarise(judge_together(blind.clean_rows(rows), runs, feature=settings.label), runs)
    runs = runs.join(summary.every.set_index("run_id")[["run"]])
    detailed, rule = (chosen, "those asked for") if chosen else _telling(summary)
    pages: list[Item] = []
    verdicts = []
    for position, run_id in enumerate(detailed):
        row, share = runs.loc[run_id], (1 - _SWEEP_SHARE) / len(detailed)
        tell_part = part_of(progress, _SWEEP_SHARE + position * share, share, f"{row['run']}: ")
        found = study_run(blind, run_id, settings, tell_part)
        pages += one_run(row, found, settings, whole=bool(chosen))
        verdicts += [found.verdict] if found.verdict is not None else []
    appendix = _appendix(runs, detailed, blind, settings, by_default=not chosen)
    (progress or silent)(1.0, "done")
    seen = [Item("text", could_have_seen(verdicts))] if verdicts else []
    facts = Item("facts", _facts(summary, blind, settings, f"{len(detailed)}: {rule}"))
    cache_first = [Item("verdict", summary.verdict.sentence), *seen, facts, *looked_at(summary)]
    if chosen:
        title = " and ".join(runs.loc[detailed, "run"])
        together, *rest = whole_cache(summary)
        items = [*pages[len(detailed) == 1 :], together, *cache_first, *rest, *appendix]  # the title names a single run
    else:
        title = f"Does {settings.label} say more about correctness than confidence does?"
        items = [*cache_first, *pages, *whole_cache(summary), *appendix]
    return Report(title, items)


def _diagnose(cache: Cache, settings: Settings, progress: Progress) -> pd.DataFrame:
    return diagnose(cache, feature_name=settings.feature, settings=settings.test, progress=progress)


def _telling(summary: CacheSummary) -> tuple[list[str], str]:
    """The runs to show: by p-value those worth a look, of every other cell the lowest seed; and the rule in words.

    Runs without a seed share nothing but that, so each counts for itself. A cache of ensembles only shows those.
    """
    rows = summary.every if summary.counted.empty else summary.counted
    first = rows.sort_values("seed", kind="stable").drop_duplicates(list(CELL)).index
    one_each = rows[(rows.index.isin(first) | rows["seed"].isna()) & ~rows["cell"].isin(summary.first["cell"])]
    tested = one_each[one_each["p_value"].notna() | one_each["paper_p"].notna()]
    kept = [*summary.first["run_id"], *tested["run_id"]] or one_each["run_id"].tolist()
    rule = "those that reject, then where to look first, then one of each cell"
    if len(kept) > MOST_RUNS:
        rule += f"; the first {MOST_RUNS} of {len(kept)}"
    return kept[:MOST_RUNS], rule


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
    yield Item("heading", "Where the runs come from")
    made = origins(runs)
    for columns in (["Made by", "Code", "Device", "Data fingerprint"], ["Built with"]):
        yield Item("table", made.groupby(columns, sort=False)["Runs"].sum().reset_index())
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
    removed = blind.scrub.removed
    if removed:
        yield Item(
            "text",
            f"For review without names, {len(removed)} words of this cache that may tell who made it, or "
            "where, are written as removed-1, removed-2 and so on, in the ids of runs too.",
        )
