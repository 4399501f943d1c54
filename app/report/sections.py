"""The sections of a report, as items for `app.export`: the whole cache, then one run after another."""

from collections.abc import Iterator, Mapping

import pandas as pd
import plotly.graph_objects as go

from app.compute.overview import (
    MULTIPLICITY,
    MULTIPLICITY_FORMATS,
    RUN_COLUMNS,
    RUN_FORMATS,
    CacheSummary,
    table_of_runs,
    table_of_tests,
)
from app.export import Item, take_title
from app.plots import controls, gap, null, overview, reliability, sweep
from app.plots.theme import Theme
from app.report.blind import notes
from app.report.study import TRUST, TRUST_FORMATS, Settings, Study
from engine.controls.table import Controls
from engine.core.labels import capital, counted, format_p, listed, signed
from engine.gaps.pooled import PooledEffect
from engine.verdict.wording import LOW_TO_HIGH, reliability_sentence

_THEME = Theme()
_SIDE = 290
MOST_CELLS, MOST_ROWS = 24, 30
"""Cells drawn and runs listed, so that a report of a large cache stays short."""
_TESTS = {name: MULTIPLICITY[name] for name in ("name", "n_tested", "nominal", "chance", "holm", "smallest_p")}
_RUNS = {
    name: RUN_COLUMNS[name]
    for name in ("run", "accuracy", "raw_ece", "primary_effect", "p_value", "p_value_holm", "paper_p")
}


def figure(drawn: go.Figure, alt: str, height: int | None = None) -> Item:
    """A figure with its finding as text above it, where it wraps."""
    if height is not None:
        drawn.update_layout(height=height)
    finding = take_title(drawn)
    return Item("figure", drawn, finding=finding, alt=f"{finding}. {alt}" if finding else alt)


def table(frame: pd.DataFrame, names: Mapping[str, str], formats: Mapping[str, str] | None = None) -> Item:
    """The columns in `names`, in that order and under those names."""
    patterns = {names[name]: pattern for name, pattern in (formats or {}).items() if name in names}
    return Item("table", frame[list(names)].rename(columns=dict(names)), formats=patterns)


def looked_at(summary: CacheSummary) -> Iterator[Item]:
    """What stands at the front: the runs that reject after correction, where to look first, and what nothing tests."""
    tested = summary.first["p_value_holm"] <= summary.verdict.alpha
    for title, rows in (("Runs that reject", summary.first[tested]), ("Where to look first", summary.first[~tested])):
        if len(rows):
            yield Item("heading", title)
            yield table(rows, {"run": "Run", "reason": "Its tests, among all runs"})
    untested = summary.counted[summary.counted["p_value"].isna() & summary.counted["paper_p"].isna()]
    if len(untested):
        reasons = listed(list(dict.fromkeys(untested["note"])))
        yield Item("text", f"{capital(counted(len(untested), 'run'))} cannot be tested: {reasons}.")


def whole_cache(summary: CacheSummary) -> Iterator[Item]:
    """Effects of all runs, what many tests are worth, and every tested run in a table."""
    verdict = summary.verdict
    yield Item("section", "All runs together")
    if verdict.pooled is not None:
        yield from _effects(summary, verdict.pooled)
        rejected = figure(overview.rejections(verdict, _THEME), "Rejections beside those expected by chance", _SIDE)
        sorted_ps = figure(sweep.p_value_plot(summary.p_values, _THEME), "Sorted p-values against uniform ones", _SIDE)
        yield Item("pair", [rejected, sorted_ps])
        yield table(table_of_tests(verdict), _TESTS, MULTIPLICITY_FORMATS)
    rows = table_of_runs(summary).sort_values(["p_value", "paper_p"], kind="stable")
    rows = rows[rows["run_id"].isin(summary.counted["run_id"]) & (rows["p_value"].notna() | rows["paper_p"].notna())]
    if len(rows):
        of = (
            f"The {MOST_ROWS} smallest p-values of {len(rows)} tested runs"
            if len(rows) > MOST_ROWS
            else "Every tested run"
        )
        yield Item("heading", of)
        yield table(rows[:MOST_ROWS], _RUNS, RUN_FORMATS)


def _effects(summary: CacheSummary, whole: PooledEffect) -> Iterator[Item]:
    """The effect of every run by data set, two beside each other; of very many cells those with the smallest p."""
    cells = summary.cells.sort_values("p_value", kind="stable")["cell"][:MOST_CELLS]
    drawn = summary.counted[summary.counted["p_value"].notna() & summary.counted["cell"].isin(cells)]
    reach = sweep.effect_reach(drawn)
    shown = [
        figure(sweep.effects(part, summary.cells, whole, reach, _THEME), f"Effect of every run on {name}, pooled")
        for name, part in drawn.groupby("dataset_name", sort=False)
    ]
    for start in range(0, len(shown), 2):
        yield Item("pair", shown[start : start + 2])
    if len(summary.cells) > MOST_CELLS:
        yield Item("caption", f"The {MOST_CELLS} of {len(summary.cells)} cells with the smallest p-values are drawn.")


