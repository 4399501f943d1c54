"""Long work: joined by a second viewer, remembered, stopped, given up; on a page with a bar and two buttons."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from app.compute import jobs as module
from app.compute.jobs import GivenUp, Jobs, Work, jobs
from app.serving.log import LOG
from app.shell import long_work as component
from engine.core.types import Progress


def work(compute: Callable[[Progress], object], name: str = "key", of: str = "cache") -> Work[object]:
    return Work((name,), of, compute)


KEY = work(lambda _progress: None).id


def until_given_up(progress: Progress) -> str:
    for step in range(1000):
        progress(step / 1000, f"step {step}")
        time.sleep(0.01)
    return "finished"


def begin(own: Jobs, gate: threading.Event, viewer: str, name: str, of: str = "cache") -> Future[object]:
    """A job that is at work."""
    begun = threading.Event()
    job = own.watch(work(lambda _progress: [begun.set(), gate.wait(60)][1], name, of), viewer)
    assert begun.wait(60)
    return job.future


def test_two_viewers_share_a_job_and_its_result_is_remembered():
    own, gate, calls = Jobs(), threading.Event(), []

    def compute(progress: Progress) -> int:
        calls.append(1)
        progress(0.5, "half way")
        gate.wait(60)
        return 7

    first = own.watch(work(compute), "a")
    assert own.watch(work(compute), "b") is first
    assert own.find(work(until_given_up)) is None
    gate.set()
    assert first.future.result(60) == 7
    assert (first.fraction, first.text) == (0.5, "half way")
    assert own.find(work(until_given_up)) == 7
    assert calls == [1]


def test_stop_gives_the_job_up_unless_somebody_else_watches():
    own = Jobs()
    job = own.watch(work(until_given_up), "a")
    own.watch(work(until_given_up), "b")
    own.stop(KEY, "a")
    reached = job.fraction
    while job.fraction == reached and not job.future.done():  # until its next report, at which it would give up
        time.sleep(0.001)
    assert not job.future.done()
    own.stop(KEY, "b")
    with pytest.raises(GivenUp):
        job.future.result(60)
    assert own.find(work(until_given_up)) is None
    assert own.watch(work(lambda _progress: 3), "a").future.result(60) == 3


def test_a_job_that_nobody_watches_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    with pytest.raises(GivenUp):
        Jobs().watch(work(until_given_up), "a").future.result(60)


def test_a_failure_reaches_the_viewer_once_and_is_not_remembered():
    own = Jobs()

    def fail(_progress: Progress) -> int:
        raise ValueError("no such layer")

    wait([own.watch(work(fail), "a").future], timeout=60)
    with pytest.raises(ValueError, match="no such layer"):
        own.watch(work(fail), "a").future.result(60)
    assert own.watch(work(lambda _progress: 3), "a").future.result(60) == 3


def test_a_viewer_who_saw_a_failure_does_not_take_away_what_another_began_since():
    own, gate = Jobs(), threading.Event()

    def fail(_progress: Progress) -> int:
        raise ValueError("no such layer")

    failed = own.watch(work(fail), "a")
    wait([failed.future], timeout=60)
    assert own.watch(work(fail), "b") is failed
    begun = own.watch(work(lambda _progress: gate.wait(60)), "c")
    own.drop(KEY, failed)
    assert own.watch(work(lambda _progress: pytest.fail("begun twice")), "d") is begun
    own.drop(KEY, begun)  # whoever takes it away, its own end must not fail for that
    gate.set()
    assert begun.future.result(60) is True


def test_the_jobs_of_a_cache_that_is_gone_are_given_up_and_leave_nothing():
    own, gate = Jobs(workers=1), threading.Event()
    at_work = begin(own, gate, "a", "key", of="gone-cache")
    queued = own.watch(work(lambda _progress: 7, "other", "gone-cache"), "a")
    kept = own.watch(work(lambda _progress: 8), "a")
    own.forget("gone-cache")
    gate.set()
    assert kept.future.result(60) == 8
    assert at_work.result(60) is True
    with pytest.raises(GivenUp):
        queued.future.result(60)
    assert (
        own.find(work(until_given_up, of="gone-cache")) is own.find(work(until_given_up, "other", "gone-cache")) is None
    )


def test_a_crowd_at_one_address_does_not_hold_up_another():
    own, gate = Jobs(workers=1), threading.Event()
    crowd = [own.watch(work(lambda _progress: gate.wait(60), f"job {n}"), f"crowd {n}") for n in range(40)]
    assert own.watch(work(lambda _progress: 7, "mine"), "house me").future.result(60) == 7
    assert not any(job.future.done() for job in crowd)
    gate.set()
    assert all(job.future.result(60) for job in crowd)


def test_whoever_had_least_comes_next_and_among_equals_the_latest():
    """Behind one address there may be a whole class; and nobody waits until a backlog is done."""
    own, gate, order = Jobs(workers=1), threading.Event(), []
    begin(own, gate, "class greedy", "first")
    begun = [
        own.watch(work(lambda _progress, name=name, viewer=viewer: order.append(f"{viewer} {name}"), name), viewer)
        for viewer, name in (("class greedy", "a"), ("class b", "b"), ("class greedy", "c"), ("class d", "d"))
    ]
    gate.set()
    wait([job.future for job in begun], timeout=60)
    assert order == ["class d d", "class b b", "class greedy c", "class greedy a"]


def test_what_one_viewer_and_all_may_ask_for_is_bounded():
    """The oldest that waits gives way: of the viewer who asks for too much, or at the address with most."""
    own, gate = Jobs(workers=1, per_viewer=2, most=4), threading.Event()

    def ask(viewer: str, name: str) -> Future[object]:
        return own.watch(work(lambda _progress: gate.wait(60), name), viewer).future

    at_work = begin(own, gate, "a 1", "at work")
    mine = [ask("a 1", str(number)) for number in range(3)]
    assert isinstance(mine[0].exception(60), GivenUp)
    others = [ask("a 2", "x"), ask("a 3", "y")]
    begin(own, gate, "b 1", "at work too")
    last = [ask("b 1", "z")]
    assert isinstance(mine[1].exception(60), GivenUp)
    gate.set()
    assert all(future.result(60) for future in (at_work, mine[2], *others, *last))


def test_a_viewer_is_known_by_address_and_session(monkeypatch):
    monkeypatch.setattr(module.st, "session_state", {})
    monkeypatch.setattr(module.st, "context", SimpleNamespace(headers={module.CLIENT: "192.0.2.1"}))
    assert module.viewer().startswith("192.0.2.1 ")
    assert module.viewer() == module.viewer()


def page(name: str, start: bool) -> AppTest:
    """A page with one long computation; results are remembered by name, so each test has its own."""

    def script(name: str, start: bool) -> None:
        import streamlit as st

        from app.compute.jobs import Work
        from app.shell.long_work import long_work

        def compute(progress) -> int:
            progress(0.5, "half way")
            return 42

        found = long_work("sum", Work((name,), "cache", compute), label="Add it up", start=start)
        st.write("nothing yet" if found is None else f"found {found}")

    return AppTest.from_function(script, args=(name, start), default_timeout=600)


def test_it_draws_a_bar_and_the_rest_of_the_page_while_it_works(monkeypatch):
    monkeypatch.setattr(component, "FIRST_LOOK", 0.0)
    gate = threading.Event()
    monkeypatch.setattr(module, "_TEST_GATE", gate, raising=False)

    def script() -> None:
        import streamlit as st

        from app.compute import jobs
        from app.shell.long_work import long_work

        waiting = jobs.Work(("bar",), "cache", lambda _progress: jobs._TEST_GATE.wait(20))
        found = long_work("wait", waiting, label="Wait")
        st.write("nothing yet" if found is None else f"found {found}")

    app = AppTest.from_function(script, default_timeout=600).run()
    assert app.markdown[0].value == "nothing yet"
    assert app.button(key="stop-wait").label == "Stop"
    gate.set()
    wait([jobs().watch(work(lambda _progress: True, "bar"), "test").future], timeout=60)
    app.run()
    assert app.markdown[0].value == "found True"


def test_whoever_comes_back_to_work_under_way_does_not_wait_for_its_bar_again(monkeypatch):
    monkeypatch.setattr(component, "FIRST_LOOK", 0.2)
    waited: list[float] = []

    def note(futures: list[Future[object]], timeout: float) -> None:
        waited.append(timeout)
        wait(futures, timeout=timeout)

    monkeypatch.setattr(component, "wait", note)
    gate = threading.Event()
    monkeypatch.setattr(module, "_TEST_GATE", gate, raising=False)

    def script() -> None:
        from app.compute import jobs
        from app.shell.long_work import long_work

        waiting = jobs.Work(("comes back",), "cache", lambda _progress: jobs._TEST_GATE.wait(20))
        long_work("wait", waiting, label="Wait")

    app = AppTest.from_function(script, default_timeout=600).run()
    app.run()
    gate.set()
    first, second = waited
    assert 0 < first <= 0.2
    assert second == 0


def test_it_starts_by_itself_and_leaves_no_bar_behind():
    app = page("itself", start=True).run()
    assert not app.exception
    assert app.markdown[0].value == "found 42"
    assert len(app.button) == 0


def test_it_waits_for_the_button_where_asked_to():
    app = page("button", start=False).run()
    assert app.markdown[0].value == "nothing yet"
    app.button(key="start-sum").click().run()
    assert app.markdown[0].value == "found 42"


def test_what_was_stopped_is_not_started_again_by_itself():
    app = page("stopped", start=True)
    app.session_state["sum-stopped"] = work(until_given_up, "stopped").id
    app.run()
    assert (app.caption[0].value, app.markdown[0].value) == ("Stopped.", "nothing yet")
    app.button(key="start-sum").click().run()
    assert app.markdown[0].value == "found 42"


@pytest.fixture
def logged(caplog, monkeypatch) -> Iterator[pytest.LogCaptureFixture]:
    """What our own log says, which a server keeps from the root's."""
    monkeypatch.setattr(LOG, "propagate", False)
    LOG.addHandler(caplog.handler)
    yield caplog
    LOG.removeHandler(caplog.handler)


