"""Every contender of the probe benchmark runs, on a small run."""

import pytest

from engine.bench import probes


@pytest.mark.parametrize("case", probes.CASES, ids=lambda case: case.name)
def test_every_contender_runs(case, monkeypatch):
    sizes = {"N_SAMPLES": 40, "N_LAYERS": 2, "N_INITS": 1, "N_SHUFFLES": 1, "N_BESIDE_SCIKIT_LEARN": 1}
    for name, size in sizes.items():
        monkeypatch.setattr(probes, name, size)
    ours, peers = case.prepare()
    ours()
    assert peers
    for work in peers.values():
        work()
