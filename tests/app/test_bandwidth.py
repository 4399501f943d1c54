"""The Bandwidth lab: its numbers are the engine's, its slider carries every stop, and it says what it cannot show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.compute import bandwidth as results
from app.plots.bandwidth import Path as Path_
from app.plots.bandwidth import live
from app.plots.theme import Theme
from engine.benchmark import BandwidthCurves, MatchedLab, run_benchmark
from engine.benchmark.bandwidth import FAMILY, LAB_MULTIPLIERS
from engine.core.types import RunData
from engine.kernel import nw_surface
from engine.store import open_cache
from engine.verdict.bandwidth import judge_bandwidth
from tests.app.driver import figures, numbers, open_app, published, shown, verdict

SPREAD = "spread of routing entropy over depth"
FULL = {"variant": "Full-AR", "feature": SPREAD}


def load(cache: Path, run_id: str) -> RunData:
    with open_cache(cache) as opened:
        return opened.load(run_id)


@pytest.fixture(scope="module")
def curves(cache_of_kinds: Path) -> list[BandwidthCurves]:
    return [MatchedLab.prepare(load(cache_of_kinds, run_id), "r_std").curves() for run_id in ("full-s0", "full-s1")]


def test_verdict_is_the_engines_over_the_seeds_of_the_cell(cache_of_kinds: Path, monkeypatch, curves):
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL)
    expected = judge_bandwidth(curves, feature=SPREAD)
    assert expected.n_seeds == 2
    assert expected.sentence in verdict(app)
    table = app.dataframe[-1].value
    assert table["Largest lead"].tolist() == pytest.approx([lead.lead for lead in expected.largest()])
    assert table["Spread over seeds"].tolist() == pytest.approx([lead.spread for lead in expected.largest()])
    assert table["On the held-out seed"].tolist() == pytest.approx([lead.lead for lead in expected.carried])


def test_an_ensemble_is_no_second_seed(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL, run="seed 0, last-5 ensemble")
    assert "one seed of this cell" in verdict(app)
    assert "Spread over seeds" not in app.dataframe[-1].value


def test_every_stop_of_the_live_slider_is_the_engines(cache_of_kinds: Path, monkeypatch, curves):
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL, axes="the routing axis")
    figure = figures(app)[0]
    steps = figure["layout"]["sliders"][0]["steps"]
    assert [step["label"] for step in steps] == [f"{multiplier:.3g}×" for multiplier in LAB_MULTIPLIERS]
    assert steps[figure["layout"]["sliders"][0]["active"]]["label"] == "1×"
    lab = MatchedLab.prepare(load(cache_of_kinds, "full-s0"), "r_std")
    for position in (0, 12, 20):
        multiplier = LAB_MULTIPLIERS[position]
        frame = {step["name"]: step for step in figure["frames"]}[steps[position]["args"][0][0]]
        slices = lab.smoother.slices((1.0, multiplier))
        drawn = [numbers(change["y"]) for change in frame["data"]]
        expected = [*slices.tertiles.values(), *slices.controls.values()]
        for found, curve in zip(drawn, expected, strict=False):
            assert found == pytest.approx(curve, nan_ok=True)
        ece = [curves[0].along("feature", method).iloc[position]["ece"] for method in FAMILY]
        assert drawn[len(expected)] == pytest.approx(ece)
        assert drawn[-1] == pytest.approx([lab.smoother.shrinkage((1.0, multiplier))])
        moved = [figure["data"][place]["name"] for place in frame["traces"][:3]]
        assert moved == ["low tertile", "mid tertile", "high tertile"]


def test_exact_numbers_at_separate_bandwidths_are_the_benchmarks(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL, linked="false", hc="0.5×", hr="4×")
    run = load(cache_of_kinds, "full-s0")
    benchmark = run_benchmark(run, FAMILY, bandwidth=(0.5, 4.0), n_bootstrap=0)
    table = app.dataframe[0].value
    assert table["Method"].tolist() == ["AR-CondCal", "control: confidence", "control: confidence + entropy"]
    for column, metric in (("ECE", "ece"), ("Worst-tertile ECE", "worst_tertile_ece"), ("NLL", "nll")):
        assert table[column].tolist() == pytest.approx(benchmark.table().loc[list(FAMILY), metric].tolist(), abs=1e-12)
    lab = MatchedLab.prepare(run, "r_std")
    fitted = lab.members["nw_conf_routing"].at((0.5, 4.0))
    assert table["Lowered to the ceiling"][0] == lab.score("nw_conf_routing", (0.5, 4.0))["clip_high"]
    assert f"**{lab.smoother.shrinkage((0.5, 4.0)):.3f}**" in shown(app)
    assert f"= {fitted.bandwidth[1]:.3g}" in shown(app)
    surface = figures(app)[1]["data"][0]
    low, high = fitted.regressors.min(axis=0), fitted.regressors.max(axis=0)
    grid = tuple(np.linspace(low[axis], high[axis], 64) for axis in (0, 1))
    expected = nw_surface(fitted.regressors, fitted.correct, fitted.bandwidth, grid)
    drawn = expected.weight >= 1
    z = numbers(surface["z"]).reshape(64, 64).T
    assert z[drawn] == pytest.approx(expected.value[drawn])
    assert np.isnan(z[~drawn]).all()


def test_a_slider_redraws_surface_and_numbers(cache_of_kinds: Path, monkeypatch, curves):
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL)
    before = figures(app)
    app.select_slider(key="hc").set_value(2.0).run()
    assert not app.exception
    assert figures(app)[1] != before[1]
    assert figures(app)[0] == before[0]
    linked = curves[0].at((2.0, 2.0))
    assert app.dataframe[0].value["ECE"].tolist() == pytest.approx(linked["ece"].tolist())


def test_the_usual_choices_are_listed(cache_of_kinds: Path, monkeypatch, curves):
    table = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL).dataframe[1].value
    assert table["Choice"].drop_duplicates().tolist() == ["0.5× Scott", "Scott", "2× Scott", "CV-NLL", "oracle"]
    chosen = table[table["Method"] == "AR-CondCal"].set_index("Choice")
    assert chosen.loc["oracle", "Multiple"] == curves[0].marks["oracle_ece"]
    assert chosen.loc["CV-NLL", "Multiple"] == curves[0].marks["cv_nll"]
    assert chosen.loc["oracle", "ECE"] == chosen["ECE"].min()


def test_without_logits_the_regressions_remain(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", variant="Block-AR (b = 2)")
    assert "this run has no logits" in verdict(app)
    assert "The kernel regression is shown" in verdict(app)
    assert len(figures(app)) == 2
    assert not app.dataframe
    assert "xaxis2" in figures(app)[0]["layout"], "how much of a gap is kept needs no logits"


def test_without_a_profile_the_controls_remain(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", variant="plain residual")
    assert "lacks mean routing entropy" in verdict(app)
    assert len(figures(app)) == 1
    methods = app.dataframe[0].value["Method"].unique().tolist()
    assert methods == ["control: confidence", "control: confidence + entropy"]
    own = open_app(cache_of_kinds, monkeypatch, "bandwidth", variant="Full-AR", feature="predictive entropy")
    assert "one of its own matched controls" in verdict(own)


def test_with_neither_the_page_says_why(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", backbone="unknown")
    assert "this run has no logits" in verdict(app)
    assert not figures(app)


def test_an_untrained_router_does_not_break_the_page(tmp_path: Path, monkeypatch, make_run):
    """At initialisation every entropy is 1, so the routing axis has no bandwidth."""
    base = make_run("fresh", n=200, profile=False)
    record = type(base)(
        run_id="fresh", suite="test", backbone="toy", dataset="dice", variant="full_ar", seed=0,
        logits=base.logits, labels=base.labels, entropies=np.ones((200, 3)),
    )  # fmt: skip
    app = open_app(published([record], tmp_path), monkeypatch, "bandwidth", feature=SPREAD)
    assert "never leads both matched controls" in verdict(app)
    assert "The feature is constant" in shown(app)


def test_the_settings_in_force_are_those_of_the_benchmark(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL, band=["0.0", "0.01"], bins="30")
    assert not app.info, "a slice that does not apply, though empty, does not stop the page"
    caption = app.caption[0].value
    assert "benchmark split of all 1,500 samples" in caption
    assert f"feature: {SPREAD}" in caption
    assert "this page ignores the sidebar's slice, population, bins and cuts" in caption
    assert "30 bins" not in caption


def test_a_redraw_prepares_nothing(cache_of_kinds: Path, monkeypatch):
    first = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL)
    monkeypatch.setattr(MatchedLab, "prepare", None)  # cannot be called
    monkeypatch.setattr("app.compute.bandwidth.load_run", None)
    again = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL)
    assert verdict(again) == verdict(first)
    assert figures(again) == figures(first)


def test_a_seed_that_cannot_be_fitted_is_left_out(tmp_path: Path, monkeypatch, make_run):
    records = [make_run("s0", n=200), make_run("s1", seed=1, n=200), make_run("short", seed=2, n=30)]
    records.append(make_run("unrouted", seed=3, n=200, profile=False))
    app = open_app(published(records, tmp_path), monkeypatch, "bandwidth", feature=SPREAD, run="seed 0")
    assert "2 seeds" in verdict(app)


def test_a_setting_off_the_curves_is_waited_for_with_a_bar(cache_of_kinds: Path, monkeypatch):
    waited = []
    awaited = results.awaited

    def recorded(work):
        waited.append(work.key)
        return awaited(work)

    monkeypatch.setattr(results, "awaited", recorded)
    app = open_app(cache_of_kinds, monkeypatch, "bandwidth", **FULL, linked="false", hc="0.25×", hr="2×")
    assert [key[-1] for key in waited] == [(0.25, 2.0)]
    app.select_slider(key="hc").set_value(1.0).run()
    assert len(waited) == 1, "the curves pass here"


def test_the_live_figure_looks_up_each_curve_once(cache_of_kinds: Path, monkeypatch, curves):
    smoother = MatchedLab.prepare(load(cache_of_kinds, "full-s0"), "r_std").smoother
    slices = [smoother.slices((multiplier, multiplier)) for multiplier in LAB_MULTIPLIERS]
    along, asked = BandwidthCurves.along, []
    monkeypatch.setattr(BandwidthCurves, "along", lambda self, *of: asked.append(of) or along(self, *of))
    path = Path_("both", slices, [0.5] * len(slices), curves[0])
    figure = live(path, Theme())
    assert sorted(asked) == sorted(("both", method) for method in FAMILY)
    moving = figure.data[len(figure.data) - len(figure.frames[0].data) :]
    for trace, change in zip(moving, figure.frames[path.start].data, strict=True):
        assert list(trace.y) == pytest.approx(list(change.y), nan_ok=True)
        assert trace.text == change.text