def failing_page(monkeypatch: pytest.MonkeyPatch, name: str, seen_by: str) -> tuple[AppTest, list[int]]:
    """A page whose work fails, seen by the page itself or by the part of it that looks again and again."""

    def script(name: str, seen_by: str) -> None:
        import streamlit as st

        from app.compute import jobs
        from app.shell import long_work as component

        def fail(_progress) -> int:
            jobs._TEST_CALLS.append(1)
            raise ValueError("no such layer")

        failing = jobs.Work((name,), "cache", fail)
        if seen_by == "fragment" and "looked" not in st.session_state:
            st.session_state["looked"] = True
            component.wait([jobs.jobs().watch(failing, "test").future])
            component._show_progress("sum", failing, lambda: None)
        component.long_work("sum", failing, label="Add it up")
        st.write("the rest of the page")

    calls: list[int] = []
    monkeypatch.setattr(module, "_TEST_CALLS", calls, raising=False)
    return AppTest.from_function(script, args=(name, seen_by), default_timeout=600), calls


@pytest.mark.parametrize("seen_by", ["page", "fragment"])
def test_a_failure_is_shown_once_and_waits_for_the_button(seen_by: str, monkeypatch, logged):
    app, calls = failing_page(monkeypatch, f"fails-{seen_by}", seen_by)
    app.run()
    assert "The server's log has it under" in app.error[0].value
    assert "no such layer" not in app.error[0].value
    assert [record.exc_info[1].args for record in logged.records if record.exc_info] == [("no such layer",)]
    assert app.markdown[0].value == "the rest of the page"
    assert calls == [1]
    app.run()
    assert not app.error, "shown once"
    assert calls == [1], "not begun again by itself"
    app.button(key="start-sum").click().run()
    assert calls == [1, 1]
    assert "The server's log has it under" in app.error[0].value


