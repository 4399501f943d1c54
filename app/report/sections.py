"""The sections of a report, as items for `app.export`: the whole cache, then one run after another."""

from collections.abc import Iterator, Mapping

import numpy as np
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
from app.export import Item
from app.plots import controls, gap, mechanism, null, overview, reliability, sweep
from app.plots.theme import Theme
from app.report.blind import notes
from app.report.study import TRUST, TRUST_FORMATS, Settings, Study, Tested
from engine.core.labels import format_p, signed
from engine.gaps.pooled import PooledEffect
from engine.verdict.wording import LOW_TO_HIGH, reliability_sentence

_THEME = Theme()
_SIDE = 370
_TALLEST = 880
"""Pixels: a figure of this height still fits a printed page together with its finding."""


def figure(drawn: go.Figure, alt: str, height: int | None = None) -> Item:
    """A figure with its finding as text above it, where it wraps."""
    finding = drawn.layout.title.text or ""
    if height is not None:
        drawn.update_layout(height=height)
    if finding:
        drawn.update_layout(title=None, margin={"t": 16})
    return Item("figure", drawn, finding=finding, alt=alt)


def table(frame: pd.DataFrame, names: Mapping[str, str], formats: Mapping[str, str] | None = None) -> Item:
    """The columns in `names`, in that order and under those names."""
    patterns = {names[name]: pattern for name, pattern in (formats or {}).items()}
    return Item("table", frame[list(names)].rename(columns=dict(names)), formats=patterns)


def whole_cache(summary: CacheSummary) -> Iterator[Item]:
    """Verdicts over all runs, what many tests are worth, and every run in a table."""
    verdict, counted = summary.verdict, summary.counted
    yield Item("section", "All runs together")
    if verdict.pooled is not None:
        yield from _effects(summary, verdict.pooled)
        rejected = figure(overview.rejections(verdict, _THEME), "Rejections beside those expected by chance")
        sorted_ps = figure(sweep.p_value_plot(summary.p_values, _THEME), "Sorted p-values against uniform ones", _SIDE)
        yield Item("pair", [rejected, sorted_ps])
        yield table(table_of_tests(verdict), MULTIPLICITY, MULTIPLICITY_FORMATS)
        yield Item("heading", "The paper's gaps, cell by cell")
        yield from _forests(counted)
    yield Item("heading", "Every run")
    yield table(table_of_runs(summary), RUN_COLUMNS, RUN_FORMATS)


def _effects(summary: CacheSummary, whole: PooledEffect) -> Iterator[Item]:
    """The effect of every run, pooled by cell, a data set after the other."""
    drawn = summary.counted[summary.counted["p_value"].notna()]
    reach = sweep.effect_reach(drawn)
    for name, part in drawn.groupby("dataset_name", sort=False):
        height = sweep.effects(part, summary.cells, whole, reach, _THEME).layout.height
        for cells in np.array_split(part["cell"].unique(), -(-height // _TALLEST)):
            piece = sweep.effects(part[part["cell"].isin(cells)], summary.cells, whole, reach, _THEME)
            yield figure(piece, f"Effect of every run on {name}, pooled")


def _forests(counted: pd.DataFrame) -> Iterator[Item]:
    """Both gaps of every run with intervals, cells that fit a page at a time."""
    whole = {measure: sweep.forest(counted, measure, _THEME) for measure in sweep.GAPS}
    n_parts = -(-max(drawn.layout.height for drawn in whole.values()) // _TALLEST)
    cells = counted.loc[counted["max_gap"].notna(), "cell"].drop_duplicates().tolist()
    n_cells = -(-len(cells) // n_parts)
    for start in range(0, max(len(cells), 1), max(n_cells, 1)):
        pair = []
        for measure, drawn in whole.items():
            alt = f"The {sweep.GAPS[measure]} of every cell and seed with its interval"
            if n_parts > 1:
                part = sweep.forest(counted[counted["cell"].isin(cells[start : start + n_cells])], measure, _THEME)
                title = drawn.layout.title.text if start == 0 else f"{sweep.GAPS[measure].capitalize()}, continued"
                part.update_layout(title_text=title, xaxis_range=drawn.layout.xaxis.range)
                drawn = part
            pair.append(figure(drawn, alt))
        yield Item("pair", pair)


def one_run(row: pd.Series, found: Study, settings: Settings) -> Iterator[Item]:
    """Verdict, numbers, figures and trust of one run; what it lacks is said, the rest is shown."""
    yield Item("section", row["run"])
    if found.tested is None:
        yield Item("verdict", f"The tests cannot be run here: {found.missing}.")
    else:
        yield Item("verdict", found.tested.verdict.sentence)
    for lack in _lacking(row, found):
        yield Item("lacking", lack)
    for note in notes(row["provenance"]):
        yield Item("lacking", f"Noted when it was imported: {note}.")
    yield Item("facts", _numbers(row, found))
    diagram = found.diagram
    drawn = reliability.diagram(diagram.table, _THEME, title=reliability.diagram_title(diagram.table), height=_SIDE)
    shown = [figure(drawn, "Reliability diagram: accuracy against confidence")]
    if found.tested is not None:
        test = found.tested.verdict.paper
        yield figure(gap.tertile_curves(test, _THEME), f"Accuracy against confidence by tertile of {settings.label}")
        shown.append(figure(null.null_distribution(test, _THEME), "Null distribution with the observed value", _SIDE))
        shown.append(figure(controls.power_curves(found.tested.power, _THEME), "Power against the planted gap", _SIDE))
        shown.append(figure(controls.false_alarms(found.tested.alarms, _THEME), "False alarms of each test", _SIDE))
    yield Item("text", reliability_sentence(diagram.summary))
    for start in range(0, len(shown), 2):
        yield Item("pair", shown[start : start + 2])
    if found.depth is not None:
        quantity = mechanism.ENTROPY if found.routed else "value (its own unit)"
        drawn = mechanism.depth_profile(found.depth, _THEME, quantity=quantity)
        yield figure(drawn, "Mean routing entropy by layer" if found.routed else "Mean of each extra column")
    if found.tested is not None:
        yield from _trust(found.tested)


def _trust(tested: Tested) -> Iterator[Item]:
    yield Item("subheading", "Which tests can be trusted on this run?")
    yield table(tested.trust, TRUST, TRUST_FORMATS)
    yield Item(
        "caption",
        f"False alarms: share of {tested.alarms.n_replicates} simulations with this run's confidence and feature "
        f"but no effect that the test rejects at {tested.alarms.alpha:g}. Gap: the smallest planted gap that it "
        f"detects in 80 % of {tested.power.n_replicates} simulations; a dash if it detects none of those tried.",
    )


def _lacking(row: pd.Series, found: Study) -> Iterator[str]:
    """What this run does not hold, and what therefore is not shown."""
    if not row["has_logits"]:
        yield "This run has no logits: only its top probabilities are known, so it cannot be recalibrated."
    if not row["n_layers"]:
        stand_in = "; its own extra columns, in their own units, are shown instead" if found.depth is not None else ""
        yield f"This run has no routing profile, so routing across depth is not shown{stand_in}."
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
    if found.tested is None:
        return numbers
    verdict = found.tested.verdict
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
