"""Children that want too much are stopped; what they can see and say is little."""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.core.errors import InvalidInput
from engine.importing import ColumnMapping, RunIdentity
from engine.sandbox.run import Allowance, LimitExceeded, as_file, publish_isolated, run_limited
from engine.store import open_cache
from engine.store.publish import remove_own

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


def test_a_child_that_nobody_wants_any_more_is_killed(tmp_path: Path):
    """Whoever follows the work may end it; `progress` raises what comes out."""

    class Left(Exception):
        pass

    others, looked = psutil.Process().children(), []

    def progress(_share: float, _text: str) -> None:
        looked.append([child for child in psutil.Process().children() if child not in others])
        if len(looked) > 2:
            raise Left

    script = tmp_path / "script.py"
    script.write_text("import time\ndef main(request, file, output): time.sleep(600)")
    with as_file(b"") as file, pytest.raises(Left):
        run_limited(script, {}, file, SMALL, progress)
    (child,) = looked[-1]
    assert not child.is_running()


def test_a_published_upload_is_that_of_the_file(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mapping = ColumnMapping(confidence="confidence", correct="correct", extra=("score",))
    lines = "".join(f"{0.5 + n / 1000},{n % 2},{n}\n" for n in range(400))
    identity = RunIdentity("your-data", dataset="mine")
    path = publish_isolated(f"confidence,correct,score\n{lines}".encode(), "mine.csv", mapping, identity)
    with open_cache(path) as cache:
        run = cache.load("your-data")
        assert run.extra["score"].tolist() == list(range(400))
        assert run.correct.tolist() == [False, True] * 200
        assert cache.runs()["dataset"].tolist() == ["mine"]
    remove_own(path)
    assert not list(tmp_path.iterdir())


def test_zeros_that_unpack_to_gigabytes_are_refused_by_name(tmp_path: Path, monkeypatch):
    """Two rows of a million equal logits are 878 bytes of Parquet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    logits = pa.array([[0.0] * 1_000_000] * 2, pa.list_(pa.float32()))
    packed = io.BytesIO()
    pq.write_table(pa.table({"logits": logits, "label": [0, 1]}), packed, compression="zstd")
    mapping = ColumnMapping(logits=("logits",), label="label")
    with pytest.raises(InvalidInput, match="32,768"):
        publish_isolated(packed.getvalue(), "zeros.parquet", mapping, RunIdentity("your-data"))
    assert not list(tmp_path.iterdir())


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
