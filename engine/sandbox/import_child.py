"""Reads a stranger's file in a limited process (`engine.sandbox.run`) and hands its columns back as plain arrays."""

import json
from typing import IO, Any

import numpy as np

from engine.importing.readers import Limits, read_stream

HEAD = "head"


def main(request: dict[str, Any], file: IO[bytes], output: IO[bytes]) -> None:
    """request : name, limits. Writes an NPZ: the columns as 0, 1, ... and all else as JSON in an array of bytes."""
    table = read_stream(file, request["name"], Limits(**request["limits"]))
    head = {
        "name": table.name,
        "columns": list(table.columns),
        "ignored": dict(table.ignored),
        "n_bytes": table.n_bytes,
        "fingerprint": table.fingerprint,
    }
    arrays = {str(number): values for number, values in enumerate(table.columns.values())}
    np.savez(output, **{HEAD: np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]
