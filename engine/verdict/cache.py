"""What the protocol says about a whole cache, in sentences. The only place that phrases them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from engine.controls import VERDICT
from engine.core import validation
from engine.core.labels import HEADLINES, capital, counted, format_p
from engine.sweep import multiplicity, stability
from engine.sweep.summary import tested
from engine.verdict import Verdict
from engine.verdict.wording import LOW_TO_HIGH, OTHER_SEEDS, UNCHECKED

CacheOutcome = Literal["untestable", "no_evidence", "one_test", "disagreement", "evidence"]
StabilityOutcome = Literal["untestable", "one_seed", "not_repeated", "repeated", "contradictory"]


@dataclass(frozen=True, eq=False)
class CacheVerdict:
    """Both tests over all runs of a cache. `counts` is the table of `multiplicity`, indexed by test."""

    outcome: CacheOutcome
    sentence: str
    counts: pd.DataFrame
    n_runs: int
    n_tested: int
    alpha: float


@dataclass(frozen=True, eq=False)
class StabilityVerdict:
    """Whether anything repeats over seeds, models and data sets. `cells` is the table of `stability`."""

    outcome: StabilityOutcome
    sentence: str
    cells: pd.DataFrame


Counts = Mapping[str, Mapping[Any, Any]]


def _rejections(counts: Counts) -> str:
    """Both tests' rejections without and with correction, then what chance gives."""
    clauses = {
        test: (
            f"{name} rejects {counts[test]['nominal']} ({counts[test]['holm']} after Holm's correction)"
            if counts[test]["n_tested"]
            else f"{name} can be run on none"
        )
        for test, name in HEADLINES.items()
    }
    expected = [f"{row['expected_by_chance']:.1f}" for row in counts.values() if row["n_tested"]]
    chance = " and ".join(dict.fromkeys(expected))
    return f"{clauses['paper']} and {clauses['primary']}, where chance alone gives about {chance}"


def _conclusion(counts: Counts, n_both: int) -> tuple[CacheOutcome, str]:
    """What the rejections that survive correction amount to; `n_both` runs are rejected by both tests."""
    surviving = [test for test, row in counts.items() if row["holm"]]
    missing = [test for test, row in counts.items() if not row["n_tested"]]
    if not surviving:
        return (
            "no_evidence",
            ": no evidence beyond confidence in this cache. The power of the tests was not measured here.",
        )
    if missing:
        return (
            "one_test",
            f". {capital(HEADLINES[surviving[0]])} finds a difference beyond confidence in some runs; "
            f"{HEADLINES[missing[0]]} could not be run to confirm it. {UNCHECKED}",
        )
    if surviving == ["paper"]:
        return (
            "disagreement",
            ". The tests disagree: the paper's test rejects and the finer primary test does not confirm it; read this "
            "as no reliable evidence beyond confidence.",
        )
    if surviving == ["primary"]:
        return (
            "disagreement",
            ". The tests disagree: the primary test, which uses every sample, finds a difference beyond confidence in "
            f"some runs, and the paper's test does not confirm it; {OTHER_SEEDS}. {UNCHECKED}",
        )
    if not n_both:
        return "disagreement", ". The tests disagree: they reject in different runs, and neither confirms the other."
    return (
        "evidence",
        f". In {counted(n_both, 'run')} both tests find a difference beyond confidence; {OTHER_SEEDS}. {UNCHECKED}",
    )


def judge_cache(rows: pd.DataFrame, *, feature: str = "the feature", alpha: float = 0.05) -> CacheVerdict:
    """How often do the two tests reject over the runs of `single_models`, beside what chance gives?

    A cache-wide claim rests on rejections that survive Holm's correction, which holds however the runs depend on each
    other. Controls are not simulated here, and the sentence says so.
    """
    validation.fraction("alpha", alpha)
    table = multiplicity(rows, alpha).set_index("test")
    n_runs = len(rows)
    n_tested = len(tested(rows))
    if n_tested == 0:
        several = f"None of the {n_runs:,} runs can" if n_runs else "There is no run that could"
        subject = "The only run cannot" if n_runs == 1 else several
        sentence = f"{subject} be tested for {feature}, so nothing can be said."
        return CacheVerdict("untestable", sentence, table, n_runs, 0, alpha)
    counts: Counts = {str(test): row for test, row in table.to_dict("index").items()}
    n_both = int(((rows["paper_p_holm"] <= alpha) & (rows["primary_p_holm"] <= alpha)).sum())
    outcome, close = _conclusion(counts, n_both)
    opening = f"{n_tested} of {counted(n_runs, 'run')} can be tested for {feature}. At p ≤ {alpha:g} "
    return CacheVerdict(outcome, opening + _rejections(counts) + close, table, n_runs, n_tested, alpha)


