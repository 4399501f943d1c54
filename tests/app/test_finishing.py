"""The browser hears how every fragment's run ended: what was drawn before then leaves the page."""

from __future__ import annotations

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

import app.shell.fragment  # noqa: F401  # what draws fragments also sees to their ends

EARLY, WELL = "FINISHED_EARLY_FOR_RERUN", "FINISHED_FRAGMENT_RUN_SUCCESSFULLY"


@pytest.mark.parametrize(
    ("ended", "next_run", "told", "of"),
    [
        (["part"], ["bar"], WELL, ["part"]),  # one more look at a bar: the part of the page stays as it is
        (["part", "bar"], ["bar"], WELL, ["part"]),  # a click and a look were one run
        (["part"], ["part"], EARLY, ["part"]),  # drawn again, so nothing must leave the page in between
        (["part"], ["bar", "part"], EARLY, ["part"]),
        (["part"], None, EARLY, ["part"]),  # the whole page
    ],
)
def test_a_run_that_begins_before_the_end_of_another_is_sent(
    ended: list[str], next_run: list[str] | None, told: str, of: list[str]
):
    end = ForwardMsg(script_finished=ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
    end.metadata.run.fragment_ids.extend(ended)
    queue = ForwardMsgQueue()
    queue.enqueue(end)
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=next_run)
    (message,) = queue.flush()
    assert ForwardMsg.ScriptFinishedStatus.Name(message.script_finished) == told
    assert message.metadata.run.fragment_ids == of
