"""Makes a cache of one run out of a stranger's file, in a limited process (`engine.sandbox.run`)."""

from pathlib import Path
from typing import IO, Any

from engine.importing import ColumnMapping, RunIdentity, build_record
from engine.importing.readers import Limits, read_stream
from engine.store.publish import write_own


def main(request: dict[str, Any], file: IO[bytes], output: IO[bytes]) -> None:  # noqa: ARG001  (as every child)
    """request : name, limits, mapping and identity by field, the folder to write into."""
    table = read_stream(file, request["name"], Limits(**request["limits"]))
    mapping: dict[str, Any] = request["mapping"]
    chosen: dict[str, Any] = {role: tuple(at) if isinstance(at, list) else at for role, at in mapping.items()}
    provenance = {"source": f"import of {table.name}", "data_fingerprint": table.fingerprint}
    record = build_record(table.columns, ColumnMapping(**chosen), RunIdentity(**request["identity"]), provenance)
    write_own(record, Path(request["folder"]))
