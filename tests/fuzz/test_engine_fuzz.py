"""Any shape, dtype and value into the public functions: a typed error or finite numbers, nothing else."""

from __future__ import annotations

import pytest

from tests.fuzz.engine_targets import TARGETS
from tests.fuzz.target import Target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_typed_error_or_finite_result(target: Target):
    target.run(target.quick)
