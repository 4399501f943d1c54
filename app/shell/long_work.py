"""A long computation on a page: progress, a way to stop it, and a result that is remembered for every viewer.

The script does not wait. It draws the rest of the page, a small part of the page asks every moment how far the work
is, and the page is drawn again when it is done: controls stay alive, and Stop is heard at once.
"""

from collections.abc import Callable
from concurrent.futures import wait
from functools import partial
from typing import TypeVar

import streamlit as st

from app.compute.jobs import GivenUp, Job, Work, jobs, viewer
from app.serving.log import LOG, referring_to_log
from app.shell.fragment import fragment
from app.shell.wording import plain
from engine.core.errors import CacheError

Result = TypeVar("Result")
FIRST_LOOK = 0.4
"""Seconds from the start of work until its bar is drawn: what is quick comes without one. Tests wait longer."""
_GLANCE = 0.3
"""Seconds between two looks at a job."""


def long_work(
    name: str, work: Work[Result], *, label: str, hint: str | None = None, start: bool = True
) -> Result | None:
    """The result of the work, or None as long as there is none; this then draws the bar, or the button that starts it.

    name : of this place on the page, for its keys.
    label : what the button says, such as "Compare ten splits"; hint : what it says to a pointer.
    start : begin by itself; otherwise the viewer presses the button.
    """
    # With or without a bar, so that what follows stays where it is: a control that moves is no longer in the address.
    place = st.container(key=f"progress-{name}")
    found = jobs().find(work)
    if found is not None:
        return found
    with place:
        return _wait_or_offer(name, work, label=label, hint=hint, start=start)


def _wait_or_offer(name: str, work: Work[Result], *, label: str, hint: str | None, start: bool) -> Result | None:
    """The job's result if it comes in a moment; else its bar, its failure, or the button that starts it."""
    asked, stopped, failed = f"{name}-asked", f"{name}-stopped", f"{name}-failed"
    key = work.id

    def begin() -> None:
        st.session_state[asked], st.session_state[stopped] = key, None

    def stop() -> None:
        st.session_state[asked], st.session_state[stopped] = None, key
        jobs().stop(key, viewer())

    of, failure = st.session_state.pop(failed, (None, None))
    failure = failure if of == key else None
    wanted = st.session_state.get(stopped) != key and (start or st.session_state.get(asked) == key)
    if wanted and failure is None:
        job = jobs().watch(work, viewer())
        wait([job.future], timeout=max(0.0, FIRST_LOOK - job.age))  # not again for whoever comes back to it
        if not _is_done(job):
            _show_progress(name, work, stop)
            return None
        failure = job.future.exception()
        if failure is None:
            return job.future.result()
        jobs().drop(key, job)
    if failure is not None:
        _say(name, failure)
        st.session_state[asked], st.session_state[stopped] = None, key  # begun again by the viewer, never by itself
    elif st.session_state.get(stopped) == key:
        st.caption("Stopped.")
    st.button(plain(label), key=f"start-{name}", on_click=begin, help=hint)
    return None


def _say(name: str, failure: BaseException) -> None:
    """A failure in its place on the page, the rest of which goes on; an unreadable cache is the whole page's affair."""
    if isinstance(failure, CacheError):
        raise failure
    try:
        with referring_to_log():
            raise failure
    except Exception:
        LOG.exception("long work failed: %s", name)


def _is_done(job: Job[Result]) -> bool:
    """Whether there is an outcome; a job that was given up just before this viewer came has none and is begun anew."""
    return job.future.done() and not isinstance(job.future.exception(), GivenUp)


@partial(fragment, run_every=_GLANCE)
def _show_progress(name: str, work: Work[Result], stop: Callable[[], None]) -> None:
    if jobs().find(work) is not None or st.session_state.get(f"{name}-stopped") == work.id:
        st.rerun()
    job = jobs().watch(work, viewer())
    if _is_done(job) and job.future.exception() is not None:  # the page shows it once, instead of here again and again
        st.session_state[f"{name}-failed"] = work.id, job.future.exception()
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(job.fraction, plain(job.text))
        st.button("Stop", key=f"stop-{name}", on_click=stop)
