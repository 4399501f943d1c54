"""A structured log: one JSON object per line, with the session and the request that a line belongs to.

A viewer who meets an error sees its type and a reference; the log holds the reference with the whole trace.
"""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import uuid4

import streamlit as st
from streamlit.errors import FragmentHandledException
from streamlit.runtime.scriptrunner import get_script_run_ctx

LOG = logging.getLogger("routecal")
_SERVER = ("streamlit", "uvicorn", "websockets")
_REQUEST: ContextVar[str] = ContextVar("request", default="")
_guard = threading.Lock()


class JsonLines(logging.Formatter):
    """`{"time": ..., "level": ..., "logger": ..., "request": ..., "session": ..., "message": ..., "trace": ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{record.msecs:03.0f}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "request": _REQUEST.get(),
            "session": _session(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _Logger(logging.Logger):
    """Loggers made from now on: Streamlit's modules make theirs when they are needed, each with its own handler."""

    def addHandler(self, hdlr: logging.Handler) -> None:
        if self.name.startswith(_SERVER):
            hdlr.setFormatter(JsonLines())
        super().addHandler(hdlr)


def _session() -> str:
    context = get_script_run_ctx(suppress_warning=True)
    return "" if context is None else context.session_id[:8]


def set_up_log() -> None:
    """Our own log and the lines of Streamlit and its web server in one form; again once Streamlit has made its own."""
    with _guard:
        if not LOG.handlers:
            LOG.setLevel(logging.INFO)
            LOG.propagate = False
            LOG.addHandler(logging.StreamHandler())
            logging.setLoggerClass(_Logger)
        made = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict) if name.startswith(_SERVER)]
        for handler in (*LOG.handlers, *(handler for logger in made for handler in logger.handlers)):
            handler.setFormatter(JsonLines())
        if logging.lastResort is not None:  # writes for loggers without a handler, such as `uvicorn.error`
            logging.lastResort.setFormatter(JsonLines())


def begin_request() -> None:
    """Give this run of the script, or of a fragment, a reference, which every line logged by it carries."""
    _REQUEST.set(uuid4().hex[:12])


@contextmanager
def referring_to_log() -> Iterator[None]:
    """What fails inside is shown with a reference, under which Streamlit logs the trace; it shows the type only."""
    try:
        yield
    except FragmentHandledException:  # said in the place of the fragment
        raise
    except Exception:
        st.error(f"Something went wrong. The server's log has it under {_REQUEST.get()}.")
        raise
