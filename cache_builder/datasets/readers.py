"""Reads image data sets from local files: pixels and labels, nothing else is executed or fetched."""

import io
import itertools
import math
import pickle
import tarfile
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
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
    except Exception as error:  # tarfile, pickle, Pillow and Arrow raise dozens of kinds for a damaged file
        raise CacheError(
            f"{what}: cannot be read ({type(error).__name__}: {first_line(error)}); fetch the data set again"
        ) from error


Encoded = Path | tuple[str, bytes]
"""An image file, or where an image that is no file of its own lies, with its bytes."""


def decode(images: Sequence[Encoded], side: int | None) -> NDArray[np.uint8]:
    """(n, channels, side, side); with `side`, the short edge is resized to it and the centre is cut out."""
    pixels: NDArray[np.uint8] | None = None
    for number, image in enumerate(images):
        with reading(image if isinstance(image, Path) else image[0]):
            array = _decoded(image if isinstance(image, Path) else io.BytesIO(image[1]), side)
            if pixels is None:
                pixels = np.empty((len(images), *array.shape), dtype=np.uint8)
            pixels[number] = array
    if pixels is None:
        raise CacheError("there are no images to decode")
    return pixels


def _decoded(image: Path | io.BytesIO, side: int | None) -> NDArray[np.uint8]:
    with Image.open(image) as opened:
        converted = opened.convert("RGB")
    if side is not None and converted.size != (side, side):
        scale = side / min(converted.size)
        converted = converted.resize([max(side, round(edge * scale)) for edge in converted.size])
        left, top = ((edge - side) // 2 for edge in converted.size)
        converted = converted.crop((left, top, left + side, top + side))
    return np.asarray(converted).transpose(2, 0, 1)


class Stored(ABC):
    """Images that are decoded as they are asked for, the next batch while the last one is used."""

    channels = 3

    def __init__(self, where: Path, labels: NDArray[np.int64], side: int | None) -> None:
        self.where, self.labels, self.side = where, labels, side

    @abstractmethod
    def encoded(self, rows: NDArray[np.int64]) -> Iterator[Encoded]:
        """The files of these images, in this order."""

    def batches(self, size: int, rows: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.uint8]]:
        images = self.encoded(np.arange(len(self.labels)) if rows is None else rows)
        with ThreadPoolExecutor(1) as pool:

            def next_batch() -> NDArray[np.uint8] | None:
                some = list(itertools.islice(images, size))
                return decode(some, self.side) if some else None

            coming = pool.submit(next_batch)
            while (batch := coming.result()) is not None:
                coming = pool.submit(next_batch)
                yield batch

    def load(self) -> Split:
        """All of them, in memory, or on disk when they are many."""
        pixels: NDArray[np.uint8] | None = None
        done = 0
        for batch in self.batches(1024):
            with reading(self.where):  # the images of two files may differ in size
                if pixels is None:
                    pixels = _allocate((len(self.labels), *batch.shape[1:]))
                pixels[done : done + len(batch)] = batch
            done += len(batch)
        if pixels is None:
            raise CacheError(f"{self.where}: no images")
        return Split(pixels, self.labels)


class StoredFiles(Stored):
    """directory/<class>/**/<image>, or any other list of image files."""

    def __init__(self, files: Sequence[Path], labels: NDArray[np.int64], side: int | None) -> None:
        super().__init__(files[0].parent, labels, side)
        self.files = files

    def encoded(self, rows: NDArray[np.int64]) -> Iterator[Encoded]:
        return (self.files[row] for row in rows)


class StoredParquet(Stored):
    """Hub-style files: an image column (struct with `bytes`) and an integer label column."""

    def __init__(self, files: Sequence[Path], label_column: str | None = None, side: int | None = None) -> None:
        self.files: list[tuple[Path, str]] = []
        labels = []
        for file in sorted(files):
            with reading(file):
                names = pq.read_schema(file).names
                image = next((name for name in ("img", "image") if name in names), None)
                label = label_column or next((name for name in ("label", "fine_label") if name in names), None)
                if image is None or label is None or label not in names:
                    expected = f"columns img or image, and {label or 'label'}"
                    raise CacheError(f"{file.name}: expected {expected}; it has {names}")
                self.files.append((file, image))
                labels.append(pq.read_table(file, columns=[label])[label].to_numpy().astype(np.int64))
        super().__init__(files[0].parent, np.concatenate(labels), side)

    def encoded(self, rows: NDArray[np.int64]) -> Iterator[Encoded]:
        wanted = np.zeros(len(self.labels), dtype=bool)
        wanted[rows] = True
        position = 0
        for file, column in self.files:
            first = position
            with reading(file):
                for part in pq.ParquetFile(file).iter_batches(256, columns=[column]):
                    kept = np.flatnonzero(wanted[position : position + len(part)])
                    images = part.column(0).field("bytes").take(pa.array(kept)).to_pylist()
                    numbers = kept + (position - first)
                    yield from (
                        (f"{file}, image {number}", image) for number, image in zip(numbers, images, strict=True)
                    )
                    position += len(part)


class Deferred:
    """A split of a format that can only be read whole, read when it is asked for."""

    def __init__(self, read: Callable[[], Split]) -> None:
        self.read = read

    @cached_property
    def split(self) -> Split:
        return self.read()

    def load(self) -> Split:
        return self.split

    @property
    def labels(self) -> NDArray[np.int64]:
        return self.split.labels

    @property
    def channels(self) -> int:
        return self.split.channels

    def batches(self, size: int, rows: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.uint8]]:
        return self.split.batches(size, rows)


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


def class_folders(directory: Path, side: int, classes: Sequence[str]) -> StoredFiles:
    """directory/<class>/**/<image>, with the class order given."""
    files: list[Path] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        found = sorted(file for file in (directory / name).rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
        files += found
        labels += [number] * len(found)
    if not files:
        raise CacheError(f"{directory.name}: no images below the class folders")
    return StoredFiles(files, np.asarray(labels, dtype=np.int64), side)
