"""Records, shards, caches and tables: what is written is read back, and damage is noticed."""

from __future__ import annotations

import pytest

from tests.fuzz.store_targets import TARGETS
from tests.fuzz.target import Target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_typed_error_or_sound_data(target: Target):
    target.run(target.quick)
