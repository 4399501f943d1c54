"""Answers beside the shards that they are about: a text file for each, good for one checksum and one engine."""

import json
from collections.abc import Mapping
from pathlib import Path

from engine.core.errors import CacheError, first_line
from engine.store.atomic import replacing
from engine.store.schema import ENGINE_VERSION

OF_THE_CACHE = "_cache"
"""The name of the file of answers about all shards of a directory together; no run is called so."""
Diagnoses = Mapping[str, str]
"""Encoded answers by name."""


def diagnoses_path(directory: Path, name: str) -> Path:
    """Where the answers of a run are, or those of all runs together."""
    return directory / f"{name}.diagnoses.json"


def read_diagnoses(directory: Path, name: str, checksum: str) -> dict[str, str]:
    """The answers for this checksum by this version of the engine; none where there are others, or nothing readable."""
    try:
        held = json.loads(diagnoses_path(directory, name).read_text())
        if (held["checksum"], held["engine_version"]) != (checksum, ENGINE_VERSION):
            return {}
        return {str(key): json.dumps(value, separators=(",", ":")) for key, value in held["answers"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_diagnoses(directory: Path, name: str, checksum: str, answers: Diagnoses) -> Path:
    """Keep answers, a line for each so that a change shows; whatever was kept before goes."""
    path = diagnoses_path(directory, name)
    lines = ",\n".join(f"{json.dumps(key)}:{text}" for key, text in sorted(answers.items()))
    head = f'"checksum":{json.dumps(checksum)},"engine_version":{ENGINE_VERSION}'
    try:
        with replacing(path) as temporary:
            temporary.write_text(f'{{{head},"answers":{{\n{lines}\n}}}}\n')
    except OSError as error:
        raise CacheError(f"{path}: cannot be written ({first_line(error)}); nothing was changed") from error
    return path
