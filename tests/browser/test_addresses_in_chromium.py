"""Controls stay in the address when the page around them has grown: on a busy server bars come first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.serving import Served, serve

pytestmark = pytest.mark.faults  # on a server of its own
SCRIPT = Path(__file__).with_name("hurried_main.py")
SLIDERS = [
    ("bandwidth", "linked=false", "Bandwidth on routing", "hr"),
    ("features", "", "Shuffled searches", "shuffles"),
    ("null", "method=simulated+counts", "Permutations", "permutations"),
    ("controls", "", "Planted gap", "delta"),
    ("probes", "", "Hidden units", "width"),
]


@pytest.fixture(scope="module")
def busy(cache_of_kinds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(cache_of_kinds, tmp_path_factory.mktemp("busy") / "log", script=str(SCRIPT)) as served:
        yield served


@pytest.mark.parametrize(("page", "query", "name", "key"), SLIDERS, ids=[each[0] for each in SLIDERS])
def test_a_slider_is_in_the_address_after_work_has_been_waited_for(visit, idle, busy, page, query, name, key):
    window = visit(f"{page}?variant=Full-AR&{query}", of=busy)
    window.get_by_role("slider", name=name).press("ArrowRight")
    idle(window)
    expect(window).to_have_url(re.compile(rf"[?&]{key}="))


def test_a_switch_leaves_the_address_again(visit, idle, busy):
    """The second click comes after a redraw that had no work to wait for."""
    window = visit("gap?variant=Full-AR", of=busy)
    for there in (True, False):
        window.get_by_text("Show the middle tertile").click()
        idle(window)
        expect(window).to_have_url(re.compile(r"[?&]mid=" if there else r"^((?!mid=).)*$"))
