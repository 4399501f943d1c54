"""Does it hold across seeds, models and data sets?"""

import pandas as pd
import streamlit as st

from app.compute import sweep as compute
from app.compute.overview import MULTIPLICITY, MULTIPLICITY_FORMATS, table_of_tests
from app.parts import headlines
from app.plots import sweep as plots
from app.shell.page import open_page
from app.shell.wording import typeset

MOST_DRAWN = 80  # runs in a figure with a line for each


def intervals(rows: pd.DataFrame, name: str) -> list[str]:
    """`[0.166, 0.425]` of each run, a dash where there is none."""
    pairs = rows[[f"{name}_low", f"{name}_high"]].itertuples(index=False)
    return ["–" if pd.isna(low) else typeset(f"[{low:.3f}, {high:.3f}]") for low, high in pairs]


def part_to_draw(tested: pd.DataFrame) -> pd.DataFrame:
    """Runs of one data set where all of them would make figures of many screens."""
    if len(tested) <= MOST_DRAWN:
        return tested
    names = list(tested["dataset_name"].unique())
    chosen = st.selectbox("Data set drawn", names, key="drawn-data", bind="query-params", width=320)
    page.caption(f"Figures by cell show one data set at a time; everything else covers all {len(tested)} tested runs.")
    return tested[tested["dataset_name"] == chosen]


page = open_page("sweep", whole_cache=True)
summary = compute.summary(page.view)
verdict, counted = summary.verdict, summary.counted
page.verdict(headlines.of_sweep(verdict), verdict.detail)


def not_testable() -> None:
    """Every run that no test can be run on, with the reason."""
    untested = counted[counted["paper_p"].isna() & counted["p_value"].isna()]
    if untested.empty:
        page.text("Every run can be tested.")
    for note, part in untested.groupby("note", sort=False):
        named = [f"{cell} ({', '.join(slots)})" for cell, slots in part.groupby("cell", sort=False)["slot"]]
        said = note if len(part) == 1 else note.replace("this run has", "these runs have", 1)
        page.text(f"{'; '.join(named)}: {said}.")


if verdict.pooled is not None:
    drawn = part_to_draw(counted[counted["p_value"].notna()])
    reach = plots.effect_reach(drawn)
    panels = list(drawn.groupby("dataset_name", sort=False))
    for start in range(0, len(panels), 2):
        for column, (name, part) in zip(
            st.columns(min(len(panels), 2), gap="large"), panels[start : start + 2], strict=False
        ):
            with column:
                forest = plots.effects(part, summary.cells, verdict.pooled, reach, page.theme)
                page.figure(forest, f"effects-{name}", alt=f"Effect of every run on {name}, pooled by cell and overall")
    page.caption(
        "Effect: change of accuracy from the low to the high third of samples with similar confidence, by the primary "
        "trend test. Diamonds are pooled effects, as wide as their 95 % intervals."
    )
    tabs = page.tabs("Cells", "Multiple tests", "The paper's gaps", "Every tested run", "Not testable")
    with next(tabs):
        cells = summary.cells
        page.table(
            cells.assign(
                effect_interval=intervals(cells, "effect"),
                signs=cells["n_positive"].map("{} up, ".format) + cells["n_negative"].map("{} down".format),
            ),
            "cells",
            names={
                "cell": "Cell", "n": "Seeds", "effect": "Effect", "effect_interval": "95 % interval",
                "p_value": "p", "p_corrected": "p, corrected", "signs": "Signs", "verdict_rejections": "Reject",
            },
            formats=dict.fromkeys(["p_value", "p_corrected"], "p") | {"effect": "%+.3f"},
        )  # fmt: skip
    with next(tabs):
        page.figure(plots.p_value_plot(summary.p_values, page.theme), "p-values", alt="Sorted p-values against chance")
        page.table(table_of_tests(verdict), "multiplicity", names=MULTIPLICITY, formats=MULTIPLICITY_FORMATS)
    with next(tabs):
        for column, measure in zip(st.columns(2, gap="large"), plots.GAPS, strict=True):
            with column:
                forest = plots.forest(drawn, measure, page.theme)
                page.figure(forest, measure, alt=f"The {plots.GAPS[measure]} of every cell and seed with its interval")
    with next(tabs):
        tested = counted[counted["paper_p"].notna() | counted["p_value"].notna()]
        printed = {f"{name}_interval": intervals(tested, name) for name in ("max_gap", "weighted_gap", "effect")}
        page.table(
            tested.assign(**printed),
            "runs",
            names={
                "run": "Run", "primary_effect": "Effect", "effect_interval": "95 % interval", "p_value": "p",
                "primary_p": "p, trend", "shape_p": "p, shape", "max_gap": "Largest gap",
                "max_gap_interval": "95 % interval (largest gap)", "null_high": "Null 97.5 %", "paper_p": "p, paper's",
                "weighted_gap": "Weighted gap", "weighted_gap_interval": "95 % interval (weighted)",
            },
            formats=dict.fromkeys(["max_gap", "null_high", "weighted_gap"], "%.3f")
            | dict.fromkeys(["p_value", "primary_p", "shape_p", "paper_p"], "p") | {"primary_effect": "%+.3f"},
        )  # fmt: skip
    with next(tabs):
        not_testable()
else:
    not_testable()

page.how(r"""
Each point is a run (a seed) on all its samples. Its effect is the within-bin slope of correctness on the rank of the
feature (primary trend test), as a change of accuracy from the low to the high third of samples with similar
confidence; the interval is $\pm 1.96$ standard errors under permutation inside bins.

**Pooled effects.** The effect of a run is a sum over images, so two runs on the same test images have covariance
$\sum_i u_{ai} u_{bi}$, with $u$ the scores of the slope. A cell's effect is the mean over its seeds with that variance.
Over cells: random effects (DerSimonian and Laird), with weights $1 / (v_c + \tau^2)$ and the covariance of cells that
share images in the variance of the mean. $I^2$ is the share of the spread between cells that chance does not explain.
An average effect larger than the larger end of the 90 % interval is excluded (two one-sided tests at 5 %). Runs
share images if they have the same data set, size and labels, sample by sample.

**The answer** is evidence if the mean over cells differs from zero or if any one cell does (its pooled trend and the
shape tests of its seeds combined, Holm over cells), each at $\alpha / 2$; corrected p-values of cells are therefore
twice Holm's.

**Many tests.** The range of rejections by chance, the band of sorted p-values (95 % for all ranks at once) and the
number of cells whose seeds agree in sign are simulated from normal scores with the correlation of the runs' effects.
For the p-value with shape and for the paper's test this correlation is an approximation. Holm's and Bonferroni's
corrections are valid under any dependence.

**The paper's gaps** are over 15 equal-width confidence bins, with percentile intervals from 5000 resamples; an absolute
gap is folded at zero, so resampling moves it upwards and the point may lie below its interval. The grey bar ends at the
97.5th percentile of the largest gap when the feature is permuted inside bins.
""")
page.finish()
