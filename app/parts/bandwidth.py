"""Parts of the Bandwidth lab: the curves of every seed, the figure that moves, and one setting exactly."""

import pandas as pd
import streamlit as st

from app.compute import bandwidth as compute
from app.plots import bandwidth as plots
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import Page
from engine.benchmark import BandwidthCurves
from engine.benchmark.bandwidth import LAB_MULTIPLIERS, PATHS, pair_on

AXES = {"both": "both axes", "confidence": "the confidence axis", "feature": "the routing axis"}
SCORES = {
    "name": "Method", "ece": "ECE", "worst_tertile_ece": "Worst-tertile ECE", "nll": "NLL",
    "clip_low": "Raised to the floor", "clip_high": "Lowered to the ceiling",
}  # fmt: skip
FORMATS = {"ece": "%.4f", "worst_tertile_ece": "%.4f", "nll": "%.4f", "clip_low": "percent", "clip_high": "percent"}


def named(table: pd.DataFrame) -> pd.DataFrame:
    """With the methods as the figures call them."""
    return table.assign(name=table["method"].map(plots.METHOD_LABELS))


def all_curves(page: Page) -> tuple[list[BandwidthCurves], bool]:
    """The curves of this run and of the other seeds of its cell as far as they are computed, and whether all are."""
    found: list[BandwidthCurves] = []
    for run_id in compute.cell_runs(page.view):
        seed = page.view.names[run_id].run
        work = compute.curves(page.view, run_id)
        curves = long_work(f"curves-{run_id}", work, label=f"Evaluate all bandwidths on {seed}")
        if curves is None:
            return found, False
        found += [each for each in curves if not found or each.has_routing]
    return found, True


def live(page: Page, prepared: compute.Prepared, curves: BandwidthCurves | None) -> None:
    """The figure that moves while its slider is dragged."""
    options = PATHS if prepared.smoother.feature is not None else PATHS[:1]
    path = st.radio(
        "The slider moves", options, format_func=AXES.get, horizontal=True, key="axes", bind="query-params",
        help="The other axis stays at Scott's bandwidth.",
    )  # fmt: skip
    slices = long_work("slices", compute.slices(page.view, path), label="Draw the regressions")
    if slices is None:
        return
    kept = [prepared.smoother.shrinkage(pair_on(path, multiplier)) for multiplier in LAB_MULTIPLIERS]
    figure = plots.live(plots.Path(path, slices, kept, curves), page.theme)
    with st.container(key="wide"):
        page.figure(figure, "live", alt="Regressions along confidence and scores against the bandwidth, with a slider")
    page.caption(
        "Left: accuracy smoothed over the calibration half, at the mean feature of each tertile; lines stop where "
        "they are supported by less than one sample."
    )
    if curves is not None:
        page.caption(
            "Right: scores on the evaluated half. CV-NLL and the oracle choose among 0.25, 0.5, 1, 2 and 4; the oracle "
            "uses the evaluated half, so it is an upper bound, not a method."
        )


@fragment
def one_setting(page: Page, prepared: compute.Prepared, curves: BandwidthCurves | None) -> None:
    """Exact numbers at any pair of bandwidths; the sliders redraw this part only."""
    smoother = prepared.smoother
    left, right = st.columns([1, 3])
    with left:
        linked = st.toggle("One multiple for both axes", True, key="linked", bind="query-params")
        first = _multiple("Bandwidth" if linked else "Bandwidth on confidence", "hc")
        pair = (first, first if linked else _multiple("Bandwidth on routing", "hr"))
        h_c, h_r = pair[0] * smoother.scott["confidence"], pair[1] * smoother.scott["feature"]
        st.markdown(
            f"$h_c$ = {h_c:.3g}  \n$h_r$ = {h_r:.3g}  \n$d$ = {smoother.distance:.3g}, "
            f"so $\\tanh(d^2 / 4 h_r^2)$ = **{smoother.shrinkage(pair):.3f}**: the share of a gap between the outer "
            "tertiles that remains after smoothing."
        )
    with right:
        cells = smoother.cells()
        figure = plots.surface(compute.surface(page.view, pair), cells, page.view.feature_label, page.theme)
        page.figure(figure, "surface", alt="Accuracy smoothed over confidence and the feature")
        st.caption(f"{smoother.correct.size:,} calibration samples, gathered in {len(cells)} dots by place.")
    if prepared.lab is not None:
        page.table(named(compute.scores(page.view, pair, curves)), "setting", names=SCORES, formats=FORMATS)


def _multiple(label: str, key: str) -> float:
    return st.select_slider(
        label, LAB_MULTIPLIERS, 1.0, format_func=plots.stop_label, key=key, bind="query-params",
        help="In multiples of Scott's rule. Arrow keys move it.",
    )  # fmt: skip
