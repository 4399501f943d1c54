"""A file called a cache that nobody has opened before is opened by a limited process first.

A changed byte under a right checksum may end the process that reads it, and no check of ours comes before DuckDB's own
reading of the catalogue.
"""

import json
import math
from pathlib import Path

from engine.core.errors import CacheError
from engine.sandbox.run import Allowance, LimitExceeded, ServerBusy, run_limited
from engine.store.identity import Identity, open_regular

_CACHE_CHILD = Path(__file__).with_name("cache_child.py")
_MEMORY_BYTES = 3 << 29
_SECONDS, _BYTES_PER_SECOND = 5, 10_000_000
"""Of computing, for any file and by its size; a quiet machine reads thirty megabytes and more in a second."""
_ON_A_BUSY_MACHINE = 4
_SHOWN = 1000


def try_out(path: Path, identity: Identity) -> str:
    """What is wrong with a file, whatever happens to the process that reads it; empty if nothing is.

    Raises `CacheError` for what may be otherwise in a moment: somebody writes to it or replaces it, or the server has
    no room.
    """
    with open_regular(path) as file:
        if Identity.of(file) != identity:
            raise CacheError(f"{path}: is being replaced; try again in a moment")
        seconds = math.ceil(_SECONDS + identity.size / _BYTES_PER_SECOND)
        allowance = Allowance(_MEMORY_BYTES, seconds, _ON_A_BUSY_MACHINE * seconds, output_bytes=1 << 20)
        try:
            with run_limited(_CACHE_CHILD, {}, file, allowance) as output:
                told = json.load(output)
                wrong, lasting = str(told["wrong"])[:_SHOWN], bool(told["lasting"])
        except ServerBusy as error:
            raise CacheError(f"{path}: {error}") from error
        except (LimitExceeded, ValueError, KeyError, TypeError) as error:
            broke = isinstance(error, LimitExceeded)
            return f"{path}: cannot be read: {error}" if broke else f"{path}: cannot be read"
    if wrong and not lasting:
        raise CacheError(wrong)
    return wrong
