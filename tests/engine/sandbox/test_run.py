"""Children that want too much are stopped; what they can see and say is little."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import InvalidInput
from engine.sandbox.run import Allowance, LimitExceeded, as_file, run_limited

SMALL = Allowance(memory_bytes=300 << 20, cpu_seconds=2, wall_seconds=120, output_bytes=1 << 20)
BRIEF = replace(SMALL, wall_seconds=4)


def run(tmp_path: Path, body: str, content: bytes = b"", allowance: Allowance = SMALL, **request: object) -> bytes:
    script = tmp_path / "script.py"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    script.write_text(f"import json, os, signal, time\ndef main(request, file, output):\n{lines}\n")
    with as_file(content) as file, run_limited(script, request, file, allowance) as output:
        return output.read()


def test_a_child_gets_the_request_and_the_file(tmp_path: Path):
    assert run(tmp_path, "output.write(request['a'].encode() + file.read())", b" file", a="request") == b"request file"


def test_a_child_sees_no_environment_and_no_other_file(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    with secret.open() as held:
        os.set_inheritable(held.fileno(), True)
        told = json.loads(
            run(
                tmp_path,
                "links = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
                " if os.path.exists(f'/proc/self/fd/{n}')]\n"
                "output.write(json.dumps([dict(os.environ), os.getcwd(), links]).encode())",
            )
        )
    environment, folder, links = told
    assert "hunter2" not in json.dumps(environment)
    assert set(environment) <= {
        "HOME", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "ARROW_DEFAULT_MEMORY_POOL", "LC_CTYPE",
    }  # fmt: skip
    assert folder == "/"
    assert str(secret) not in links


OVERRUNS = {
    "memory": ("bytes(400 << 20)", "more memory"),
    "computing": ("while True: pass", "seconds of computing"),
    "sleeping": ("time.sleep(600)", "after 4 seconds"),
    "output": ("output.write(bytes(2 << 20)); output.flush()", "more memory"),
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", "broke off"),
    "unforeseen error": ("1 / 0", "broke off"),
    "a limit raised": ("import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))", None),
}


@pytest.mark.parametrize("kind", OVERRUNS)
def test_overruns_are_stopped_within_the_limit(kind: str, tmp_path: Path):
    body, text = OVERRUNS[kind]
    if kind == "a limit raised" and os.geteuid() == 0:
        pytest.skip("root may raise its own limits")
    # A busy machine may need more than four seconds for anything but sleeping.
    start = time.monotonic()
    with pytest.raises(LimitExceeded, match=text):
        run(tmp_path, body, allowance=BRIEF if kind == "sleeping" else SMALL)
    assert time.monotonic() - start < SMALL.wall_seconds  # a minute and more to die, but not the ten of its sleep


def test_reasons_come_back_as_text(tmp_path: Path):
    body = (
        "class Refused(Exception):\n    argument, expected, got = 'column', 'numbers', '<b>text</b>'\nraise Refused()"
    )
    with pytest.raises(InvalidInput, match="column: expected numbers, got <b>text</b>"):
        run(tmp_path, body)


def test_a_child_that_lies_about_its_reason(tmp_path: Path):
    with pytest.raises(LimitExceeded, match="without a reason"):
        run(tmp_path, "os.write(1, b'[1, 2'); os._exit(3)")


def test_nothing_is_left_running(tmp_path: Path):
    marker = tmp_path / "pid"
    with pytest.raises(LimitExceeded):
        run(tmp_path, f"os.system('echo $$ $PPID > {marker}; sleep 600')", allowance=replace(SMALL, wall_seconds=10))
    started = marker.read_text().split()
    deadline = time.monotonic() + 30  # to die takes a killed process a moment
    while any(map(_runs, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, started))


def _runs(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
