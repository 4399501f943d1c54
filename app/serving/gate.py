"""Who may come in: what stands before pages, files and sockets alike. Open by default, to this machine alone.

ROUTECAL_PASSWORD : viewers type this password once per browser session.
ROUTECAL_USER_HEADER : the name of a header, such as X-Forwarded-User, that a reverse proxy sets for those it has let
    in. Requests without it are turned away. Only sound when nothing but the proxy can reach the server.
ROUTECAL_HOSTS : names under which the dashboard is reached, such as "dash.example.org, *.lab.example"; "*" for any.
    Bare addresses, localhost and this machine's own name always count. Another site that makes a name of its own mean
    this machine (DNS rebinding) is refused by this.
"""

import asyncio
import hashlib
import hmac
import os
import socket
from ipaddress import ip_address
from math import ceil
from urllib.parse import parse_qs, quote, urlsplit

import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.serving.backoff import BackOff, house
from app.serving.log import LOG
from app.serving.uploads import Uploads, drop_departed, kept_by_streamlit
from engine.core.errors import InvalidInput
from engine.core.limits import UPLOAD_SECONDS

PASSWORD, USER_HEADER, HOSTS = "ROUTECAL_PASSWORD", "ROUTECAL_USER_HEADER", "ROUTECAL_HOSTS"
CLIENT = "RouteCal-Client"
"""The header in which pages are told who somebody is."""
_COOKIE = "routecal-entered"
_GUESS_BYTES = 4096
_OPEN = frozenset({"health", "host-config", "stream", "upload_file", "bidi-components"})
"""What Streamlit offers to a page; its metrics and its interface for programs are closed."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    # Pictures from elsewhere would tell their owner who looks at which file.
    "Content-Security-Policy": "frame-ancestors 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'self'",
}
_FORM = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>RouteCal</title><style>body {{ font: 16px sans-serif; max-width: 22rem; margin: 20vh auto; padding: 0 1rem }}
input, button {{ font: inherit; padding: .4rem .6rem; margin-top: .4rem }}</style>
<h1>RouteCal</h1><form method="post"><label>Password<br><input type="password" name="password" autofocus
autocomplete="current-password"></label> <button>Enter</button></form><p role="alert">{said}</p></html>"""