def judge_stability(rows: pd.DataFrame, *, feature: str = "the feature") -> StabilityVerdict:
    """Does a difference beyond confidence repeat over the seeds of a cell, and in the same direction over cells?"""
    cells = stability(rows)
    if cells.empty:
        return StabilityVerdict("untestable", f"No run can be tested for {feature}, so nothing can be said.", cells)
    several = cells[cells["n"] > 1]
    if several.empty:
        tested = "only one run" if len(cells) == 1 else f"{counted(len(cells), 'cell')} of one run each"
        sentence = (
            "No cell has a second tested run, so nothing can be said about stability over seeds; "
            f"{tested} can be tested for {feature}."
        )
        return StabilityVerdict("one_seed", sentence, cells)
    same = int(several["same_sign"].astype(bool).sum())
    by_chance = several["agreement_by_chance"].astype(float).sum()
    held = several[several["primary_all"].astype(bool)]
    paper_all = int(several["paper_all"].astype(bool).sum())
    opening = (
        f"Of {counted(len(several), 'cell')} with several seeds, the primary effect of {feature} keeps its sign over "
        f"seeds in {same} (chance alone gives about {by_chance:.1f}), and every seed rejects in {len(held)} by the "
        f"primary test and in {paper_all} by the paper's"
    )
    spread = several["max_gap_spread"].max()
    if pd.notna(spread):
        opening += f". Between seeds of one cell the largest gap moves by up to {spread:.2f}"
    rising, falling = int((held["n_positive"] > 0).sum()), int((held["n_negative"] > 0).sum())
    outcome: StabilityOutcome
    if held.empty:
        outcome, close = "not_repeated", ". No primary difference beyond confidence repeats over all seeds of a cell."
    elif rising and falling:
        outcome = "contradictory"
        close = (
            ". Where it repeats, its direction differs between models and data sets: accuracy rises with the feature "
            f"in {counted(rising, 'cell')} and falls in {falling}."
        )
    else:
        outcome = "repeated"
        others = len(several) - len(held)
        close = (
            f". A primary difference repeats over seeds in {counted(len(held), 'cell')}, where accuracy "
            f"{'rises' if rising else 'falls'} with the feature"
            + (f", and does not in the other {others}." if others else ".")
        )
    return StabilityVerdict(outcome, opening + close, cells)


def could_have_seen(verdicts: Sequence[Verdict]) -> str:
    """What the verdict's test would have found in 80 % of such runs, over some runs whose controls were simulated.

    `For the 2 runs shown in detail the controls were simulated: in 80 % of such runs a monotone gap of 0.03 to 0.04
    would be detected.`
    """
    checked = [verdict for verdict in verdicts if verdict.positive is not None and verdict.negative is not None]
    if not checked:
        return "The power of the tests was not measured."
    sound = [v.positive for v in checked if v.positive and v.negative and not v.negative.broken(VERDICT)]
    found = [gap for gap in (each.detectable["monotone", "accuracy"] for each in sound) if gap is not None]
    opening = f"For the {counted(len(checked), 'run')} shown in detail the controls were simulated: "
    if not sound:
        return f"{opening}the test raises too many false alarms for its power to be stated."
    asides = []
    if len(found) < len(sound):
        asides.append(f"in {len(sound) - len(found)} of them none of those tried")
    if len(sound) < len(checked):
        asides.append(f"in {len(checked) - len(sound)} of them the false-alarm rate is too high")
    if not found:
        return f"{opening}no gap tried would be detected in 80 % of such runs."
    low, high = f"{min(found):.2f}", f"{max(found):.2f}"
    size = low if low == high else f"{low} to {high}"
    aside = f" ({'; '.join(asides)})" if asides else ""
    return f"{opening}in 80 % of such runs a monotone gap of {size} would be detected{aside}."


def reason(row: Mapping[Any, Any], alpha: float = 0.05) -> str:
    """Why a run of `look_first` is worth a look: both p-values and what they amount to among all runs."""
    p = {test: row[f"{test}_p"] for test in ("paper", "primary")}
    printed = {test: "not testable" if pd.isna(value) else format_p(value) for test, value in p.items()}
    corrected = [test for test in p if not pd.isna(p[test]) and row[f"{test}_p_holm"] <= alpha]
    nominal = [test for test in p if not pd.isna(p[test]) and p[test] <= alpha]
    if len(corrected) == 2:
        what = "Both tests reject after Holm's correction"
    elif corrected:
        what = f"Only {HEADLINES[corrected[0]]} rejects after Holm's correction"
    elif len(nominal) == 2:
        what = "Both tests reject, but not after Holm's correction"
    elif nominal:
        what = f"Only {HEADLINES[nominal[0]]} rejects, and not after Holm's correction"
    else:
        what = "Neither test rejects"
    effect = f", accuracy {row['primary_effect']:+.3f} {LOW_TO_HIGH}" if "primary" in nominal else ""
    return f"{what}: primary {printed['primary']}{effect}; paper's {printed['paper']}."
