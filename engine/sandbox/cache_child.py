"""Opens an unfamiliar cache in a limited process (`engine.sandbox.unfamiliar`) and reads all of it."""

import importlib
import json
from typing import IO, Any

from engine.sandbox.attached import connection_code, path_of

_SETTINGS = {"max_temp_directory_size": "0B", "memory_limit": "384MB", "threads": 1}


def main(request: dict[str, Any], file: IO[bytes], output: IO[bytes]) -> None:  # noqa: ARG001  (nothing is asked)
    """Writes in JSON what is wrong with the cache, if anything is, and whether it will be for as long as it exists."""
    code, path = connection_code(), path_of(file)
    wrong, lasting = "", True
    try:
        connection = code.open_read_only(path, _SETTINGS)
        code.check_macros(connection, path)
        importlib.import_module("engine.store.ranges").check_ranges(connection, path)
    except code.CacheError as error:
        wrong, lasting = str(error), isinstance(error, code.NotACache | code.SchemaMismatch)
    output.write(json.dumps({"wrong": wrong, "lasting": lasting}).encode())
