"""Strangers' files: a typed error and no trace, or a run that `verify` accepts."""

from __future__ import annotations

import pytest

from tests.fuzz.import_targets import TARGETS
from tests.fuzz.target import Target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_typed_error_or_valid_run(target: Target):
    target.run(target.quick)
