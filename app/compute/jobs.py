"""Long computations in the background, shared by all viewers, remembered when done, given up when nobody waits.

A viewer's script only looks in from time to time: it may be rerun or interrupted without losing the work. There are
four queues, each with few workers, so that a room full of viewers cannot bring the server to a halt: for work that a
page shows when it is done, for what a page cannot begin without (`awaited`), which never waits behind minutes of
training, for studies of the whole cache, so that no verdict on a run waits behind those, and for limited processes.

A queue is fair. One address may not have all its workers; of those that wait comes next whose address has fewest at
work, then whose address and who himself had fewest lately, then the latest: nobody waits for a whole backlog.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar, cast
from uuid import uuid4

import streamlit as st
from streamlit import runtime

from app.compute.keep import Key, Memo
from app.serving.gate import CLIENT
from app.shell.wording import plain
from engine.core import limits
from engine.core.types import Progress
from engine.sandbox.run import LimitExceeded

Result = TypeVar("Result")
WORKERS = 2
"""At work at once for one address; each queue has one more, for others."""
PATIENCE = 60.0
"""Seconds that a job goes on when nobody watches it: a viewer who reloads the page finds it still at work."""
_GLANCE = 0.25
"""Seconds between two looks at a job that is waited for."""


@dataclass(frozen=True, eq=False)
class Work(Generic[Result]):
    """A long computation.

    key : its name, then all else that the result depends on besides the cache, such as ("probes", samples, width).
    fingerprint : of the cache that it reads.
    compute : takes a progress callback. It runs on another thread, so it calls the engine and nothing of Streamlit:
        load the data before, and close over it.
    stored : the result as the cache holds it, None where it does not.
    """

    key: tuple[Hashable, ...]
    fingerprint: str
    compute: Callable[[Progress], Result]
    stored: Callable[[], Result | None] = lambda: None

    @property
    def id(self) -> Key:
        """What its result is remembered by."""
        return Key(self.fingerprint, self.key)


class GivenUp(Exception):
    """Raised inside a job, at its next report of progress: it was stopped, nobody waits for it, or the server ends."""


class Job(Generic[Result]):
    """One computation in progress; `fraction` and `text` say how far it is."""

    def __init__(self, compute: Callable[[Progress], Result], key: Key, viewer: str) -> None:
        self.key, self.viewer = key, viewer
        self.fraction, self.text = 0.0, "waiting for other computations"
        self.future: Future[Result] = Future()
        self._compute = compute
        self._asked = time.monotonic()
        self._seen: dict[str, float] = {}
        self._stopped = False
        self._guard = threading.Lock()

    @property
    def age(self) -> float:
        """Seconds since it was asked for."""
        return time.monotonic() - self._asked

    def work(self) -> Result:
        """Compute; called on a worker thread."""
        self._report(0.0, "starting")
        return self._compute(self._report)

    def _report(self, fraction: float, text: str) -> None:
        if self._stopped or not self._is_watched() or _server_stops():
            raise GivenUp(text)
        self.fraction, self.text = min(max(fraction, 0.0), 1.0), text

    def _is_watched(self) -> bool:
        with self._guard:
            return time.monotonic() - max(self._seen.values(), default=-PATIENCE) < PATIENCE

    def look(self, viewer: str) -> None:
        """Keep the job going for this viewer."""
        with self._guard:
            self._seen[viewer] = time.monotonic()

    def stop(self, viewer: str) -> None:
        """This viewer has enough; give up at the next report, unless another one is watching."""
        with self._guard:
            self._seen.pop(viewer, None)
        self._stopped |= not self._is_watched()

    def give_up(self) -> None:
        """Whoever is watching: there is nothing left to compute on."""
        self._stopped = True


def _server_stops() -> bool:
    """Python waits for the threads of a pool before it ends, so they must not work on when the server is told to."""
    stopping = (runtime.RuntimeState.STOPPING, runtime.RuntimeState.STOPPED)
    return runtime.exists() and runtime.get_instance().state in stopping


class Jobs:
    """Jobs by what they compute: a second viewer who asks for the same thing joins the first."""

    def __init__(
        self, workers: int = WORKERS, *, capacity: int = 128,
        per_viewer: int = limits.JOBS_PER_VIEWER, most: int = limits.JOBS,
    ) -> None:  # fmt: skip
        self._memo = Memo(capacity)
        self._running: dict[Key, Job[object]] = {}
        self._waiting: list[Job[object]] = []
        self._at_work: Counter[str] = Counter()
        self._begun: deque[str] = deque(maxlen=most)
        self._workers, self._per_viewer, self._most = workers, per_viewer, most
        self._guard = threading.Lock()
        self._pool = ThreadPoolExecutor(workers + 1, thread_name_prefix="job")

    def find(self, work: Work[Result]) -> Result | None:
        """The result of work that is done, remembered or stored with the cache, or None."""
        found = cast(Result | None, self._memo.find(work.id))
        if found is None:
            found = work.stored()
            if found is not None:
                return self._memo.get(work.id, lambda: found)
        return found

    def get(self, work: Work[Result], progress: Progress) -> Result:
        """The result of a job, for another job that needs it: found, or computed where this is called."""
        found = self.find(work)
        return self._memo.get(work.id, lambda: work.compute(progress)) if found is None else found

    def watch(self, work: Work[Result], viewer: str) -> Job[Result]:
        """The job under way for this work, or a new one. Look again within `PATIENCE` seconds to keep it going.

        A job that failed is handed out once more, with its failure, and then forgotten.
        """
        with self._guard:
            job = self._running.get(work.id)
            if job is None:
                job = Job(cast(Callable[[Progress], object], work.compute), work.id, viewer)
                job.look(viewer)  # before it starts, or it would be given up at once
                self._running[work.id] = job
                self._waiting.append(job)
                self._make_room(viewer)
                self._pool.submit(self._run_waiting)
            elif job.future.done():
                del self._running[work.id]
            job.look(viewer)
            return cast(Job[Result], job)

    def stop(self, key: Key, viewer: str) -> None:
        """Give the job up if no other viewer watches it."""
        with self._guard:
            job = self._running.get(key)
        if job is not None:
            job.stop(viewer)

    def drop(self, key: Key, job: Job[Result]) -> None:
        """Forget this job, whose failure a viewer has seen; another one begun under its key since then goes on."""
        with self._guard:
            if self._running.get(key) is job:
                del self._running[key]

    def forget(self, fingerprint: str) -> None:
        """Drop the results of a cache's jobs, and give up those that wait or are at work."""
        with self._guard:
            for key, job in self._running.items():
                if key.fingerprint == fingerprint:
                    job.give_up()
        self._memo.forget(fingerprint)

    def _make_room(self, viewer: str) -> None:
        """Under the guard: where too many wait, the oldest of this viewer, or at the address with most, gives way."""
        waiting = [job for job in self._waiting if job.viewer == viewer]
        if len(waiting) <= self._per_viewer:
            [(most, _)] = Counter(_address(job.viewer) for job in self._waiting).most_common(1)
            waiting = [job for job in self._waiting if _address(job.viewer) == most]
            if len(self._waiting) <= self._most:
                return
        self._waiting.remove(waiting[0])
        self._running.pop(waiting[0].key, None)
        waiting[0].future.set_exception(GivenUp("others have asked for too much"))

    def _next(self) -> Job[object] | None:
        """The waiting job whose turn it is, unless those at work already are all that their addresses may have."""
        with self._guard:
            free = [job for job in self._waiting if self._at_work[_address(job.viewer)] < self._workers]
            if not free:
                return None
            begun = Counter(self._begun), Counter(map(_address, self._begun))

            def had(job: Job[object]) -> tuple[int, ...]:
                address = _address(job.viewer)
                return self._at_work[address], begun[1][address], begun[0][job.viewer]

            job = min(reversed(free), key=had)
            self._waiting.remove(job)
            self._at_work[_address(job.viewer)] += 1
            self._begun.append(job.viewer)
            return job

    def _run_waiting(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._run(job)
            finally:
                with self._guard:
                    self._at_work[_address(job.viewer)] -= 1
                    self._at_work += Counter()  # forgets those that are at zero

    def _run(self, job: Job[object]) -> None:
        try:
            result = self._memo.get(job.key, job.work)
        except BaseException as failure:
            if isinstance(failure, GivenUp):  # any other failure stays until a viewer has seen it
                self.drop(job.key, job)
            job.future.set_exception(failure)
        else:
            self.drop(job.key, job)
            job.future.set_result(result)


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """One set of jobs for all viewers of this server."""
    return Jobs()


@st.cache_resource(show_spinner=False)
def _page_jobs() -> Jobs:
    return Jobs()


@st.cache_resource(show_spinner=False)
def _cache_jobs() -> Jobs:
    return Jobs(workers=1)


@st.cache_resource(show_spinner=False)
def _process_jobs() -> Jobs:
    return Jobs(limits.CHILDREN - 1, capacity=0, per_viewer=limits.QUERIES_PER_VIEWER, most=limits.QUERIES)


def viewer() -> str:
    """This browser session among all: its address, a space, a name of its own."""
    return str(st.session_state.setdefault("routecal-viewer", f"{st.context.headers.get(CLIENT, '')} {uuid4().hex}"))


def _address(viewer: str) -> str:
    return viewer.rpartition(" ")[0]


def forget_jobs(fingerprint: str) -> None:
    """Drop all results of a cache."""
    for each in (jobs(), _page_jobs(), _cache_jobs(), _process_jobs()):
        each.forget(fingerprint)


def within_a_job(work: Work[Result]) -> Callable[[Progress], Result]:
    """What several jobs need: computed inside the first, found by the others and by `awaited` with `whole_cache`.

    To be asked for before a job begins.
    """
    shared = _cache_jobs()
    return lambda progress: shared.get(work, progress)


def awaited(work: Work[Result], *, whole_cache: bool = False) -> Result:
    """A result that the rest of the page depends on: waited for with a bar, computed once for all viewers.

    A viewer who clicks elsewhere meanwhile is free at the next glance; the job goes on and is found again.
    whole_cache : it goes through every run, which may take long: only one such job runs at a time.
    """
    # With or without work to wait for: a control that moves is no longer in the address.
    bar = st.container(key=f"progress-{work.key[0]}").empty()
    pool = _cache_jobs() if whole_cache else _page_jobs()
    found = pool.find(work)
    if found is not None:
        return found
    while True:
        job = pool.watch(work, viewer())
        wait([job.future], timeout=_GLANCE)
        if not job.future.done():
            bar.progress(job.fraction, plain(job.text))
        elif not isinstance(job.future.exception(), GivenUp):
            break
    bar.empty()
    if job.future.exception() is not None:
        pool.drop(work.id, job)
    return job.future.result()


def in_process(name: str, compute: Callable[[Progress], Result]) -> Result:
    """What a limited process makes of a file or a question: waited for, and ended with the viewer's session."""
    pool, work = _process_jobs(), Work((name, uuid4()), viewer(), compute)
    job = pool.watch(work, viewer())
    while not job.future.done():
        job.look(viewer())
        wait([job.future], timeout=_GLANCE)
    pool.drop(work.id, job)
    try:
        return job.future.result()
    except GivenUp as error:
        raise LimitExceeded("other viewers keep the server busy; try again in a moment") from error
