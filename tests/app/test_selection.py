"""The sidebar: what it calls runs, and that every run can be reached by its boxes and by links."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from app.state.links import run_query
from app.state.selection import Protocol, Selection, Slice
from app.state.view import View
from engine.core.labels import RunName, run_names
from engine.core.types import RunData
from engine.gaps import trend_test
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


def only_confidence_matters(seed: int, n: int = 5000, n_classes: int = 10) -> tuple[RunData, np.ndarray]:
    """A calibrated run, and a feature that varies with the predicted class and is noise otherwise."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, n_classes))
    probabilities = softmax(logits, axis=1)
    labels, predictions = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1), logits.argmax(axis=1)
    rho = rng.normal(scale=0.6, size=n_classes)[predictions] + rng.normal(size=n)
    run = RunData(
        "simulated", probabilities.max(axis=1), predictions == labels, np.empty((n, 0)),
        labels=labels, predictions=predictions,
    )  # fmt: skip
    return run, rho


def rejections(by: str) -> float:
    """Share of slices by class that the primary test rejects at 5 %, over 30 such runs."""
    p_values = []
    for seed in range(30):
        run, rho = only_confidence_matters(seed)
        for label in range(10):
            kept = Slice(**{by: str(label)}).rows(run, rho)
            p_values.append(trend_test(run.confidence[kept], run.correct[kept], rho[kept]).p_value)
    return float(np.mean(np.array(p_values) <= 0.05))


def test_slices_by_true_class_reject_without_cause_and_those_by_predicted_class_do_not():
    """300 slices each: at a sound 5 % the share has a standard error of 1.3 %."""
    assert rejections("label") > 0.5
    assert rejections("predicted") == pytest.approx(0.05, abs=0.025)
    assert Slice(label="3").refusal
    assert Slice(outcome="wrong").refusal
    assert not Slice(tertile="low", band=(0.2, 0.9), predicted="3").refusal


def test_without_predicted_classes_the_refusal_says_so():
    """Of a run with true classes and correctness only."""
    run, rho = only_confidence_matters(0, n=50)
    view = View(None, None, Selection("", "", None, "r_agg", Slice(label="3"), Protocol()))
    view.__dict__.update(run=run.replace(predictions=None), rho=rho)
    assert "This run has no predicted classes" in view.refusal
    assert view.testable_slice == Slice()
    view.__dict__["run"] = run
    assert "Slice by predicted class instead" in view.refusal
    assert view.testable_slice == Slice(predicted="3")
