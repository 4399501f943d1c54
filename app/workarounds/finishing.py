"""The end of a fragment's run, told to the browser also when another fragment runs right after it.

What a fragment drew before and does not draw again leaves the page when the browser hears that its run has ended well.
If the next run begins before that message is sent, Streamlit 1.67 turns it into "ended early, to be run again": right
for a run of the same fragment, wrong for one of another. Everything old then stays, and a bar of work that is done
stands there for ever. A click on a page whose bars look at their work several times a second often meets this.
"""

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

_clear = ForwardMsgQueue.clear


def _clear_but_keep_ends(
    queue: ForwardMsgQueue, retain_lifecycle_msgs: bool = False, fragment_ids_this_run: list[str] | None = None
) -> None:
    """Clear as Streamlit does before a run of these fragments, or of the whole page; the ends of others' runs stay."""
    ended = [
        message for message in queue._queue if message.script_finished == ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY
    ]
    _clear(queue, retain_lifecycle_msgs, fragment_ids_this_run)
    for message in ended:
        others = [each for each in message.metadata.run.fragment_ids if each not in (fragment_ids_this_run or ())]
        if fragment_ids_this_run and others:
            message.script_finished = ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY
            message.metadata.run.fragment_ids[:] = others


def tell_every_end() -> None:
    """Once per process, before the first fragment."""
    ForwardMsgQueue.clear = _clear_but_keep_ends  # type: ignore[method-assign]
