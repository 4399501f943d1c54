"""What other runs know about the same samples."""

from __future__ import annotations

import numpy as np

from engine.features import feature
from engine.store import open_cache
from engine.sweep.others import other_entropies


def test_entropies_of_runs_with_the_same_labels_nearest_kin_first(cache_of_kinds):
    with open_cache(cache_of_kinds) as cache:
        runs = cache.runs().set_index("run_id")
        found = other_entropies(cache, "full-s0")
        assert "full-s0" not in found
        mine = cache.load("full-s0")
        for run_id, values in found.items():
            other = cache.load(run_id)
            assert np.array_equal(other.labels, mine.labels)
            assert np.array_equal(values, feature(other, "pred_entropy"))
            assert runs.loc[run_id, "dataset"] == runs.loc["full-s0", "dataset"]
        assert len(other_entropies(cache, "full-s0", most=1)) <= 1
