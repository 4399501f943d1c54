"""NPZ archives, read without numpy's loader: a header is believed only as far as the archive's sizes bear it out.

The array format is described in numpy.lib.format: a magic string, a header (a literal dictionary of dtype, order and
shape) and the raw values. Arrays of Python objects hold pickles and are refused.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from engine.core.errors import InvalidInput, first_line
from engine.importing.limits import Limits

_CHUNK = 1 << 20
_MAX_HEADER = 4096
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy writes. Others zipfile knows too, but LZMA takes as much memory as a header of its own claims."""
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError)
"""zipfile has a ValueError for names that are not UTF-8 and for places before the start of the file."""
Arrays = dict[str, NDArray[Any]]


def read_npz(stream: IO[bytes], name: str, limits: Limits) -> tuple[Arrays, dict[str, str]]:
    """The numeric arrays of one or two dimensions by name, and why the others were left out."""
    try:
        with zipfile.ZipFile(stream) as archive:
            return _read_members(archive, name, limits)
    except InvalidInput:
        raise
    except _UNREADABLE as error:
        raise InvalidInput(
            name, "an NPZ archive made by numpy.savez (pickles are never read)", f"something else ({first_line(error)})"
        ) from error


def _read_members(archive: zipfile.ZipFile, name: str, limits: Limits) -> tuple[Arrays, dict[str, str]]:
    members = archive.infolist()
    limits.check_columns(name, len(members))
    limits.check_bytes(f"{name}, unpacked", sum(member.file_size for member in members))
    arrays: Arrays = {}
    ignored: dict[str, str] = {}
    for member in members:
        column = member.filename.removesuffix(".npy")
        what = f"{name}: array {column!r}"
        if column == member.filename:
            raise InvalidInput(what, "an .npy array", "some other file in the archive")
        if member.flag_bits & 0x1:
            raise InvalidInput(what, "an archive without a password", "an encrypted one")
        if member.compress_type not in _COMPRESSIONS:
            raise InvalidInput(what, "an array stored or deflated, as numpy.savez does", "another compression")
        if column in arrays or column in ignored:
            raise InvalidInput(what, "one array of a name", "two")
        with archive.open(member) as data:
            shape, fortran_order, dtype = _header(data, what)
            reason = _unusable(shape, dtype, what)
            if reason is not None:
                ignored[column] = reason
                continue
            _check_size(what, shape, dtype, member.file_size - data.tell())
            limits.check_rows(what, shape[0])
            arrays[column] = _values(data, what, shape, fortran_order, dtype)
    return arrays, ignored


def _header(data: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        version = npy.read_magic(data)
        found = readers[version](data, max_header_size=_MAX_HEADER) if version in readers else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, TokenError) as error:
        raise InvalidInput(what, "a readable numpy header", first_line(error)) from error
    if found is None:
        raise InvalidInput(what, "numpy array format 1.0 or 2.0", f"format {version[0]}.{version[1]}")
    shape, fortran_order, dtype = found
    # numpy takes True for a length when it reads a header, and not when it reshapes.
    if any(isinstance(length, bool) for length in shape):
        raise InvalidInput(what, "a shape of whole numbers", f"{shape}")
    return shape, fortran_order, dtype


def _unusable(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> str | None:
    """Why an array is not a per-sample column, or None if it may be one."""
    if dtype.hasobject:
        raise InvalidInput(
            what, "numbers (save it without dtype=object)", "Python objects, which only a pickle can hold"
        )
    if dtype.kind not in "fiub":
        return f"holds {'text' if dtype.kind in 'US' else dtype.name}, not numbers"
    if len(shape) not in (1, 2):
        return f"has {len(shape)} dimensions, not one or two"
    return None


def _check_size(what: str, shape: tuple[int, ...], dtype: np.dtype[Any], held: int) -> None:
    n_bytes = math.prod(shape) * dtype.itemsize
    if any(length < 0 for length in shape) or n_bytes != held:
        raise InvalidInput(what, f"{n_bytes:,} bytes, as the shape {shape} says", f"{held:,} bytes in the archive")


def _values(
    data: IO[bytes], what: str, shape: tuple[int, ...], fortran_order: bool, dtype: np.dtype[Any]
) -> NDArray[Any]:
    # Grown as the bytes arrive, not by what the header says: an archive may claim sizes that it does not hold.
    buffer = bytearray()
    while chunk := data.read(_CHUNK):
        buffer += chunk
    _check_size(what, shape, dtype, len(buffer))
    flat = np.frombuffer(buffer, dtype=dtype)
    array = flat.reshape(shape, order="F" if fortran_order else "C")
    # Native byte order and at most double precision for everyone who comes after.
    return array.astype(np.float64 if dtype.kind == "f" and dtype.itemsize > 8 else dtype.newbyteorder("="), copy=False)
