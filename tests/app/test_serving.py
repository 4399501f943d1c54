"""The gate and the log: open by default, a password, a proxy's header; JSON lines that lead from viewer to trace."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from app.serving import gate
from app.serving.log import JsonLines, begin_request
from engine.sandbox.run import UPLOAD_LIMITS
from tests.serving import ROOT, Served, serve
from tests.viewers import Seen, Viewer, run_through

SECRET = "secret reason"
"""See tests/app/spoilt.py, which is imported by the server and not here, where it would spoil other tests."""


def test_a_log_line_is_json_with_its_request_and_trace():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("routecal-test")
    logger.addHandler(handler)
    logger.propagate = False
    begin_request()
    try:
        raise ValueError('a "quoted"\nreason')
    except ValueError:
        logger.exception("it failed for %s", "reasons")
    line = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert re.fullmatch("[0-9a-f]{12}", line["request"])
    assert (line["level"], line["message"]) == ("error", "it failed for reasons")
    assert 'ValueError: a "quoted"\nreason' in line["trace"]


SPOILT = """
import runpy, sys
sys.path.insert(0, {root!r})
import tests.app.spoilt
runpy.run_path({root!r} + "/app/main.py")
"""
PROXY = {"X-Forwarded-User": "somebody"}


@pytest.fixture(scope="module")
def served(cache_of_kinds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The dashboard behind a sign-in, and with faults: see tests/app/spoilt.py."""
    folder = tmp_path_factory.mktemp("serving")
    script = folder / "spoilt_main.py"
    script.write_text(SPOILT.format(root=str(ROOT)))
    with serve(cache_of_kinds, folder / "log", script=str(script), **{gate.USER_HEADER: "X-Forwarded-User"}) as server:
        yield server


class Listener(Viewer):
    """A viewer who was let in and keeps every byte that arrives."""

    def __init__(self, served: Served) -> None:
        super().__init__(served, PROXY)
        self.heard = b""

    async def receive(self) -> bytes:
        message = await super().receive()
        self.heard += message
        return message


async def draw(viewer: Viewer, fault: str) -> Seen:
    return await viewer.open("controls" if "fragment" in fault else "gap", {"fault": fault})


def still(seen: Seen) -> str:
    """The fragment that is drawn when its viewer asks, not the one that looks after long work."""
    [fragment] = set(seen.fragments) - seen.looks_again.keys()
    return fragment


async def draw_fragment_alone(viewer: Viewer, fault: str) -> Seen:
    seen = await draw(viewer, fault)
    assert not seen.exceptions
    assert not seen.alerts
    return await viewer.redraw(seen, still(seen))


async def wait_for_long_work(viewer: Viewer, fault: str) -> Seen:
    """It fails while a fragment looks at it; the page shows that and looks no more."""
    seen = await viewer.open("null", {"fault": fault})
    assert seen.looks_again
    return await viewer.wait_for(seen)


@pytest.mark.parametrize(
    ("fault", "meet"),
    [("page", draw), ("fragment", draw), ("fragment alone", draw_fragment_alone), ("job", wait_for_long_work)],
)
def test_a_viewer_sees_a_reference_and_the_log_has_the_reason(
    fault: str, meet: Callable[[Viewer, str], Awaitable[Seen]], served: Served
):
    async def visit() -> tuple[Seen, bytes]:
        async with Listener(served) as viewer:
            return await meet(viewer, fault), viewer.heard

    before = len(served.log_lines())
    seen, heard = run_through(visit())
    assert len(seen.alerts) == 1, seen.alerts
    reference = re.search(r"The server's log has it under ([0-9a-f]{12})\.", seen.alerts[0])
    assert reference
    assert seen.exceptions or fault == "job"  # Streamlit's box; long work fails in its place and the page goes on
    assert SECRET.encode() not in heard
    with_trace = [line for line in served.log_lines()[before:] if "trace" in line]
    assert [line["request"] for line in with_trace] == [reference[1]]
    assert f"RuntimeError: {SECRET}" in with_trace[0]["trace"]
    assert with_trace[0]["session"]
    with pytest.raises(AssertionError, match=SECRET):  # who writes tests is told more than a viewer
        seen.assert_sound()


