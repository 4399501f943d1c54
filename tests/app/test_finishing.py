"""The browser hears how every fragment's run ended: what was drawn before then leaves the page."""

from __future__ import annotations

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

import app.shell.fragment  # noqa: F401  # what draws fragments also sees to their ends


@pytest.mark.parametrize(
    ("next_run", "told"),
    [
        (["bar"], "FINISHED_FRAGMENT_RUN_SUCCESSFULLY"),  # one more look at a bar: the part of the page is as it is
        (["part"], "FINISHED_EARLY_FOR_RERUN"),  # drawn again, so nothing must leave the page in between
        (["bar", "part"], "FINISHED_EARLY_FOR_RERUN"),
        (None, "FINISHED_EARLY_FOR_RERUN"),  # the whole page
    ],
)
def test_a_run_that_begins_before_the_end_of_another_is_sent(next_run: list[str] | None, told: str):
    end = ForwardMsg(script_finished=ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
    end.metadata.run.fragment_ids.append("part")
    queue = ForwardMsgQueue()
    queue.enqueue(end)
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=next_run)
    assert [ForwardMsg.ScriptFinishedStatus.Name(message.script_finished) for message in queue.flush()] == [told]
