"""Pages that work for long in the background, while the file that they began with is spoilt, replaced or deleted."""

from __future__ import annotations

import os
from dataclasses import replace

from tests.faults.scene import PATIENCE, WAITING, Audience, Scene, progress, told_in_the_end
from tests.viewers import Viewer, run_through

LONGER = {"probes": {"epochs": "800", "width": "64"}}


def test_ten_viewers_wait_for_long_work_while_the_file_changes(labs: Scene):
    """What began on one file and ends under another is shown as of the one it began on, or not at all.

    Nothing is remembered at first, so that every fault meets work under way.
    """
    run_through(_wait_for_work(labs))
    run_through(_end_under_another_file(replace(labs, pages=LONGER, _contents={})))
    labs.served.assert_no_faults()


async def _wait_for_work(labs: Scene) -> None:
    async with Audience(labs) as audience:
        assert await audience.go_on(), "no work is under way"
        os.truncate(labs.cache, labs.cache.stat().st_size // 2)
        assert await audience.settle() <= {"old", WAITING}

        labs.put("new")
        assert await audience.go_on(), "no work is under way"
        labs.put("old")
        # Work that still had to read the file in between cannot: its page says so, and comes back by itself.
        assert await audience.settle() <= {"old", "new", WAITING}
        assert await audience.browse() == {"old"}  # nothing of the file in between

        labs.put("new")
        await audience.go_on()
        labs.cache.unlink()
        assert await audience.settle() == {"new"}  # what was begun before, and the rest from the deleted file


async def _end_under_another_file(labs: Scene) -> None:
    """One job, watched from its first steps until it is done: it is seen to outlive the file that it began with."""
    for which in labs.fingerprints:
        await labs.contents(which, "probes")
    labs.put("new")
    async with Viewer(labs.served) as viewer:
        seen = await viewer.open("probes", labs.pages["probes"])
        while not progress(seen):
            assert seen.looks_again, "no work is under way"
            seen = await viewer.look_again(seen)
        labs.put("old")
        seen = await viewer.look_again(seen)
        assert seen.looks_again, "the work was done too soon"
        assert await labs.told_so_far(seen, "probes") == {"new"}
        assert await told_in_the_end(labs, viewer, "probes", seen) == "old"
    labs.put("new")
    async with Viewer(labs.served) as viewer:
        # Kept by the file and not by what it says: a copy of it is computed anew.
        seen = await viewer.wait_for(await viewer.open("probes", labs.pages["probes"]), PATIENCE)
        assert await labs.told(seen, "probes") == "new"
        seen = await viewer.open("probes", labs.pages["probes"])
        assert not seen.looks_again, "what was computed is forgotten"
