"""Keeps Python's garbage collector away from what the libraries loaded.

Streamlit collects garbage after every script run, and nothing reaches the browser meanwhile. Going through the
functions and classes of pandas, SciPy and Plotly takes a tenth of a second, more than drawing the figure, and there is
never garbage among them. Frozen objects are passed over; they are freed as before when nothing refers to them.
"""

import atexit
import gc
import sys
import threading

_guard = threading.Lock()
_modules_seen = 0
atexit.register(gc.unfreeze)  # the last collection frees everything, so that no library reports leaks


def spare_modules() -> None:
    """Freeze what is loaded, once after every import; few runs import anything, so little else is frozen with it."""
    global _modules_seen
    with _guard:
        if len(sys.modules) > _modules_seen:
            gc.collect()
            gc.freeze()
            _modules_seen = len(sys.modules)
