"""What the bench says of its limits; what it measures is for a quiet machine."""

import sys

import pytest

from cache_builder import bench


@pytest.mark.parametrize(
    ("routing", "growth", "code", "n_missed"), [(1.1, 5.0, 0, 0), (1.3, 5.0, 1, 1), (1.1, 50.0, 1, 1)]
)
def test_a_missed_limit_is_the_exit_code(monkeypatch, capsys, routing, growth, code, n_missed):
    monkeypatch.setattr(sys, "argv", ["bench"])
    monkeypatch.setattr(bench, "COSTS", (bench.Cost("micro_vit", 8, 1, 1.2), bench.Cost("micro_swin", 8, 1, None)))
    monkeypatch.setattr(bench, "measure", lambda _cost: (0.001, routing, 1.0))
    monkeypatch.setattr(bench, "extraction_growth", lambda: (growth, 1.0))
    assert bench.main() == code
    assert capsys.readouterr().out.count("MISSED") == n_missed
