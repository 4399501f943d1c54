"""Faults that an address asks for, `?fault=...`, put into the dashboard by importing this in its process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import streamlit as st
from streamlit.logger import get_logger
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.compute import controls, null
from app.compute.jobs import Work
from app.shell import page

SECRET = "secret reason"


def _asked_for(fault: str) -> bool:
    return st.query_params.get("fault") == fault


def _fail(*_: object) -> None:
    time.sleep(1.5)  # long enough for long work to show its bar first
    raise RuntimeError(SECRET)


def _spoil(module: ModuleType, name: str, fault: str, *, alone: bool = False) -> None:
    """Let a function fail; `alone` only when Streamlit runs nothing but a fragment."""
    whole: Callable[..., Any] = getattr(module, name)

    @wraps(whole)
    def spoilt(*arguments: Any, **named: Any) -> Any:
        context = get_script_run_ctx()
        if _asked_for(fault) and context is not None and bool(context.fragment_ids_this_run) == alone:
            _fail()
        return whole(*arguments, **named)

    setattr(module, name, spoilt)


def _spoil_long_work() -> None:
    whole = null.nulls

    def spoilt(*arguments: Any) -> Work[Any]:
        return Work(("spoilt",), "cache", _fail) if _asked_for("job") else whole(*arguments)

    null.nulls = spoilt


def _log_by_others() -> None:
    """Lines of loggers with a handler of their own, with one of another logger's and with none."""
    draw_sidebar = page.draw_sidebar

    def logged() -> None:
        if _asked_for("log"):
            get_logger("streamlit.made_late").warning("made late")
            logging.getLogger("websockets.server").error("inherits")
            logging.getLogger("uvicorn.error").error("has none")
        draw_sidebar()

    page.draw_sidebar = logged


_log_by_others()
_spoil(page, "draw_sidebar", "page")
_spoil(controls, "planted", "fragment")
_spoil(controls, "planted", "fragment alone", alone=True)
_spoil_long_work()
