"""Pages that work for long in the background, while the file that they began with is spoilt, replaced or deleted."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.faults.scene import WAITING, Audience, Scene, log_lines

pytestmark = pytest.mark.xdist_group("faults")


def test_ten_viewers_wait_for_long_work_while_the_file_changes(labs: Scene):
    """What began on one file and ends under another is shown as the one it began on, or not at all.

    Nothing is remembered at first, so that every fault meets work under way.
    """
    asyncio.run(_wait_for_work(labs))
    assert not [line for line in log_lines(labs.served) if line["level"] == "error" or "trace" in line]


async def _wait_for_work(labs: Scene) -> None:
    async with Audience(labs) as audience:
        assert await audience.go_on(), "no work is under way"
        os.truncate(labs.cache, labs.cache.stat().st_size // 2)
        told, _ = await audience.settle()
        assert told <= {"old", WAITING}

        labs.put("new")
        assert await audience.go_on(), "no work is under way"
        labs.put("old")
        told, meanwhile = await audience.settle()
        assert told <= {"old", "new"}
        assert "new" in meanwhile, "no work on the replaced file ended after it was replaced"
        assert await audience.browse() == {"old"}  # nothing of the file in between

        labs.put("new")
        await audience.go_on()
        labs.cache.unlink()
        told, _ = await audience.settle()
        assert told == {"new"}  # with what was begun before, and with the rest from the deleted file
