"""A structured log: one JSON object per line, with the session and the request that a line belongs to.

A viewer who meets an error sees its type and a reference; the log holds the reference with the whole trace.
"""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from uuid import uuid4

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

LOG = logging.getLogger("routecal")
_REQUEST: ContextVar[str] = ContextVar("request", default="")


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


def _session() -> str:
    context = get_script_run_ctx(suppress_warning=True)
    return "" if context is None else context.session_id[:8]


@st.cache_resource(show_spinner=False)
def set_up_log() -> None:
    """Once per server: our own log, and the lines of Streamlit's, in one form."""
    formatter = JsonLines()
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
    LOG.addHandler(logging.StreamHandler())
    names = ("routecal", *(name for name in logging.root.manager.loggerDict if name.startswith("streamlit")))
    for name in names:
        for handler in logging.getLogger(name).handlers:
            handler.setFormatter(formatter)


def begin_request() -> str:
    """Give this run of the script a reference, which every line logged by it carries."""
    reference = uuid4().hex[:12]
    _REQUEST.set(reference)
    return reference
