"""Reads image data sets from local files: pixels and labels, nothing else is executed or fetched."""

from __future__ import annotations

import gzip
import io
import math
import pickle
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from cache_builder.datasets.images import Split
from engine.core.errors import CacheError, RouteCalError, first_line

LARGEST_IN_MEMORY = 2**30  # bytes
IMAGE_SUFFIXES = {".jpeg", ".jpg", ".png", ".bmp", ".webp"}


def _allocate(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Room for the pixels: in memory, or on disk (an unnamed temporary file) when there are many."""
    if math.prod(shape) <= LARGEST_IN_MEMORY:
        return np.empty(shape, dtype=np.uint8)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=np.uint8, mode="w+", shape=shape)


@contextmanager
def reading(what: Path | str) -> Iterator[None]:
    """Turn whatever goes wrong inside into an error that names the file."""
    try:
        yield
    except RouteCalError:
        raise
    except Exception as error:  # tarfile, gzip, pickle, Pillow and Arrow raise dozens of kinds for a damaged file
        raise CacheError(
            f"{what}: cannot be read ({type(error).__name__}: {first_line(error)}); fetch the data set again"
        ) from error


def decode(images: Sequence[bytes | Path], side: int | None, source: str = "") -> NDArray[np.uint8]:
    """(n, channels, side, side); with `side`, the short edge is resized to it and the centre is cut out.

    `source` is where images that are not files of their own come from.
    """
    pixels: NDArray[np.uint8] | None = None
    for number, image in enumerate(images):
        with reading(image if isinstance(image, Path) else f"{source}, image {number}"):
            array = _decoded(image, side)
            if pixels is None:
                pixels = _allocate((len(images), *array.shape))
            pixels[number] = array
    if pixels is None:
        raise CacheError("there are no images to decode")
    return pixels


def _decoded(image: bytes | Path, side: int | None) -> NDArray[np.uint8]:
    with Image.open(image if isinstance(image, Path) else io.BytesIO(image)) as opened:
        converted = opened.convert("RGB")
    if side is not None and converted.size != (side, side):
        scale = side / min(converted.size)
        converted = converted.resize([max(side, round(edge * scale)) for edge in converted.size])
        left, top = ((edge - side) // 2 for edge in converted.size)
        converted = converted.crop((left, top, left + side, top + side))
    return np.asarray(converted).transpose(2, 0, 1)


def read_parquet(files: Sequence[Path], label_column: str | None = None) -> Split:
    """Hub-style files: an image column (struct with `bytes`) and an integer label column."""
    images, labels = [], []
    for file in sorted(files):
        with reading(file):
            table = pq.read_table(file)
            names = table.column_names
            image = next((name for name in ("img", "image") if name in names), None)
            label = label_column or next((name for name in ("label", "fine_label") if name in names), None)
            if image is None or label is None or label not in names:
                raise CacheError(f"{file.name}: expected columns img or image, and {label or 'label'}; it has {names}")
            images.append(decode(table[image].combine_chunks().field("bytes").to_pylist(), None, str(file)))
            labels.append(table[label].to_numpy().astype(np.int64))
    with reading(files[0].parent):  # the images of two files may differ in size
        return Split(np.concatenate(images), np.concatenate(labels))


class _ArraysOnly(pickle.Unpickler):
    """The CIFAR archives are pickles of byte strings, lists and one array: nothing else may be constructed."""

    def find_class(self, module: str, name: str) -> object:
        permitted = {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}
        if (module, name) in permitted or (module.startswith("numpy.") and name == "_reconstruct"):
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise CacheError(f"this archive wants to run {module}.{name}, which a CIFAR archive never does")


def read_cifar_archive(place: Path, members: Sequence[str], label_key: bytes) -> Split:
    """The official python archives, as the .tar.gz or unpacked."""
    images, labels = [], []
    for member in members:
        with reading(f"{place}, {member}"):
            raw = (place / member).read_bytes() if place.is_dir() else _unpacked(place, member)
            batch = _ArraysOnly(io.BytesIO(raw), encoding="bytes").load()
            images.append(np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32))
            labels.append(np.asarray(batch[label_key], dtype=np.int64))
    return Split(np.concatenate(images), np.concatenate(labels))


def _unpacked(place: Path, member: str) -> bytes:
    with tarfile.open(place) as archive:
        name = next((name for name in archive.getnames() if Path(name).name == member), None)
        extracted = None if name is None else archive.extractfile(name)
        if extracted is None:
            raise FileNotFoundError("the archive is incomplete")
        return extracted.read()


def read_idx(file: Path) -> NDArray[np.uint8]:
    """An IDX file of unsigned bytes (the MNIST format), gzipped or not."""
    with reading(file), gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        magic = stream.read(4)
        if len(magic) != 4 or magic[:3] != b"\x00\x00\x08":
            raise CacheError(f"{file.name}: not an IDX file of unsigned bytes")
        shape = np.frombuffer(stream.read(4 * magic[3]), dtype=">u4").astype(int)
        values = np.frombuffer(bytearray(stream.read()), dtype=np.uint8)  # a writable copy, as torch wants
    if values.size != shape.prod():
        raise CacheError(f"{file.name}: {values.size} bytes where its header announces {shape.prod()}")
    return values.reshape(shape)


def read_folder(directory: Path, side: int, classes: Sequence[str]) -> Split:
    """directory/<class>/**/<image>, with the class order given."""
    files: list[bytes | Path] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        found = sorted(file for file in (directory / name).rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
        files += found
        labels += [number] * len(found)
    if not files:
        raise CacheError(f"{directory.name}: no images below the class folders")
    return Split(decode(files, side), np.asarray(labels, dtype=np.int64))
