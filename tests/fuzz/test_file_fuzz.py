"""Changed bytes under right checksums: what passes its trial can be read, and what crashes does so in a child."""

from __future__ import annotations

import pytest

from tests.fuzz import files
from tests.fuzz.target import Target

BY_NAME = {target.name: target for target in files.TARGETS}


@pytest.mark.parametrize("target", files.TARGETS, ids=lambda target: target.name)
def test_harmless_or_refused(target: Target):
    target.run(target.quick)


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in files.kept().items() for seed in seeds])
def test_what_once_ended_a_process(name: str, seed: int):
    BY_NAME[name].body(seed)
