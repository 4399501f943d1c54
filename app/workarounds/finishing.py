"""The end of a fragment's run, told to the browser also when another fragment runs right after it.

What a fragment drew before and does not draw again leaves the page when the browser hears that its run has ended well.
If the next run begins before that message is sent, Streamlit 1.67 turns it into "ended early, to be run again": right
for a run of the same fragment, wrong for one of another. Everything old then stays, and a bar of work that is done
stands there for ever. A click on a page whose bars look at their work several times a second often meets this.
"""

from __future__ import annotations

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

_clear = ForwardMsgQueue.clear


def _clear_but_keep_ends(
    queue: ForwardMsgQueue, retain_lifecycle_msgs: bool = False, fragment_ids_this_run: list[str] | None = None
) -> None:
    """Clear as Streamlit does, before a run of these fragments; what it says of the ends of others' runs stays."""
    ends = [
        message
        for message in queue._queue
        if message.WhichOneof("type") == "script_finished"
        and message.script_finished == ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY
        and set(message.metadata.run.fragment_ids).isdisjoint(
            fragment_ids_this_run or message.metadata.run.fragment_ids
        )
    ]
    _clear(queue, retain_lifecycle_msgs, fragment_ids_this_run)
    for message in ends:
        message.script_finished = ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY


def tell_every_end() -> None:
    """Once per process, before the first fragment."""
    ForwardMsgQueue.clear = _clear_but_keep_ends  # type: ignore[method-assign]
