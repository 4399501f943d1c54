"""What stands before the dashboard: addresses, hosts, the password, bounds of uploads, headers."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from websockets.exceptions import InvalidStatus

from app.registry import page_for
from app.serving import uploads
from app.serving.backoff import ALL, EACH, FORGOTTEN, BackOff, house
from app.serving.gate import CLIENT, HOSTS, PASSWORD, USER_HEADER, Gate
from app.serving.uploads import Uploads
from engine.core.errors import InvalidInput
from engine.core.limits import ALL_BYTES, SESSION_BYTES, UPLOAD_BYTES
from tests.serving import ROOT, Served, free_port, running, serve
from tests.viewers import Seen, Viewer, run_through

WORD = "open sesame"


@pytest.fixture(scope="module")
def closed(cache_of_kinds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard with a password."""
    with serve(cache_of_kinds, tmp_path_factory.mktemp("closed") / "log", **{PASSWORD: WORD}) as server:
        yield server


def ask(
    served: Served, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], str]:
    """Status, headers and text of the server's answer, redirects as they are."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response: HTTPResponse = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read().decode()
    finally:
        connection.close()


def guess(served: Served, word: str, path: str = "/gap?run=seed+1") -> tuple[int, dict[str, str], str]:
    body = urllib.parse.urlencode({"password": word}).encode()
    return ask(served, "POST", path, body, Content_Type="application/x-www-form-urlencoded")


async def knock(served: Served, headers: Mapping[str, str]) -> Seen:
    async with Viewer(served, headers) as viewer:
        return await viewer.open("overview")


def test_nothing_comes_in_before_the_password_and_everything_after_it(closed: Served):
    """Neither a file nor a web socket nor a script of the page; and the word leads to where the viewer wanted to go."""
    status, _, text = ask(closed, "GET", "/gap?run=seed+1")
    assert status == 401
    assert 'type="password"' in text
    assert "static/js" not in text
    for method, path in (
        ("PUT", "/_stcore/upload_file/session/file"),
        ("GET", "/_stcore/host-config"),
        ("GET", "/x.js"),
    ):
        assert ask(closed, method, path, b"x" if method == "PUT" else None)[0] == 401, path
    with pytest.raises(InvalidStatus, match="401"):
        run_through(knock(closed, {}))
    assert guess(closed, "open barley")[0] == 401
    status, headers, _ = guess(closed, WORD)
    assert (status, headers["location"]) == (303, "/gap?run=seed+1")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    entered = {"Cookie": cookie.partition(";")[0]}
    assert run_through(knock(closed, entered)).titles == [page_for("overview").question]
    assert ask(closed, "GET", "/", **entered)[0] == 200
    with pytest.raises(InvalidStatus, match="401"):
        run_through(knock(closed, {"Cookie": entered["Cookie"][:-1] + "?"}))


def test_it_may_not_be_framed_and_tells_nobody_how_it_is(closed: Served):
    entered = {"Cookie": guess(closed, WORD)[1]["set-cookie"].partition(";")[0]}
    for path in ("/", "/_stcore/health"):
        for cookie in ({}, entered):
            headers = ask(closed, "GET", path, **cookie)[1]
            assert headers["x-frame-options"] == "SAMEORIGIN"
            assert headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'self'" in headers["content-security-policy"]
            assert (
                "img-src 'self' data: blob:" in headers["content-security-policy"]
            )  # no picture tells others of a visit
    for path in ("metrics", "agent/mcp", "agent/openapi.json", "script-health-check"):
        assert ask(closed, "GET", f"/_stcore/{path}", **entered)[0] == 404, path
    assert ask(closed, "GET", "/_stcore/health")[0] == 200


def test_a_foreign_host_is_refused(closed: Served):
    """Whoever makes a name of theirs mean this machine gets nothing by it."""
    for host in ("evil.example", "evil.example:8501", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", ""):
        assert ask(closed, "GET", "/_stcore/health", Host=host)[0] == 400, host
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8501", "[::1]:8501", "192.168.0.7", socket.gethostname()):
        assert ask(closed, "GET", "/_stcore/health", Host=host)[0] == 200, host
    with pytest.raises(InvalidStatus, match="403"):  # nor is anybody outside asked whether that is this machine
        run_through(knock(closed, {"Origin": "http://evil.example"}))


class Inside:
    """What the gate stands before, in its place: it takes the body and remembers that it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, _scope, _receive, send) -> None:
        self.asked += 1
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def status_of(gate: Gate, path: str = "/", method: str = "GET", body: bytes = b"", **headers: str) -> int:
    """Of the gate's answer to one request from 192.0.2.1, or from the address called `client`."""
    said: list[int] = []
    client = headers.pop("client", "192.0.2.1")
    named = {"host": "localhost", "content_length": str(len(body))} | headers
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "scheme": "http", "client": (client, 1), "server": ("localhost", 80), "root_path": "", "http_version": "1.1",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()],
    }  # fmt: skip

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message) -> None:
        if message["type"] == "http.response.start":
            said.append(message["status"])

    await gate(scope, receive, send)
    return said[0]


