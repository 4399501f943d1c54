"""Does it hold across seeds, models and data sets?"""

import pandas as pd
import streamlit as st

from app.compute import sweep as compute
from app.compute.overview import MULTIPLICITY, MULTIPLICITY_FORMATS
from app.plots import sweep as plots
from app.shell.page import open_page
from app.shell.wording import typeset
from engine.core.labels import HEADLINES

MOST_DRAWN = 80  # runs in a figure with a line for each


def intervals(rows: pd.DataFrame, name: str) -> list[str]:
    """`[0.166, 0.425]` of each run, a dash where there is none."""
    pairs = rows[[f"{name}_low", f"{name}_high"]].itertuples(index=False)
    return ["–" if pd.isna(low) else typeset(f"[{low:.3f}, {high:.3f}]") for low, high in pairs]


def part_to_draw(counted: pd.DataFrame, cells: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Runs and cells of one data set where all of them would make figures of many screens."""
    if len(counted) <= MOST_DRAWN:
        return counted, cells
    names = list(counted["dataset_name"].unique())
    chosen = st.selectbox("Data set drawn", names, key="drawn-data", bind="query-params", width=320)
    page.caption(f"Figures by cell show one data set at a time; everything else covers all {len(counted)} runs.")
    drawn = counted[counted["dataset_name"] == chosen]
    return drawn, cells[cells["cell"].isin(drawn["cell"])]


page = open_page("sweep", whole_cache=True)
summary = compute.summary(page.view)
counted, cells = summary.counted, summary.stable.cells
page.verdict(summary.stable.sentence, controls=summary.verdict.n_tested > 0)

if summary.verdict.n_tested:
    drawn, drawn_cells = part_to_draw(counted, cells)
    for column, measure in zip(st.columns(2, gap="large"), plots.GAPS, strict=True):
        with column:
            forest = plots.forest(drawn, measure, page.theme)
            page.figure(forest, measure, alt=f"The {plots.GAPS[measure]} of every cell and seed with its interval")

    page.heading("How stable is it over seeds?")
    left, right = st.columns(2, gap="large")
    with left:
        page.figure(
            plots.gap_spread(drawn, drawn_cells, page.theme), "spread", alt="Spread of the largest gap over seeds"
        )
    with right:
        page.figure(plots.effect_signs(drawn, drawn_cells, page.theme), "effects", alt="Primary effect of every seed")
    signs = cells.assign(
        signs=[f"{up} up, {down} down" for up, down in zip(cells["n_positive"], cells["n_negative"], strict=True)],
        repeats=[{True: "yes", False: "no"}.get(value, "one seed") for value in cells["primary_all"]],
    )
    page.table(
        signs,
        "cells",
        names={
            "cell": "Cell", "n": "Seeds", "max_gap_min": "Gap, min", "max_gap_max": "Gap, max",
            "max_gap_spread": "Spread", "effect_min": "Effect, min", "effect_max": "Effect, max", "signs": "Signs",
            "repeats": "Every seed rejects",
        },
        formats=dict.fromkeys(["max_gap_min", "max_gap_max", "max_gap_spread"], "%.3f")
        | dict.fromkeys(["effect_min", "effect_max"], "%+.3f"),
    )  # fmt: skip

    page.heading("What remains after correcting for multiple tests?")
    page.figure(plots.p_value_plot(summary.p_values, page.theme), "p-values", alt="Sorted p-values against uniform")
    counts = summary.verdict.counts.reset_index()
    page.table(
        counts.assign(name=counts["test"].map(HEADLINES)),
        "multiplicity",
        names=MULTIPLICITY,
        formats=MULTIPLICITY_FORMATS,
    )

    page.heading("Every tested run")
    tested = counted[counted["paper_p"].notna() | counted["primary_p"].notna()]
    printed = {f"{name}_interval": intervals(tested, name) for name in ("max_gap", "weighted_gap", "effect")}
    page.table(
        tested.assign(**printed),
        "runs",
        names={
            "run": "Run", "max_gap": "Largest gap", "max_gap_interval": "95 % interval", "null_high": "Null 97.5 %",
            "paper_p": "p, paper's", "weighted_gap": "Weighted gap",
            "weighted_gap_interval": "95 % interval (weighted)",
            "primary_effect": "Primary effect", "effect_interval": "95 % interval (effect)", "primary_p": "p, primary",
        },
        formats=dict.fromkeys(["max_gap", "null_high", "weighted_gap"], "%.3f")
        | {"paper_p": "%.4f", "primary_effect": "%+.3f", "primary_p": "%.4g"},
    )  # fmt: skip

untested = counted[counted["paper_p"].isna() & counted["primary_p"].isna()]
if not untested.empty:
    page.heading("Not testable")
    for note, part in untested.groupby("note", sort=False):
        named = [f"{cell} ({', '.join(slots)})" for cell, slots in part.groupby("cell", sort=False)["slot"]]
        said = note if len(part) == 1 else note.replace("this run has", "these runs have", 1)
        page.text(f"{'; '.join(named)}: {said}.")

page.how(r"""
Each point is a run (a seed) on all its samples. Gaps are the paper's, over 15 equal-width confidence bins, with
percentile intervals from 5000 resamples; an absolute gap is folded at zero, so resampling moves it upwards and the
point may lie below its interval. The grey bar ends at the 97.5th percentile of the largest gap when the feature is
permuted inside bins. The primary effect is the within-bin slope of correctness on the rank of the feature, in the
primary test's bins, as a change of accuracy from the low to the high third of samples with similar confidence; its
interval is $\pm 1.96$ standard errors under permutation.

Without an effect p-values are uniform, and the $k$-th smallest of $m$ is $\text{Beta}(k, m + 1 - k)$ with mean $k / (m
+ 1)$; the band holds the middle 95 % of it at each rank. $n$ fair signs agree with probability $2^{1-n}$. Both take the
runs as independent. Seeds evaluated on the same samples are not quite, so chance variation may be larger than drawn;
Holm's and Bonferroni's corrections remain valid.
""")
page.finish()