def one_run(row: pd.Series, found: Study, settings: Settings, *, whole: bool) -> Iterator[Item]:
    """Verdict, numbers and figures of one run, and what it lacks: on a page, or on two if it is to be shown `whole`."""
    yield Item("section", row["run"])
    sentence = f"The tests cannot be run here: {found.missing}." if found.verdict is None else found.verdict.sentence
    yield Item("verdict", sentence)
    for lack in _lacking(row):
        yield Item("lacking", lack)
    for note in notes(row["provenance"]):
        yield Item("lacking", f"Noted when it was imported: {note}.")
    yield Item("facts", _numbers(row, found))
    diagram, verdict, label = found.diagram, found.verdict, settings.label
    drawn = reliability.diagram(diagram.table, _THEME, title=reliability.diagram_title(diagram.table), height=_SIDE)
    shown = [figure(drawn, "Reliability diagram: accuracy against confidence")]
    if verdict is not None and found.controls is not None:
        curves, power = gap.tertile_curves(verdict.paper, _THEME), controls.power_curves(found.controls.power, _THEME)
        shown = [figure(curves, f"Accuracy against confidence by tertile of {label}", _SIDE), *shown]
        null_of = figure(
            null.null_distribution(verdict.paper, _THEME), "Null distribution with the observed value", _SIDE
        )
        shown += [null_of, figure(power, "Power against the planted gap", _SIDE)] if whole else []
    for start in range(0, len(shown), 2):
        yield Item("pair", shown[start : start + 2])
    if whole:
        yield Item("text", reliability_sentence(diagram.summary))
        if found.controls is not None:
            yield from _trust(found.controls)


def _trust(tested: Controls) -> Iterator[Item]:
    yield Item("subheading", "Which tests can be trusted on this run?")
    yield table(tested.trust, TRUST, TRUST_FORMATS)
    yield Item(
        "caption",
        f"False alarms: share of {tested.alarms.n_replicates} simulations with this run's confidence and feature "
        f"but no effect that the test rejects at {tested.alarms.alpha:g}. Gap: the smallest planted gap that it "
        f"detects in 80 % of {tested.power.n_replicates} simulations; a dash if it detects none of those tried.",
    )


def _lacking(row: pd.Series) -> Iterator[str]:
    """What this run does not hold."""
    if not row["has_logits"]:
        yield "This run has no logits: only its top probabilities are known, so it cannot be recalibrated."
    if not row["n_layers"]:
        yield "This run has no routing profile."
    if pd.isna(row["seed"]):
        yield "This run does not say with which seed it was trained, so it belongs to no group of seeds."


def _numbers(row: pd.Series, found: Study) -> dict[str, str]:
    """The numbers of the paper's Table 1, for this run."""
    summary = found.diagram.summary
    debiased = summary.debiased
    classes = "" if pd.isna(row["n_classes"]) else f", {row['n_classes']} classes"
    layers = f", {row['n_layers']} routing layers" if row["n_layers"] else ""
    numbers = {
        "Samples": f"{row['n_samples']:,}{classes}{layers}",
        "Accuracy": f"{summary.accuracy:.4f}, mean confidence {summary.mean_confidence:.4f}",
        "Raw ECE": f"{summary.ece:.4f}, about {summary.ece_if_calibrated:.4f} if calibrated perfectly",
        "Debiased ECE": f"{debiased.estimate:.4f}, 95 % interval {debiased.low:.4f} to {debiased.high:.4f}",
    }
    verdict = found.verdict
    if verdict is None:
        return numbers
    measured, intervals = verdict.paper.gap, verdict.gap
    if measured.max_gap is not None and intervals.max_gap_ci is not None and verdict.paper.p_value is not None:
        numbers["Largest gap"] = (
            f"{measured.max_gap:.3f}, 95 % interval {_interval(intervals.max_gap_ci)}, "
            f"exact {format_p(verdict.paper.p_value)}"
        )
        numbers["Weighted gap"] = f"{measured.weighted_gap:.3f}, 95 % interval {_interval(intervals.weighted_gap_ci)}"
        low, quarter, middle = measured.support
        numbers["Bins shared"] = (
            f"{measured.n_shared} of {measured.n_bins}, smaller side of a bin at least {low:.0f} samples, "
            f"lower quartile {quarter:.0f}, median {middle:.0f}"
        )
    for rung in verdict.ladder:
        if rung.effect is not None and rung.standard_error is not None and rung.p_value is not None:
            numbers[f"Effect beyond {rung.label}"] = (
                f"{signed(rung.effect)} ± {rung.standard_error:.3f} in accuracy {LOW_TO_HIGH}, {format_p(rung.p_value)}"
            )
    numbers["The paper's test"] = verdict.paper_sentence
    return numbers


def _interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3f} to {ends[1]:.3f}"