def form(word: str) -> bytes:
    return urllib.parse.urlencode({"password": word}).encode()


def test_names_that_the_operator_gives_are_hosts(monkeypatch):
    async def meet() -> list[int]:
        gate = Gate(Inside())
        hosts = ("dash.example.org", "DASH.example.org:443", "a.lab.example", "lab.example", "other.example")
        return [await status_of(gate, host=host) for host in hosts]

    monkeypatch.setenv(HOSTS, "dash.example.org, *.lab.example")
    assert run_through(meet()) == [200, 200, 200, 400, 400]
    monkeypatch.setenv(HOSTS, "*")
    assert run_through(meet()) == [200] * 5


def test_who_lacks_the_proxys_header_is_turned_away(monkeypatch):
    monkeypatch.setenv(USER_HEADER, "X-Forwarded-User")

    async def meet() -> list[int]:
        gate = Gate(Inside())
        upload = "/_stcore/upload_file/s/f"
        return [
            await status_of(gate),
            await status_of(gate, x_forwarded_user=""),
            await status_of(gate, upload, "PUT", b"x"),
            await status_of(gate, x_forwarded_user="somebody"),
            await status_of(gate, "/_stcore/health"),
        ]

    assert run_through(meet()) == [403, 403, 403, 200, 200]


def test_pages_hear_who_somebody_is_and_not_from_himself(monkeypatch):
    """By the proxy's word where there is one, or else by address: queues are fair between these."""
    heard: list[list[str]] = []

    async def inside(scope, _receive, send) -> None:
        heard.append([value.decode() for name, value in scope["headers"] if name.decode().lower() == CLIENT.lower()])
        await Inside()(scope, None, send)

    async def meet() -> None:
        assert await status_of(Gate(inside), client="2001:db8::1", **{CLIENT: "somebody else"}) == 200
        monkeypatch.setenv(USER_HEADER, "X-Forwarded-User")
        assert await status_of(Gate(inside), **{"x_forwarded_user": "Ada L", CLIENT: "Bob"}) == 200

    run_through(meet())
    assert heard == [[house("2001:db8::1")], ["Ada%20L"]]


def test_guesses_become_slow(monkeypatch):
    """The right word is not even looked at while an address has to wait; others may enter."""
    monkeypatch.setenv(PASSWORD, WORD)
    headers = {"content_type": "application/x-www-form-urlencoded"}

    async def meet() -> list[int]:
        gate = Gate(Inside())

        async def tell(word: str, client: str = "192.0.2.1") -> int:
            return await status_of(gate, "/", "POST", form(word), client=client, **headers)

        wrong = [await tell("barley") for _ in range(EACH.free + 2)]
        return [*wrong, await tell(WORD), await tell(WORD, "192.0.2.2")]

    assert run_through(meet()) == [401] * (EACH.free + 1) + [429, 429, 303]


