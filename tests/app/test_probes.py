"""The probe audit: numbers as the engine computes them, the audit step by step, stand-ins, notes, the sweep."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.probes import CONTRASTS, PROBES, audit, audit_sweep, predicted_against_actual
from engine.store import open_cache
from engine.verdict.probes import judge_probe_sweep, judge_probes
from tests.app.driver import ROOT, figures, load, numbers, open_app, published, shown, traces, uncounted, verdict

CHEAP = {"width": "4", "epochs": "25", "inits": "2"}
SETTINGS = {"hidden": 4, "epochs": 25, "n_inits": 2}
SCORES, CONTRAST, REFERENCE, PREDICTED, POOLED = range(5)
NAMES = {
    "conf_lin": "Line on confidence",
    "conf_mlp": "Network on confidence",
    "full_lin": "Line on confidence and routing",
    "full_mlp": "Network on confidence and routing",
    "shuf_full_mlp": "Network on confidence and shuffled routing",
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory, make_run) -> Path:
    """Two seeds of a cell, an ensemble, a baseline with block norms, one without anything, an imported run."""
    norms = {f"block {block}": np.random.default_rng(block).random(1500) for block in (1, 2)}
    plain = make_run("norms-s0", seed=6, profile=False, logits=False, backbone="plain", variant="baseline")
    records = [make_run("full-s0", seed=0), make_run("full-s1", seed=1), replace(plain, extra=norms)]
    return published([*records, *uncounted(make_run)], tmp_path_factory.mktemp("probes-page"))


@pytest.fixture(scope="module")
def result(cache: Path):
    run = load(cache, "full-s0")
    return audit(run.confidence, run.entropies, run.correct, **SETTINGS)


@pytest.fixture
def app(cache: Path, monkeypatch):
    return open_app(cache, monkeypatch, "probes", variant="Full-AR", backbone="toy", **CHEAP)


def test_scores_and_contrasts_are_the_engines(app, result):
    assert judge_probes(result).sentence in verdict(app)
    drawn = traces(app, SCORES)
    for probe in PROBES:
        assert numbers(drawn[NAMES[probe]]["x"]) == pytest.approx([result.mean[probe]])
        if np.ptp(result.r2[probe]):
            assert numbers(drawn[f"{NAMES[probe]}, initialisations"]["x"]) == pytest.approx(result.r2[probe])
    drawn = list(traces(app, CONTRAST).values())
    for position, name in enumerate(CONTRASTS):
        interval, ticks, mean = drawn[3 * position : 3 * position + 3]
        contrast = result.contrasts[name]
        assert numbers(interval["x"]) == pytest.approx(contrast.interval)
        assert numbers(ticks["x"]) == pytest.approx(contrast.differences)
        assert numbers(mean["x"]) == pytest.approx([contrast.estimate])
    table = app.dataframe[0].value.set_index("Probe")
    assert table["R², mean"].tolist() == pytest.approx([result.mean[probe] for probe in PROBES])
    assert table["Std"].tolist() == pytest.approx([result.std[probe] for probe in PROBES])
    contrasts = app.dataframe[1].value
    assert contrasts["Difference in R²"].tolist() == pytest.approx([c.estimate for c in result.contrasts.values()])
    assert "4 hidden units, 25 epochs, weight decay 0.0001, 2 initialisations, 6 of 6 layers" in shown(app)


def test_every_shuffle_is_a_dot_and_its_own_routing_a_line(app, result):
    figure = figures(app)[REFERENCE]
    dots = np.concatenate([numbers(trace["customdata"]) for trace in figure["data"]])
    assert sorted(dots) == pytest.approx(sorted(result.reference.r2))
    assert figure["layout"]["shapes"][0]["x0"] == pytest.approx(result.reference.observed)
    as_good = int((result.reference.r2 >= result.reference.observed).sum())
    assert f"{as_good} of 20 networks perform as well with shuffled routing" in shown(app)


def test_predicted_against_actual_of_the_chosen_probe(app, cache: Path, monkeypatch, result):
    line = {"backbone": "toy", "variant": "Full-AR", "probe": NAMES["conf_lin"]}
    for probe, page in (("full_mlp", app), ("conf_lin", open_app(cache, monkeypatch, "probes", **line, **CHEAP))):
        expected = predicted_against_actual(result, probe)
        trace = figures(page)[PREDICTED]["data"][0]
        assert numbers(trace["x"]) == pytest.approx(expected["predicted"])
        assert numbers(trace["y"]) == pytest.approx(expected["actual"])
        assert numbers(trace["error_y"]["array"]) == pytest.approx(expected["high"] - expected["actual"])


def test_chosen_layers_and_weight_decay_are_in_force(cache: Path, monkeypatch):
    layers = {"inputs": ["2 block 2 layer", "5 block 4 layer"], "decay": "1e-2"}
    app = open_app(cache, monkeypatch, "probes", variant="Full-AR", backbone="toy", **CHEAP, **layers)
    run = load(cache, "full-s0")
    expected = audit(run.confidence, run.entropies[:, [1, 4]], run.correct, weight_decay=1e-2, **SETTINGS)
    assert judge_probes(expected).sentence in verdict(app)
    assert "weight decay 0.01, 2 initialisations, 2 of 6 layers" in shown(app)


def test_only_what_changes_the_samples_trains_anew(cache: Path, monkeypatch):
    trained = []
    monkeypatch.setattr("app.compute.probes.audit", lambda *args, **kw: trained.append(1) or audit(*args, **kw))
    query = {"backbone": "toy", "variant": "Full-AR", **CHEAP, "inits": "3"}
    open_app(cache, monkeypatch, "probes", **query)
    open_app(cache, monkeypatch, "probes", bins="10", feature="confidence itself", **query)
    assert len(trained) == 1
    open_app(cache, monkeypatch, "probes", tertile="low", **query)
    open_app(cache, monkeypatch, "probes", tertile="low", feature="confidence itself", **query)
    open_app(cache, monkeypatch, "probes", population="benchmark (held-out half)", **query)
    assert len(trained) == 4


# Step by step


def drawn_probes(app) -> set[str]:
    return {probe for probe, name in NAMES.items() if name in traces(app, SCORES)}


def test_the_steps_show_the_naive_comparison_then_adds_the_controls(cache: Path, monkeypatch, result):
    app = open_app(cache, monkeypatch, "probes", variant="Full-AR", backbone="toy", steps="true", **CHEAP)
    assert judge_probes(result, step="naive").sentence in verdict(app)
    assert drawn_probes(app) == {"conf_lin", "full_mlp"}
    assert len(figures(app)) == 2
    assert len(app.dataframe[1].value) == 1
    scale = figures(app)[SCORES]["layout"]["xaxis"]["range"]

    app.button(key="steps-PageDown").click().run()
    assert judge_probes(result, step="capacity").sentence in verdict(app)
    assert drawn_probes(app) == {"conf_lin", "conf_mlp", "full_mlp"}
    assert figures(app)[SCORES]["layout"]["xaxis"]["range"] == scale

    app.button(key="steps-PageDown").click().run()
    assert judge_probes(result).sentence in verdict(app)
    assert drawn_probes(app) == set(PROBES)
    assert len(figures(app)) == 4
    assert app.button(key="steps-PageDown").disabled

    app.button(key="steps-PageUp").click().run()
    assert drawn_probes(app) == {"conf_lin", "conf_mlp", "full_mlp"}


def test_a_step_has_an_address(cache: Path, monkeypatch, result):
    step = {"steps": "true", "step": "2 Same capacity"}
    app = open_app(cache, monkeypatch, "probes", variant="Full-AR", backbone="toy", **CHEAP, **step)
    assert judge_probes(result, step="capacity").sentence in verdict(app)


# Other kinds of run


def test_block_norms_stand_in_for_routing_and_the_page_says_so(cache: Path, monkeypatch):
    app = open_app(cache, monkeypatch, "probes", backbone="plain", **CHEAP)
    run = load(cache, "norms-s0")
    expected = audit(run.confidence, np.column_stack(list(run.extra.values())), run.correct, **SETTINGS)
    assert judge_probes(expected, kind="stand_in").sentence in verdict(app)
    assert verdict(app).count("its extra columns stand in for it") == 1
    assert numbers(traces(app, SCORES)["Network on confidence and stand-in"]["x"]) == pytest.approx(
        [expected.mean["full_mlp"]]
    )
    assert app.multiselect(key="inputs").label == "Columns"
    assert "2 of 2 extra columns" in shown(app)


def test_without_any_column_confidence_is_probed_alone(cache: Path, monkeypatch):
    app = open_app(cache, monkeypatch, "probes", backbone="toy", variant="plain residual", **CHEAP)
    assert "neither a routing profile nor other columns" in verdict(app)
    assert drawn_probes(app) == {"conf_lin", "conf_mlp"}
    assert "Note: no descriptor columns" in shown(app)
    assert not app.multiselect


def test_notes_are_shown(tmp_path: Path, monkeypatch, make_run):
    run = make_run("full-s0", n=100, logits=False)
    entropies = np.asarray(run.entropies).copy()
    entropies[:, 2] = 0.5
    layers = [replace(layer, name=f"place {number}") for number, layer in enumerate(run.layers, 1)]
    cache = published([replace(run, entropies=entropies, layers=layers)], tmp_path)
    text = shown(open_app(cache, monkeypatch, "probes", width="4", epochs="25", inits="1"))
    assert "Note: constant on the training half, so of no use to a probe: place 3." in text
    assert "Note: 50 training rows for 7 inputs: the full probes may overfit." in text
    assert "Note: one initialisation gives no interval; use two or more." in text


def test_an_error_that_does_not_vary(tmp_path: Path, monkeypatch, make_run):
    run = make_run("full-s0", n=100, logits=False)
    constant = replace(run, confidence=np.full(100, 0.8), correct=np.ones(100, dtype=bool))
    app = open_app(published([constant], tmp_path), monkeypatch, "probes", **CHEAP)
    assert "nothing for a probe to explain" in verdict(app)


def test_a_slice_of_a_few_samples_says_so(cache: Path, monkeypatch):
    run = load(cache, "full-s0")
    low = np.sort(run.confidence)[:4]
    band = [f"{np.floor(low[0] * 100) / 100:.2f}", f"{np.floor(low[0] * 100) / 100 + 0.01:.2f}"]
    n = int(((run.confidence >= float(band[0])) & (run.confidence <= float(band[1]))).sum())
    assert 0 < n < 8
    app = open_app(cache, monkeypatch, "probes", variant="Full-AR", backbone="toy", band=band, **CHEAP)
    assert f"Too few samples to fit probes on one half: {n}." in verdict(app)


# The sweep


def test_the_sweep_waits_for_its_button_and_pools_single_models(app, cache: Path):
    assert len(figures(app)) == 4
    assert app.button(key="start-sweep").label == "Audit all 3 runs"
    app.button(key="start-sweep").click().run()
    assert not app.exception
    run_ids = ["full-s0", "full-s1", "imported"]
    with open_cache(cache) as opened:
        expected = audit_sweep(opened, run_ids=run_ids, **SETTINGS)
    assert judge_probe_sweep(expected).sentence in shown(app)
    drawn = traces(app, POOLED)
    for contrast, name in (
        ("naive", "Naive: minus the line on confidence"),
        ("capacity_matched", "Same capacity: minus the network on confidence"),
        ("routing_specific", "Same inputs: minus the network on shuffled routing"),
    ):
        part = expected.contrasts[expected.contrasts["contrast"] == contrast]
        assert sorted(numbers(drawn[name]["x"])) == pytest.approx(sorted(part["estimate"]))
    pooled = app.dataframe[2].value
    assert pooled["R², mean over runs"].tolist() == pytest.approx(expected.pooled["mean"].tolist())
    assert pooled["Runs"].tolist() == [3] * 5


def test_a_sweep_that_was_stopped_goes_on_where_it_was(cache: Path):
    from app.compute.cache import current_cache, runs
    from app.compute.probes import Settings, finished_runs, pooled
    from app.state.selection import Protocol, Selection, Slice
    from app.state.view import View

    opened = current_cache(cache).cache
    selection = Selection(opened.fingerprint, "full-s0", None, "r_agg", Slice(), Protocol())
    view, settings = View(opened, runs(opened), selection), Settings(4, 5, 1e-4, 2)

    def stop_in_the_second_run(fraction: float, _text: str) -> None:
        if fraction > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pooled(view, settings).compute(stop_in_the_second_run)
    assert len(finished_runs(view, settings)) == 1
    seen: list[float] = []
    found = pooled(view, settings).compute(lambda fraction, _text: seen.append(fraction))
    assert min(seen) > 1 / 3, "the first run is not audited again"
    assert found.contrasts["run_id"].nunique() == 3


# Being a good neighbour


def test_torch_is_not_imported_before_the_page_computes():
    code = """
import sys
import app.compute.probes, app.plots.probes, app.parts.probes
import engine.verdict.probes
assert 'torch' not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


def test_other_threads_get_their_turn_while_probes_are_trained():
    rng = np.random.default_rng(0)
    n = 10_000
    confidence, profile = rng.uniform(0.4, 1, n), rng.random((n, 12))
    correct = rng.random(n) < confidence
    audit(confidence, profile, correct, epochs=2)  # imports torch
    worker = threading.Thread(target=audit, args=(confidence, profile, correct), kwargs={"epochs": 60})
    worker.start()
    waits = []
    while worker.is_alive():
        begin = time.perf_counter()
        sum(i * i for i in range(2000))  # pure Python, so it needs the interpreter's lock
        time.sleep(0.005)
        waits.append(time.perf_counter() - begin)
    assert len(waits) > 10
    assert max(waits) < 1.0, f"a viewer's script stood still for {max(waits):.2f} s"
