"""The bench runner's arithmetic and the command around it; never a promise about seconds."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.bench.runner import Case, Timing, installed, measure
from engine.commands.bench import MODULES


def test_ratio_is_against_the_fastest_peer():
    timing = Timing("work", 0.5, {"slow": 10.0, "quick": 2.0}, target=3.0, limit_seconds=None)
    assert timing.ratio == 4.0
    assert timing.kept is True
    assert Timing("work", 0.5, {"quick": 1.0}, target=3.0, limit_seconds=None).kept is False


@pytest.mark.parametrize(("seconds", "kept"), [(0.5, True), (2.0, False)])
def test_a_ceiling_is_a_promise_too(seconds: float, kept: bool):
    assert Timing("work", seconds, {}, target=None, limit_seconds=1.0).kept is kept
    assert Timing("work", seconds, {}, target=None, limit_seconds=None).kept is None


def test_measure_runs_ours_and_every_peer():
    calls: list[str] = []
    case = Case("work", lambda: (lambda: calls.append("ours"), {"peer": lambda: calls.append("peer")}), repeats=2)
    timing = measure(case)
    assert set(calls) == {"ours", "peer"}
    assert timing.seconds > 0
    assert set(timing.peers) == {"peer"}


def test_installed_looks_without_importing():
    assert installed("json", "numpy")
    assert not installed("json", "no_such_package_anywhere")


@pytest.mark.parametrize("name", MODULES)
def test_every_part_lists_its_cases(name: str):
    cases = importlib.import_module(f"engine.bench.{name}").CASES
    assert cases
    assert all(isinstance(case, Case) for case in cases)


def test_bench_command_writes_figures(tmp_path: Path, monkeypatch, capsys):
    quick = (Case("nothing", lambda: (lambda: None, {"peer": lambda: sum(range(1000))}), target=1.0, repeats=1),)
    monkeypatch.setattr("engine.bench.metrics.CASES", quick)
    assert main(["bench", "--only", "metrics", "--json", str(tmp_path / "bench.json")]) == 0
    figures = json.loads((tmp_path / "bench.json").read_text())
    assert figures["timings"][0]["name"] == "nothing"
    assert figures["timings"][0]["ratio"] > 1
    assert "kept" in capsys.readouterr().out