def test_a_guess_is_small(monkeypatch):
    monkeypatch.setenv(PASSWORD, WORD)

    async def meet() -> list[int]:
        gate = Gate(Inside())
        form_of = {"content_type": "application/x-www-form-urlencoded"}
        return [
            await status_of(gate, "/", "POST", form("x" * 100_000), **form_of),
            await status_of(gate, "/", "POST", form("x"), content_length="many", **form_of),
            await status_of(
                gate, "/", "POST", form("\udcff".encode("utf-8", "surrogateescape").decode("latin-1")), **form_of
            ),
        ]

    assert run_through(meet()) == [413, 411, 401]


def test_the_back_off_doubles_up_to_a_bound_and_forgets():
    now = 0.0
    guesses = BackOff(clock=lambda: now)
    waits = []
    for _ in range(EACH.free + 12):
        now += guesses.wait("a")
        guesses.failed("a")
        waits.append(guesses.wait("a"))
    assert waits[: EACH.free] == [0.0] * EACH.free
    assert waits[EACH.free : EACH.free + 4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == EACH.most
    assert guesses.wait("b") <= ALL.most
    now += FORGOTTEN + EACH.most + 1
    assert guesses.wait("a") == 0.0
    guesses.failed("a")
    assert guesses.wait("a") == 0.0


def test_many_addresses_together_are_slow_too():
    now = 0.0
    guesses = BackOff(clock=lambda: now)
    tried = 0
    for number in range(200_000):
        if guesses.wait(f"address {number}") == 0.0:
            guesses.failed(f"address {number}")
            tried += 1
        now += 0.001
    assert tried < ALL.free + 200 / ALL.most + 10
    assert 0 < guesses.wait("a stranger") <= ALL.most
    guesses.entered("address 0")  # of one address: the others' guesses stand
    assert guesses.wait("a stranger") > 0


def test_addresses_that_guessed_take_little_room():
    guesses = BackOff(clock=lambda: 0.0)
    for number in range(20_000):
        guesses.failed(f"address {number}")
    assert guesses.size <= 10_001


def test_an_ipv6_house_is_one_address():
    guesses = BackOff(clock=lambda: 0.0)
    for number in range(EACH.free + 1):
        guesses.failed(f"2001:db8::{number:x}")
    assert guesses.wait("2001:db8::ffff") > 0
    assert guesses.wait("2001:db8:0:1::1") == 0.0


def test_uploads_have_bounds_each_and_together():
    """Of a file, of a session's, and of all; what is kept counts with what is on its way."""
    kept: dict[str, int] = {}
    bounds = Uploads(lambda: kept)
    with pytest.raises(InvalidInput, match="100 MB"), bounds.admit("a", UPLOAD_BYTES + 2_000_000):
        pass
    with bounds.admit("a", UPLOAD_BYTES), bounds.admit("a", UPLOAD_BYTES):
        with pytest.raises(InvalidInput, match="of one viewer"), bounds.admit("a", SESSION_BYTES // 10):
            pass
        with bounds.admit("b", UPLOAD_BYTES):
            pass
    kept["a"] = SESSION_BYTES - 10
    with pytest.raises(InvalidInput), bounds.admit("a", 2_000_000):
        pass
    kept |= {str(number): SESSION_BYTES for number in range(ALL_BYTES // SESSION_BYTES)}
    with pytest.raises(InvalidInput, match="of all viewers"), bounds.admit("c", 1_000_000):
        pass
    kept.clear()
    with bounds.admit("c", UPLOAD_BYTES):
        pass


def test_the_files_of_who_has_left_are_dropped(monkeypatch):
    manager = MemoryUploadedFileManager("/upload")
    for session in ("here", "gone"):
        manager.add_file(session, UploadedFileRec("1", "a.csv", "text/csv", b"12345"))
    server = SimpleNamespace(uploaded_file_mgr=manager, is_active_session=lambda session: session == "here")
    monkeypatch.setattr(uploads, "runtime", SimpleNamespace(exists=lambda: True, get_instance=lambda: server))
    assert uploads.kept_by_streamlit() == {"here": 5, "gone": 5}

    async def leave() -> None:
        assert await status_of(Gate(Inside()), "/_stcore/upload_file/here/2", "PUT", b"x") == 200

    run_through(leave())
    assert uploads.kept_by_streamlit() == {"here": 5}


def test_an_upload_says_how_large_it_is_before_it_comes():
    async def meet() -> tuple[list[int], int]:
        inside = Inside()
        gate = Gate(inside)
        path = "/_stcore/upload_file/session/file"
        inside.go_on.clear()
        under_way = [
            asyncio.create_task(status_of(gate, path, "PUT", content_length=str(UPLOAD_BYTES))) for _ in range(2)
        ]
        await asyncio.sleep(0)
        refused = [
            await status_of(gate, path, "PUT", b"x" * 1_000_000),
            await status_of(gate, path, "PUT", content_length=str(10**12)),
            await status_of(gate, path, "PUT", content_length="-1"),
        ]
        inside.go_on.set()
        done = [await task for task in under_way]
        return [*refused, *done, await status_of(gate, path, "PUT", b"x")], inside.asked

    assert run_through(meet()) == ([413, 413, 411, 200, 200, 200], 3)


def test_a_script_without_the_gate_lets_nobody_in(cache_of_kinds: Path, monkeypatch):
    from streamlit.testing.v1 import AppTest

    monkeypatch.setenv("ROUTECAL_CACHE", str(cache_of_kinds))
    monkeypatch.setenv(PASSWORD, WORD)
    monkeypatch.setattr(Gate, "stands", False)
    app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=600).run()
    assert "python -m app serve" in app.error[0].value
    assert not app.title
    assert not app.sidebar.selectbox


def test_it_listens_to_this_machine_alone_unless_told_otherwise(cache_of_kinds: Path, tmp_path: Path):
    """And asks no address outside, not even for its own: what would go there meets a listener of ours instead."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as outside:

        def listen() -> None:
            while True:
                try:
                    connection, _ = outside.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(200))

        threading.Thread(target=listen, daemon=True).start()
        proxy = f"http://127.0.0.1:{outside.getsockname()[1]}"
        environment = os.environ | {"ROUTECAL_CACHE": str(cache_of_kinds), "no_proxy": "127.0.0.1"}
        environment |= dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), proxy)
        for chosen, expected in (([], "127.0.0.1"), (["--address", "0.0.0.0"], "0.0.0.0")):
            port = free_port()
            command = [sys.executable, "-m", "app", "serve", "--port", str(port), *chosen]
            with running(command, port, tmp_path / "log", folder=ROOT, environment=environment) as served:
                assert listens_at(served) == expected
                with pytest.raises(InvalidStatus):
                    run_through(knock(served, {"Origin": "http://evil.example"}))
        outside.shutdown(socket.SHUT_RDWR)
    assert asked == []


def listens_at(served: Served) -> str:
    import psutil

    (listening,) = {
        each.laddr.ip for each in psutil.Process(served.process.pid).net_connections() if each.status == "LISTEN"
    }
    return str(listening)


@pytest.mark.parametrize(
    ("named", "expected"), [({}, "--address localhost"), ({"HOST": "0.0.0.0"}, "--address 0.0.0.0")]
)
def test_make_run_opens_when_told_to(named: dict[str, str], expected: str):
    environment = {name: value for name, value in os.environ.items() if name != "HOST"} | named
    command = ["make", "--dry-run", "--always-make", "run"]
    planned = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    (serving,) = [line for line in planned.splitlines() if "app serve" in line]
    assert expected in serving