class Gate:
    """ASGI middleware around the whole of Streamlit."""

    stands = False
    """Whether there is one in this process; a script that is served without refuses to be closed by a password."""

    def __init__(self, app: ASGIApp) -> None:
        Gate.stands = True
        self._app = app
        self._password = os.environ.get(PASSWORD, "").encode()
        self._user_header = os.environ.get(USER_HEADER, "")
        self._hosts = [name.strip().lower() for name in os.environ.get(HOSTS, "").split(",") if name.strip()]
        # The cookie outlives a restart, ends with the password, and gives it away no sooner than guessing does.
        self._token = hashlib.scrypt(self._password, salt=b"routecal", n=1 << 14, r=8, p=1).hex()
        self._guesses = BackOff()
        self._uploads = Uploads(kept_by_streamlit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer = self._refusal(HTTPConnection(scope))
        if answer is None and self._password and not self._is_open_to(HTTPConnection(scope)):
            answer = await self._at_the_door(scope, receive)
        if answer is None:
            try:
                answer = await self._let_in(self._introduced(scope), receive, send_with_headers)
            finally:
                if scope["type"] == "websocket" or scope["method"] == "PUT":
                    drop_departed()
        if answer is not None:
            await answer(scope, receive, send_with_headers)

    def _refusal(self, asked: HTTPConnection) -> Response | None:
        """For what nobody gets, and for those whom the proxy has not let in."""
        host, core = asked.headers.get("host", ""), _core_of(asked)
        if not self._is_ours(host):
            said = f"RouteCal is not served under this name. Its operator can add the name to {HOSTS}."
            return PlainTextResponse(said, 400)
        origin = asked.headers.get("origin")
        if asked.scope["type"] == "websocket" and origin and urlsplit(origin).netloc.lower() != host.lower():
            return PlainTextResponse("Another site may not listen here.", 403)
        if core and core.partition("/")[0] not in _OPEN:
            return PlainTextResponse("Not found", 404)
        if self._user_header and not asked.headers.get(self._user_header) and core != "health":
            LOG.warning("turned away: no %s header", self._user_header)
            said = "This server is reached through its sign-in page. Ask whoever runs it for the address."
            return PlainTextResponse(said, 403)
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in ("localhost", socket.gethostname().lower()) or _is_address(name):
            return True
        return any(known in ("*", name) or (known[:2] == "*." and name.endswith(known[1:])) for known in self._hosts)

    def _is_open_to(self, asked: HTTPConnection) -> bool:
        shown = asked.cookies.get(_COOKIE, "")
        return _core_of(asked) == "health" or hmac.compare_digest(shown.encode(), self._token.encode())

    async def _at_the_door(self, scope: Scope, receive: Receive) -> Response:
        """The form; with the right word in it, the way to where the viewer wanted to go."""
        if scope["type"] == "websocket" or scope["method"] != "POST":
            return _form("", 401)
        asked = Request(scope, receive)
        length = asked.headers.get("content-length", "")
        if not length.isdecimal():
            return PlainTextResponse("Length required", 411)
        if int(length) > _GUESS_BYTES:
            return PlainTextResponse("Too long", 413)
        word = parse_qs((await asked.body()).decode(errors="replace")).get("password", [""])[0]
        client = _client(asked)
        wait = self._guesses.wait(client)
        if wait > 0:
            return _form(f"Too many wrong passwords. Try again in {ceil(wait)} s.", 429)
        if not hmac.compare_digest(word.encode(), self._password):
            self._guesses.failed(client)
            LOG.warning("wrong password from %s", client)
            return _form("That is not the password.", 401)
        self._guesses.entered(client)
        here, query = scope["path"].lstrip("/"), scope["query_string"].decode("latin-1")
        answer = RedirectResponse(f"/{here}?{query}" if query else f"/{here}", 303)
        secure = asked.url.scheme == "https"
        answer.set_cookie(_COOKIE, self._token, httponly=True, samesite="lax", secure=secure)
        return answer

    def _introduced(self, scope: Scope) -> Scope:
        """With a header that says who this is, for queues that are fair: the proxy's word, or else the address."""
        asked = HTTPConnection(scope)
        who = asked.headers.get(self._user_header, "") if self._user_header else ""
        name = CLIENT.lower().encode()
        others = [pair for pair in scope["headers"] if pair[0].lower() != name]
        return {**scope, "headers": [*others, (name, quote(who or house(_client(asked))).encode())]}

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """On to Streamlit; an upload only where there is room for it, and not for ever."""
        asked = HTTPConnection(scope)
        kind, _, file = _core_of(asked).partition("/")
        if scope["type"] == "websocket" or scope["method"] != "PUT" or kind != "upload_file":
            await self._app(scope, receive, send)
            return None
        length = asked.headers.get("content-length", "")
        if not length.isdecimal():
            return PlainTextResponse("Length required", 411)
        try:
            with self._uploads.admit(file.partition("/")[0], int(length)):
                async with asyncio.timeout(UPLOAD_SECONDS):
                    await self._app(scope, receive, send)
        except InvalidInput as error:
            LOG.warning("upload refused: %s", error)
            return PlainTextResponse(str(error), 413)
        except TimeoutError:
            return PlainTextResponse("The upload took too long.", 408)
        return None


def _core_of(asked: HTTPConnection) -> str:
    """What of Streamlit's own is asked for, such as "health", below whatever path the dashboard is served."""
    return str(asked.scope["path"]).partition("/_stcore/")[2]


def _client(asked: HTTPConnection) -> str:
    return asked.client.host if asked.client else ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _form(said: str, status: int) -> Response:
    return HTMLResponse(_FORM.format(said=said), status, {"Cache-Control": "no-store"})


def require_gate() -> None:
    """End a script that should be closed and is served without the gate, such as by `streamlit run`."""
    if not Gate.stands and (os.environ.get(PASSWORD) or os.environ.get(USER_HEADER)):
        st.error("This server should ask who you are and cannot. Start it with `python -m app serve`.")
        st.stop()
