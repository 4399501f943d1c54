"""The gallery: complete against the paper, and every entry opens the view that it names and draws there."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from engine.benchmark import run_benchmark
from engine.metrics import worst_tertile_ece
from engine.paper.figures import FIGURES, nearest_run
from engine.probes import audit_sweep
from engine.store import RunRecord, open_cache
from tests.app.driver import bodies, figures, keyed, load, numbers, open_app, published, shown
from tests.engine.paper.test_published import needs_paper, source

UNTITLED = {"app:impl", "app:generality-vanilla"}
"""Numbers of the appendix that stand outside a figure or table with a label."""


@pytest.fixture(scope="module")
def cache_path(tmp_path_factory: pytest.TempPathFactory, make_run: Callable[..., RunRecord]) -> Path:
    """Two data sets, three variants, two seeds of one cell, and an ensemble."""
    records = [
        make_run(
            f"{backbone}-{dataset}-{variant}-s{seed}", seed=seed, n=520, backbone=f"micro_{backbone}", dataset=dataset,
            variant=variant, block_size=2 if variant == "block_ar" else None,
        )
        for backbone, dataset, variant, seed in (
            ("swin", "cifar10", "block_ar", 0), ("swin", "cifar10", "block_ar", 1), ("swin", "cifar10", "full_ar", 0),
            ("swin", "cifar100", "block_ar", 0), ("vit", "cifar10", "block_ar", 0), ("vit", "cifar100", "block_ar", 0),
        )
    ]  # fmt: skip
    ensemble = make_run(
        "swin-cifar10-block_ar-s0-last5", seed=9, n=520, backbone="micro_swin", dataset="cifar10", variant="block_ar",
        block_size=2, suite="test-last5",
    )  # fmt: skip
    return published([*records, ensemble], tmp_path_factory.mktemp("gallery"))


def links(app: AppTest) -> dict[str, tuple[str, dict[str, str]]]:
    """Page and settings of every link of the gallery, by its text."""
    (body,) = (body for body in bodies(app) if "Figure 2:" in body)
    found = re.findall(r"<a href=[\"'](.*?)[\"'] .*?>(.*?)</a>", body)
    split = {html.unescape(text): urlsplit(html.unescape(address)) for address, text in found}
    return {text: (parts.path, dict(parse_qsl(parts.query))) for text, parts in split.items()}


def is_drawn(app: AppTest, key: str) -> bool:
    """Whether a figure or table with this key (`figure-NAME`, `table-NAME`) is on the page."""
    return bool(keyed(app, key)) or any(chart.proto.id.endswith(f"-{key}") for chart in app.get("plotly_chart"))


@needs_paper
def test_every_figure_and_table_of_the_paper_is_in_it_in_the_papers_order():
    found = {"fig": [], "tab": []}
    for _, body in re.findall(r"\\begin\{(figure|table|longtable)\*?\}(.*?)\\end\{\1\*?\}", source(), re.DOTALL):
        (label,) = re.findall(r"\\label\{((?:fig|tab):[^}]*)\}", body)
        found[label.partition(":")[0]].append(label)
    own = [entry.label for entry in FIGURES if entry.label not in UNTITLED]
    assert own == found["fig"] + found["tab"]
    assert set(UNTITLED) <= {entry.label for entry in FIGURES}
    assert all(f"\\label{{{label}}}" in source() for label in UNTITLED)


def test_numbers_count_as_the_paper_does():
    numbers_of = {entry.label: entry.number for entry in FIGURES}
    assert (numbers_of["fig:priority2"], numbers_of["fig:cross-arch-heatmap"]) == ("Figure 2", "Figure 21")
    assert (numbers_of["tab:phenomenon"], numbers_of["app:impl"]) == ("Table 1", "Appendix")
    assert nearest_run(("swin", "cifar10", "full_ar"), pd.DataFrame()) is None


def test_every_entry_opens_and_draws(cache_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = links(open_app(cache_path, monkeypatch, "paper"))
    assert list(found) == [f"{entry.number}: {entry.title}" for entry in FIGURES]
    for entry, (page, settings) in zip(FIGURES, found.values(), strict=True):
        app = open_app(cache_path, monkeypatch, page, **settings)
        assert "is shown" not in " ".join(warning.value for warning in app.warning), "the link lost something"
        if not is_drawn(app, entry.draws):  # long work behind its button
            buttons = [button for button in app.button if str(button.key).startswith("start-")]
            waiting = [button for button in buttons if "report" not in str(button.key)]
            for button in waiting:
                button.click()
            app.run()
            assert not app.exception
        assert is_drawn(app, entry.draws), entry.label


def test_two_runs_are_on_one_scale_in_the_heat_maps(cache_path: Path, monkeypatch: pytest.MonkeyPatch):
    entry = next(each for each in FIGURES if each.label == "fig:temporal-heatmaps")
    page, settings = links(open_app(cache_path, monkeypatch, "paper"))[f"{entry.number}: {entry.title}"]
    assert settings["with"].startswith("Swin (micro) · CIFAR-100")
    maps = [each["data"][0] for each in figures(open_app(cache_path, monkeypatch, page, **settings))]
    maps = [each for each in maps if each["type"] == "heatmap"]
    assert len(maps) == 2
    assert {(each["zmin"], each["zmax"]) for each in maps} == {(maps[0]["zmin"], maps[0]["zmax"])}
    values = np.concatenate([numbers(each["z"]) for each in maps])
    assert (maps[0]["zmin"], maps[0]["zmax"]) == pytest.approx((values.min(), values.max()))


def test_the_worst_tertile_is_the_engines(cache_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = open_app(
        cache_path, monkeypatch, "reliability", backbone="Swin (micro)", data="CIFAR-10", tab="Worst tertile"
    )
    eces = []
    for run_id in ("swin-cifar10-block_ar-s0", "swin-cifar10-block_ar-s0-last5"):
        run = load(cache_path, run_id)
        eces.append(worst_tertile_ece(run.confidence, run.correct, run.entropies.mean(axis=1)))
    assert f"is worst: ECE {eces[0]:.4f}; worst of the ensemble {eces[1]:.4f}" in shown(app)
    texts = [each["text"] for drawn in figures(app) for each in drawn["layout"].get("annotations", ())]
    assert sum("worst" in text for text in texts) == 2


def test_the_probe_table_by_cell_is_the_engines(cache_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = open_app(cache_path, monkeypatch, "probes", tab="Whole cache", inits="1", epochs="25")
    app.button(key="start-sweep").click()
    app.run()
    table = app.dataframe[-1].value.set_index("Held-out R² in")
    with open_cache(cache_path) as cache:
        ids = [run_id for run_id in cache.runs()["run_id"] if "last5" not in run_id]
        sweep = audit_sweep(cache, run_ids=ids, n_inits=1, epochs=25)
    assert table.index[-1] == "All runs"
    expected = sweep.by_cell.query("backbone == 'micro_swin' and dataset == 'cifar10' and variant == 'block_ar'")
    row = expected.set_index("probe").loc["full_mlp"]
    cell = table.loc["Swin (micro) · CIFAR-10 · Block-AR (b = 2)", "Network on confidence and routing"]
    assert cell == f"{row['mean']:.4f} ± {row['std']:.4f}"
    assert row["n_runs"] == 2


def test_clipped_targets_are_pooled_over_runs(cache_path: Path, monkeypatch: pytest.MonkeyPatch):
    query = {"tab": "All cells", "cells-metrics": "Clipped targets"}
    app = open_app(cache_path, monkeypatch, "calibrators", **query)
    for start in [button for button in app.button if button.key == "start-every-run"]:  # unless a test asked before
        start.click().run()
    table = app.dataframe[-1].value
    own = table[table["Method"].str.contains("AR-CondCal")].set_index("Cell")["targets clipped at the low end"]
    with open_cache(cache_path) as cache:
        runs = [cache.load(run_id) for run_id in cache.runs()["run_id"] if "last5" not in run_id]
    clipped = [run_benchmark(run, ["nw_conf_routing"], n_bootstrap=0).clipping["clipped_low"].item() for run in runs]
    assert own["All runs, pooled"] == pytest.approx(np.mean(clipped))
    assert own["Swin (micro) · CIFAR-10 · Block-AR (b = 2)"] == pytest.approx(np.mean(clipped[1:3]))
