"""`serve`: the dashboard, warm before its first viewer comes.

What pages are made of is imported and the cache is opened before the server answers, so that the first visit is as
quick as the second.
"""

import argparse
import importlib
import os
import pkgutil
import signal
import sys
from pathlib import Path

from app.serving.log import LOG, set_up_log
from engine.core.errors import CacheError
from engine.store.connection import CACHE_VARIABLE, default_cache_path

ROOT = Path(__file__).resolve().parents[2]
_PARTS = ("compute", "parts", "plots", "shell")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cache", nargs="?", help="cache file (default: data/routing.duckdb, or ROUTECAL_CACHE)")
    parser.add_argument("--port", type=int, default=8501, help="(default: %(default)s)")
    parser.add_argument(
        "--address",
        default="localhost",
        help="where to listen; 0.0.0.0 for every network (default: this machine alone)",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.cache:
        os.environ[CACHE_VARIABLE] = str(Path(arguments.cache).resolve())
    set_up_log()
    warm_up()
    serve(ROOT / "app/main.py", arguments.port, arguments.address)
    return 0


def serve(script: Path | str, port: int, address: str) -> None:
    """A script of Streamlit behind the gate, until the process is told to stop."""
    from starlette.middleware import Middleware  # with Streamlit's server a second that the help does without
    from streamlit.starlette import App

    from app.serving.gate import Gate

    for told in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # uvicorn hands them on when it has closed; what must be tidied still is
        signal.signal(told, lambda *_: sys.exit())
    os.chdir(ROOT)  # where Streamlit looks for .streamlit/config.toml
    set_up_log()
    App(script, middleware=[Middleware(Gate)]).run(config={"server.port": port, "server.address": address})


def warm_up() -> None:
    """Import what pages import, draw a figure, and open the cache; one that cannot be read is said on the page."""
    for part in _PARTS:
        package = importlib.import_module(f"app.{part}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    from app.compute.cache import current_cache, runs
    from app.plots.theme import Theme, figure

    figure(Theme(), title="", x="", y="").add_scatter(x=[0], y=[0]).to_json()  # Plotly makes its checks on first use
    try:
        runs(current_cache(default_cache_path()).cache)
    except CacheError as error:
        LOG.warning("served without a cache: %s", error)