def test_every_drawing_of_a_fragment_is_a_request_of_its_own(served: Served):
    async def redraw_twice() -> list[str]:
        async with Viewer(served, PROXY) as viewer:
            seen = await draw_fragment_alone(viewer, "fragment alone")
            first = seen.alerts[0]
            return [first, (await viewer.redraw(seen, still(seen))).alerts[0]]

    first, second = run_through(redraw_twice())
    assert first != second


def test_every_line_after_the_first_viewer_is_json(served: Served):
    """Of loggers made before and after the log was set up, with and without handlers, and of the web server."""

    async def visit() -> None:
        async with Viewer(served, PROXY) as viewer:
            await viewer.open("overview")
            await viewer.open("overview", {"fault": "log"})

    run_through(visit())
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert b"400" in connection.recv(100)
    text = served.log.read_text()
    lines = [json.loads(line) for line in text[text.index("{") :].splitlines()]
    assert {("streamlit.made_late", "made late"), ("websockets.server", "inherits"), ("uvicorn.error", "has none")} <= {
        (line["logger"], line["message"]) for line in lines
    }
    assert any(line["logger"].startswith("uvicorn") and "Invalid HTTP request" in line["message"] for line in lines)


def test_every_fragment_is_ours():
    """Streamlit's own would show errors that lead nowhere."""
    for path in (*ROOT.glob("app/**/*.py"), *ROOT.glob("pages/*.py")):
        if path != ROOT / "app/shell/fragment.py":
            assert "st.fragment" not in path.read_text(), path


def test_the_settings_of_a_server():
    settings = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())
    assert settings["browser"]["gatherUsageStats"] is False
    assert settings["client"]["showErrorDetails"] == "type"
    server = settings["server"]
    assert [server[name] for name in ("headless", "enableCORS", "enableXsrfProtection")] == [True, True, True]
    assert server["maxUploadSize"] * 10**6 == UPLOAD_LIMITS.max_bytes
    assert settings["runner"]["magicEnabled"] is False


@pytest.mark.parametrize("path", sorted(ROOT.glob("pages/*.py")), ids=lambda path: path.stem)
def test_no_page_has_a_string_that_stands_by_itself(path: Path):
    """With its magic on, Streamlit shows it to viewers; the docstring of the page is spared."""
    _docstring, *statements = ast.parse(path.read_text()).body
    assert not [one.lineno for one in statements if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]


def answer(request: urllib.request.Request) -> tuple[int, str]:
    """Status and text of the server's answer."""
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_another_site_can_neither_upload_nor_listen(served: Served):
    """A file without the token that only our own page can read; a web socket from elsewhere."""

    def upload(**headers: str) -> tuple[int, str]:
        target = f"{served.address}/_stcore/upload_file/session/file"
        return answer(urllib.request.Request(target, data=b"x", method="PUT", headers=PROXY | headers))

    assert upload() == (403, "XSRF token missing or invalid")
    with urllib.request.urlopen(f"{served.address}/_stcore/health", timeout=30) as response:
        cookie = response.headers["Set-Cookie"].partition(";")[0]
    assert upload(Cookie=cookie)[0] == 403
    assert "XSRF" not in upload(**{"Cookie": cookie, "X-Xsrftoken": cookie.partition("=")[2]})[1]

    async def listen() -> None:
        async with Viewer(served, PROXY | {"Origin": "http://elsewhere.example"}):
            pass

    with pytest.raises(InvalidStatus, match="403"):
        run_through(listen())


def test_what_pages_need_is_there_before_the_first_viewer():
    """In a process of its own: after warming up nothing of ours, of Plotly or of SciPy is left for a page to import."""
    code = """
import ast, importlib, sys
from pathlib import Path
from app.serving.serve import warm_up
warm_up()
known = set(sys.modules)
for page in Path("pages").glob("*.py"):
    for node in ast.walk(ast.parse(page.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in getattr(node, "names", [])]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            [importlib.import_module(name) for name in names]
print(sorted(name for name in set(sys.modules) - known if not name.startswith("_")))
"""
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[-2] == "[]", found.stdout