def test_an_unreadable_cache_is_the_whole_pages_affair():
    def script() -> None:
        from app.compute.jobs import Work
        from app.shell.long_work import long_work
        from engine.core.errors import CacheError

        def fail(_progress) -> int:
            raise CacheError("the file is gone")

        long_work("sum", Work(("unreadable",), "cache", fail), label="Add it up")

    app = AppTest.from_function(script, default_timeout=600).run()
    assert len(app.exception) == 1
    assert not app.error
    assert "sum-stopped" not in app.session_state, "begun again by itself when the cache is back"


class Bar:
    """Stands in for the place on the page at which a bar is drawn."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def progress(self, _share: float, text: str) -> None:
        self.drawn.append(text)

    def empty(self) -> None:
        self.drawn.append("gone")


@pytest.fixture
def bar(monkeypatch) -> Bar:
    drawn = Bar()
    own, for_cache = Jobs(), Jobs(workers=1)
    monkeypatch.setattr(module, "_page_jobs", lambda: own)
    monkeypatch.setattr(module, "_cache_jobs", lambda: for_cache)
    monkeypatch.setattr(module, "viewer", lambda: "somebody")
    monkeypatch.setattr(module.st, "container", lambda **_key: SimpleNamespace(empty=lambda: drawn))
    monkeypatch.setattr(module, "_GLANCE", 0.02)
    return drawn


def test_what_a_page_depends_on_is_waited_for_behind_a_bar_and_remembered(bar: Bar):
    calls = []

    def compute(progress: Progress) -> int:
        calls.append(1)
        progress(0.5, "half way")
        while "half way" not in bar.drawn:
            time.sleep(0.01)
        return 7

    assert module.awaited(work(compute)) == module.awaited(work(compute)) == 7
    assert calls == [1]
    assert bar.drawn[-2:] == ["half way", "gone"]


def test_what_is_quick_is_waited_for_without_a_bar(bar: Bar, monkeypatch):
    monkeypatch.setattr(module, "_GLANCE", 5.0)
    assert module.awaited(work(lambda _progress: 7)) == 7
    assert bar.drawn == ["gone"]


@pytest.mark.usefixtures("bar")
def test_a_failure_of_what_is_waited_for_is_shown_once():
    def fail(_progress: Progress) -> int:
        raise ValueError("no such layer")

    with pytest.raises(ValueError, match="no such layer"):
        module.awaited(work(fail))
    assert module.awaited(work(lambda _progress: 3)) == 3


@pytest.mark.usefixtures("bar")
def test_a_viewer_who_leaves_does_not_lose_the_work(monkeypatch):
    gate, calls = threading.Event(), []

    def compute(_progress: Progress) -> int:
        calls.append(1)
        gate.wait(60)
        return 7

    class Left(Exception):
        """What Streamlit raises in a script whose viewer has clicked elsewhere."""

    def leave(*_arguments: object) -> None:
        raise Left

    with monkeypatch.context() as patch:
        patch.setattr(Bar, "progress", leave)
        with pytest.raises(Left):
            module.awaited(work(compute))
    gate.set()
    assert module.awaited(work(compute)) == 7
    assert calls == [1]


@pytest.mark.usefixtures("bar")
def test_studies_of_the_whole_cache_hold_up_nothing_else():
    gate = threading.Event()
    sweeps = [
        module._cache_jobs().watch(work(lambda _progress: gate.wait(20), name), "others") for name in ("one", "two")
    ]
    assert module.awaited(work(lambda _progress: 7, "verdict")) == 7
    assert not any(sweep.future.done() for sweep in sweeps)
    gate.set()
    assert module.awaited(work(lambda _progress: pytest.fail("computed twice"), "one"), whole_cache=True) is True


@pytest.mark.usefixtures("bar")
def test_a_job_finds_and_leaves_what_pages_wait_for():
    told: list[str] = []
    rows = module.within_a_job(work(lambda progress: [progress(0.5, "half way"), 7][1], "rows"))
    assert rows(lambda _share, text: told.append(text)) == 7
    assert told == ["half way"]
    assert module.awaited(work(lambda _progress: pytest.fail("computed twice"), "rows"), whole_cache=True) == 7
