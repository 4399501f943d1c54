"""Any address of a page: no exception, and a verdict or a calm message."""

from __future__ import annotations

import pytest

from tests.fuzz.address_targets import TARGETS, widgets
from tests.fuzz.target import Target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_verdict_or_calm_message(target: Target):
    target.run(target.quick)


def test_the_keys_of_a_page_are_found():
    assert {"run", "data", "class", "tertile", "bins", "band", "mid"} <= set(widgets("gap"))
