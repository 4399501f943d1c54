"""The sidebar: what it calls runs, and that every run can be reached by its boxes and by links."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from app.state.links import run_query
from app.state.selection import Protocol, Selection, Slice
from app.state.view import View
from engine.core.labels import RunName, run_names
from engine.store import RunRecord, open_cache
from tests.app.driver import open_app, published


def test_labels_name_the_run(cache_of_kinds: Path):
    with open_cache(cache_of_kinds) as cache:
        runs = cache.runs()
    names = {run_id: name.full for run_id, name in run_names(runs).items()}
    assert names["imported"] == "unknown · dice · imported · seed 4"
    assert names["full-s0-last5"] == "toy · dice · Full-AR · seed 0, last-5 ensemble"
    assert names["no-logits-s0"] == "toy · dice · Block-AR (b = 2) · seed 2"
    later = run_names(runs.replace("test-last5", "test-last2"))
    assert later["full-s0-last5"] == RunName("toy", "dice", "Full-AR", "seed 0, last-2 ensemble")


def alike(make_run) -> list[RunRecord]:
    """Runs of one cell and seed: two of one suite and one of another, beside one that is told apart by its seed."""
    suites = {"first": "test", "again": "test", "other": "second"}
    return [*(make_run(run_id, n=60, suite=suite) for run_id, suite in suites.items()), make_run("own", seed=1, n=60)]


def test_runs_of_one_cell_and_seed_have_names_of_their_own(make_run):
    runs = pd.DataFrame([vars(record) for record in alike(make_run)])
    assert {run_id: name.run for run_id, name in run_names(runs).items()} == {
        "first": "seed 0 (test) · first", "again": "seed 0 (test) · again", "other": "seed 0 (second)", "own": "seed 1",
    }  # fmt: skip


def test_both_boxes_and_links_reach_every_run(tmp_path: Path, monkeypatch, make_run):
    path = published(alike(make_run), tmp_path)
    selection = Selection("", "", None, "r_agg", Slice(), Protocol())
    with open_cache(path) as cache:
        view = View(cache, cache.runs().set_index("run_id", drop=False), selection)
    names = {run_id: name.full for run_id, name in view.names.items()}
    for run_id, full in names.items():
        app = open_app(path, monkeypatch, "reliability", **run_query(view, run_id))
        assert app.selectbox(key="run").value == run_id
        assert len(set(app.selectbox(key="run").options)) == 4
        assert app.caption[0].value.replace("\\", "").startswith(f"{full} · 60 samples")
        other = next(name for name in names if name != run_id)
        app.selectbox(key="with").set_value(names[other]).run()
        assert app.selectbox(key="with").value == other
        assert set(app.selectbox(key="with").options) == {"none", *names.values()} - {full}


def test_names_that_look_the_same_are_one_choice(tmp_path: Path, monkeypatch, make_run):
    records = [make_run("a", n=60, dataset="cifar10"), make_run("b", n=60, seed=1, dataset="CIFAR-10")]
    app = open_app(published(records, tmp_path), monkeypatch, "reliability")
    assert app.selectbox(key="data").options == ["CIFAR-10"]
    assert set(app.selectbox(key="run").options) == {"seed 0", "seed 1"}
