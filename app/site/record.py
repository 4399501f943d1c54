"""What a page shows, kept: the page's own script is run without a browser, and its `Page` remembers."""

import logging
from collections.abc import Mapping
from pathlib import Path

from streamlit.testing.v1 import AppTest

from app.compute import jobs
from app.compute.cache import runs
from app.export import Item
from app.registry import page_for
from app.shell import long_work
from app.shell.page import PAGE, Chosen
from app.state.selection import Protocol, Selection, Slice
from engine.core.errors import RouteCalError
from engine.store import Cache

ASKED = "routecal-asked"
_STAGE = Path(__file__).with_name("stage.py")
_FOREVER = 1e6  # seconds
_WARNS = "streamlit.runtime.scriptrunner_utils.script_run_context"  # of every thread that has no browser


class CannotDraw(RouteCalError):
    """A page failed while a site was made."""


def wait_for_long_work() -> None:
    """From now on long work of this process is waited for: nobody is there to look in again and again."""
    long_work.FIRST_LOOK = jobs.PATIENCE = _FOREVER
    logging.getLogger(_WARNS).disabled = True


def shown_on(page: str, cache: Cache, run_id: str, feature: str) -> Mapping[str, Item]:
    """What a page shows at default settings, by its keys; work that a viewer would have to start is not begun."""
    entry, selection = page_for(page), Selection(cache.fingerprint, run_id, feature, Slice(), Protocol())
    app = AppTest.from_file(str(_STAGE), default_timeout=_FOREVER)
    app.session_state[ASKED] = Chosen(cache.path, cache, runs(cache), selection), entry
    app.run()
    wrong = [element.message for element in app.exception] + [element.value for element in app.error]
    if wrong:
        raise CannotDraw(f"{entry.title} cannot be drawn for {run_id} and {feature}: {'; '.join(wrong)}")
    return app.session_state[PAGE].shown
