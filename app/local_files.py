"""Files of the machine that the dashboard runs on, for somebody who runs it for themselves.

Off unless two things hold: the variable ROUTECAL_LOCAL_FILES names a folder, and the server listens to this machine
alone. Then the files of that folder can be chosen, and no others.
"""

from __future__ import annotations

import os
from pathlib import Path

from engine.importing.table import FORMATS

VARIABLE = "ROUTECAL_LOCAL_FILES"
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
_MOST = 500


def local_files(address: str | None) -> dict[str, Path]:
    """Files by their name inside the folder; empty where this is not allowed. `address` is what the server listens to.

    A link that leads out of the folder is left out.
    """
    named = os.environ.get(VARIABLE)
    if not named or address not in _THIS_MACHINE:
        return {}
    folder = Path(named).expanduser().resolve()
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        real = path.resolve()
        if path.suffix.lower() in FORMATS and real.is_file() and real.is_relative_to(folder):
            found[str(path.relative_to(folder))] = real
        if len(found) == _MOST:
            break
    return found
