"""Processes that train one run after another, each of which may die without taking the sweep along."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait

from cache_builder.config import RunConfig
from cache_builder.one_run import Outcome, Places, attempt

Report = Callable[[str, float, str], None]
"""Called with the run, the fraction of it that is done, and a short text."""
Outcomes = Generator[Outcome, None, None]
"""What becomes of runs, as it comes; closing it ends the processes."""

PATIENCE_SECONDS = 10


def _leave_with_parent(parent: int) -> None:
    """End this worker when the sweep that started it was killed; nobody would collect its result."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _serve(pipe: Connection, parent: int) -> None:
    """The life of a worker: take a run, send its progress and then its outcome."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the sweep too, which ends its workers
    _leave_with_parent(parent)
    while True:
        config, places = pipe.recv()
        pipe.send(attempt(config, places, lambda fraction, text: pipe.send((fraction, text))))


class Worker:
    """One process with a pipe of its own: shared ones could be left locked by a process that is killed."""

    def __init__(self, device: str) -> None:
        self.device = device
        context = multiprocessing.get_context("spawn")  # a forked torch may hang in its thread pool
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
        self.process.start()
        theirs.close()  # so that the worker's death ends the pipe

    def give(self, config: RunConfig, places: Places) -> None:
        with suppress(OSError):  # a dead worker shows when its answer is read
            self.pipe.send((config, replace(places, device=self.device)))

    def cause_of_death(self) -> str:
        self.process.join(PATIENCE_SECONDS)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"its process was killed ({signal.Signals(-code).name}), perhaps for lack of memory"
        return f"its process ended with code {code}"

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(PATIENCE_SECONDS)
        self.process.kill()
        self.pipe.close()


def in_processes(todo: Sequence[RunConfig], places: Places, devices: Sequence[str], report: Report) -> Outcomes:
    """Train runs in a process for each device; a worker that dies fails its run and is replaced."""
    waiting = deque(todo)
    busy: dict[Connection, tuple[Worker, RunConfig]] = {}

    def employ(worker: Worker) -> None:
        config = waiting.popleft()
        busy[worker.pipe] = worker, config
        worker.give(config, places)

    try:
        for device in devices[: len(todo)]:
            employ(Worker(device))
        while busy:
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection), "nothing else was waited for"
                worker, config = busy[pipe]
                try:
                    message = pipe.recv()
                except (EOFError, OSError):
                    message = Outcome(config.run_id, "failed", worker.cause_of_death())
                if not isinstance(message, Outcome):
                    report(config.run_id, *message)
                    continue
                yield message
                del busy[pipe]
                alive = worker.process.is_alive()
                if not alive or not waiting:
                    worker.stop()
                if waiting:
                    employ(worker if alive else Worker(worker.device))
    finally:
        for worker, _ in busy.values():
            worker.stop()
