"""What the protocol says about a whole cache, in sentences. The only place that phrases them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from engine.controls import VERDICT
from engine.core import validation
from engine.core.labels import capital, counted, format_p, percent, signed
from engine.gaps.pooled import PooledEffect
from engine.sweep import by_cell, multiplicity, pool_effects
from engine.verdict import Verdict
from engine.verdict.wording import LOW_TO_HIGH, UNCHECKED

CacheOutcome = Literal["untestable", "no_evidence", "evidence"]


@dataclass(frozen=True, eq=False)
class CacheVerdict:
    """All runs of a cache together.

    counts : the table of `multiplicity`, indexed by test; cells : that of `by_cell`, with p_corrected, and found,
    whether there is evidence in a cell; pooled : the mean effect. p_value : of anything being there, in the mean of
    cells or in one of them.
    """

    outcome: CacheOutcome
    answer: str
    detail: str
    p_value: float | None
    pooled: PooledEffect | None
    cells: pd.DataFrame
    counts: pd.DataFrame
    n_runs: int
    n_tested: int
    alpha: float

    @property
    def sentence(self) -> str:
        return f"{self.answer}. {self.detail}"


def _effect_sentence(pooled: PooledEffect, n_tested: int, feature: str) -> str:
    bound = pooled.bound
    cells = f" ({counted(pooled.n, 'cell')})" if pooled.n > 1 else ""
    spread = "" if pooled.i2 is None else f"; I² = {percent(pooled.i2)}"
    return (
        f"Over the {counted(n_tested, 'run')} that can be tested for {feature}{cells}, accuracy changes by "
        f"{signed(bound.effect)} on average {LOW_TO_HIGH} (95 % interval {signed(bound.low)} to {signed(bound.high)}"
        f"{spread}): an average effect larger than {bound.excluded:.3f} is excluded."
    )


def _counts_sentence(counts: pd.DataFrame, alpha: float) -> str:
    lead, paper = (counts.to_dict("index")[test] for test in ("verdict", "paper"))
    described = (
        f"the paper's test rejects {paper['nominal']}" if paper["n_tested"] else "the paper's test can test none"
    )
    return (
        f"At p ≤ {alpha:g}, {counted(lead['nominal'], 'run')} {'rejects' if lead['nominal'] == 1 else 'reject'} "
        f"({lead['holm']} after Holm's correction), where chance gives {lead['expected_by_chance']:.1f} (95 % range "
        f"{lead['chance_low']} to {lead['chance_high']}); for comparison, {described}."
    )


def _signs_sentence(cells: pd.DataFrame) -> str:
    several = cells[cells["n"] > 1]
    if several.empty:
        return "No cell has a second tested run, so nothing is known about other seeds."
    same, by_chance = int(several["same_sign"].astype(bool).sum()), several["agreement_by_chance"].astype(float).sum()
    return (
        f"The effect keeps its sign over all seeds in {same} of {counted(len(several), 'cell')} with several seeds "
        f"({by_chance:.1f} by chance)."
    )


def judge_cache(rows: pd.DataFrame, *, feature: str = "the feature", alpha: float = 0.05) -> CacheVerdict:
    """Does the feature say anything beyond confidence in the runs of `single_models`, taken together?

    Two questions share the level: is the mean effect over cells (`pool_effects`) other than zero, and is there
    something in any one cell (`by_cell`, Holm over cells)? p_value is twice the smaller p; with one cell they are one
    question. Seeds are pooled inside cells, and runs on the same images are not taken for independent. Rejections of
    single runs are counted beside it. Controls are not simulated here.
    """
    validation.fraction("alpha", alpha)
    counts, cells, pooled = multiplicity(rows, alpha).set_index("test"), by_cell(rows), pool_effects(rows)
    n_runs, n_tested = len(rows), int(rows["p_value"].notna().sum())
    if pooled is None:
        several = f"None of the {n_runs:,} runs can" if n_runs else "There is no run that could"
        subject = "The only run cannot" if n_runs == 1 else several
        detail = f"{subject} be tested for {feature}, so nothing can be said."
        return CacheVerdict("untestable", "No run can be tested", detail, None, None, cells, counts, n_runs, 0, alpha)
    questions = 1 if pooled.n == 1 else 2
    corrected = (questions * cells["p_holm"].astype(float)).clip(upper=1)
    cells = cells.assign(p_corrected=corrected, found=corrected <= alpha)
    mean_p = min(1.0, questions * pooled.p_value) if questions == 2 else 1.0
    p_value = min(mean_p, float(corrected.min()))
    n_found, on_average = int(cells["found"].sum()), mean_p <= alpha
    where = f" in {n_found} of {counted(pooled.n, 'cell')}" if questions == 2 else ""
    outcome: CacheOutcome = "evidence" if p_value <= alpha else "no_evidence"
    if outcome == "no_evidence":
        answer = "No evidence beyond confidence in this cache"
    elif n_found:
        average = ", and on average" if on_average else ", not on average"
        answer = f"Evidence beyond confidence{where}{average if questions == 2 else ''}"
    else:
        answer = "Evidence beyond confidence on average, in no single cell"
    parts = [_effect_sentence(pooled, n_tested, feature), _counts_sentence(counts, alpha), _signs_sentence(cells)]
    parts += [UNCHECKED] if outcome == "evidence" else []
    return CacheVerdict(outcome, answer, " ".join(parts), p_value, pooled, cells, counts, n_runs, n_tested, alpha)


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
    """Why a run of `look_first` is worth a look: its p-values and what they amount to among all runs."""
    if pd.isna(row["p_value"]):
        return f"Only the paper's test can be run: {format_p(row['paper_p'])}."
    what = "does not reject"
    if row["p_value"] <= alpha:
        what = f"rejects{' after' if row['p_value_holm'] <= alpha else ', but not after'} Holm's correction"
    shape = "" if pd.isna(row["shape_p"]) else f", shape {format_p(row['shape_p'])}"
    paper = "not testable" if pd.isna(row["paper_p"]) else format_p(row["paper_p"])
    return (
        f"{capital(what)}: {format_p(row['p_value'])} (trend {format_p(row['primary_p'])}{shape}); accuracy "
        f"{signed(row['primary_effect'])} {LOW_TO_HIGH}. Paper's test {paper}."
    )
