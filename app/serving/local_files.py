"""Files of the machine that the dashboard runs on, for somebody who runs it for themselves.

Off unless the variable ROUTECAL_LOCAL_FILES names a folder, the server listens to this machine alone, and no reverse
proxy on it lets others in. Then the files of that folder can be chosen, and no others.
"""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from app.serving.gate import USER_HEADER
from engine.importing.readers import FORMATS
from engine.store.connection import is_text

VARIABLE = "ROUTECAL_LOCAL_FILES"
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
_MOST = 500


def local_files(address: str | None) -> dict[str, Path]:
    """Files by their name inside the folder; empty where this is not allowed. `address` is what the server listens to.

    A link that leads out of the folder is left out.
    """
    named = os.environ.get(VARIABLE)
    if not named or address not in _THIS_MACHINE or os.environ.get(USER_HEADER):
        return {}
    folder = Path(named).expanduser().resolve()
    return {str(path.relative_to(folder)): path.resolve() for path in islice(_readable(folder), _MOST)}


def _readable(folder: Path) -> Iterator[Path]:
    """Files of a format that can be read, those nearest to the top first; no more is listed than is asked for."""
    for here, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(here, name) for name in sorted(names)):
            real = path.resolve()
            if path.suffix.lower() in FORMATS and is_text(path) and real.is_file() and real.is_relative_to(folder):
                yield path
