"""Images as arrays, whole or batch by batch, and how batches are augmented and normalised."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.core.errors import InvalidInput

LARGEST_PADDING = 4  # images this much smaller than the model's input are padded, others are resized
HELD_OUT_SEED = 42


class Images(Protocol):
    """Labelled images, decoded or not. `batches` gives those of some rows (ascending; None: all) as arrays."""

    @property
    def labels(self) -> NDArray[np.int64]: ...
    @property
    def channels(self) -> int: ...
    def batches(self, size: int, rows: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.uint8]]: ...


@dataclass(frozen=True, eq=False)
class Split:
    """images (n, channels, side, side) uint8 and labels (n,) int64."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != np.uint8 or len(self.images) != len(self.labels):
            raise InvalidInput(
                "images",
                "uint8 of shape (n, channels, rows, columns) with one label each",
                f"{self.images.dtype} {self.images.shape} and {len(self.labels)} labels",
            )

    @property
    def channels(self) -> int:
        return int(self.images.shape[1])

    def batches(self, size: int, rows: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.uint8]]:
        for start in range(0, len(self.labels) if rows is None else len(rows), size):
            part = slice(start, start + size)
            yield np.ascontiguousarray(self.images[part if rows is None else rows[part]])

    def rows(self, chosen: NDArray[np.int64]) -> Split:
        return Split(self.images[chosen], self.labels[chosen])

    def take(self, limit: int | None) -> Split:
        """The first `limit` samples (all of them for None)."""
        return self if limit is None else Split(self.images[:limit], self.labels[:limit])


@dataclass(frozen=True, eq=False)
class ImageData:
    """One data set, decoded once. `flips` and `shift` are its usual augmentation (shift in pixels each way)."""

    name: str
    train: Split
    test: Split
    n_classes: int
    flips: bool
    shift: int

    def __post_init__(self) -> None:
        for split in (self.train, self.test):
            if not len(split.labels) or split.labels.min() < 0 or split.labels.max() >= self.n_classes:
                raise InvalidInput(
                    f"labels of {self.name}", f"class numbers from 0 to {self.n_classes - 1}", "others, or none"
                )

    @property
    def channels(self) -> int:
        return self.train.channels

    def training(self) -> Split:
        return self.train

    def held_out(self, n: int) -> ImageData:
        """The same data with `n` training images, always the same ones, in the place of the test set.

        Recipes are chosen on these, so that the test set has no part in the choice.
        """
        order = np.random.default_rng(HELD_OUT_SEED).permutation(len(self.train.labels))
        if not 0 < n < len(order):
            raise InvalidInput("held_out", f"fewer than the {len(order)} training images of {self.name}", f"{n}")
        kept, chosen = np.sort(order[n:]), np.sort(order[:n])
        return replace(self, train=self.train.rows(kept), test=self.train.rows(chosen))

    @cached_property
    def fingerprint(self) -> str:
        """A digest of every pixel and label, the same wherever the files lie."""
        return split_fingerprint(self.train, self.test)

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        """`moments` of the training images."""
        return moments(self.train)


def split_fingerprint(*splits: Split) -> str:
    """A digest of every pixel and label of one split, or of several in turn."""
    digest = hashlib.blake2b(digest_size=16)
    for split in splits:
        digest.update(repr(split.images.shape).encode())
        digest.update(np.ascontiguousarray(split.images).data)
        digest.update(np.ascontiguousarray(split.labels).data)
    return digest.hexdigest()


class Watched:
    """Some rows of images on their way through; after one pass, `fingerprint` is that of a split of them."""

    def __init__(self, images: Images, rows: NDArray[np.int64] | None = None) -> None:
        self.images, self.rows = images, rows
        self.labels = images.labels if rows is None else images.labels[rows]
        self.channels = images.channels
        self.fingerprint = ""

    def batches(self, size: int, rows: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.uint8]]:
        assert rows is None, "rows were chosen before"
        digest = hashlib.blake2b(digest_size=16)
        for number, batch in enumerate(self.images.batches(size, self.rows)):
            if number == 0:
                digest.update(repr((len(self.labels), *batch.shape[1:])).encode())
            digest.update(batch.data)
            yield batch
        digest.update(np.ascontiguousarray(self.labels).data)
        self.fingerprint = digest.hexdigest()


def moments(images: Images) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, (channels, 1, 1), in 0..255."""
    counts = np.zeros((images.channels, 256), dtype=np.int64)
    for batch in images.batches(1024):
        counts += [np.bincount(batch[:, channel].ravel(), minlength=256) for channel in range(len(counts))]
    weights, values = counts / counts.sum(axis=1, keepdims=True), np.arange(256.0)
    mean = weights @ values
    deviation = np.sqrt(np.maximum(weights @ values**2 - mean**2, 1e-6))
    return tuple(torch.tensor(moment, dtype=torch.float32).view(-1, 1, 1) for moment in (mean, deviation))  # type: ignore[return-value]


def augment(images: Tensor, *, flips: bool, shift: int, generator: torch.Generator) -> Tensor:
    """Random mirror images and random crops of the zero-padded batch, (n, channels, rows, columns) uint8."""
    n, _, rows, columns = images.shape
    column_index = torch.arange(columns).expand(n, columns)
    if flips:
        mirrored = torch.randint(2, (n, 1), generator=generator, dtype=torch.bool)
        column_index = torch.where(mirrored, columns - 1 - column_index, column_index)
    if shift:
        images = torch.nn.functional.pad(images, (shift,) * 4)
        offsets = torch.randint(2 * shift + 1, (2, n, 1), generator=generator)
        row_index, column_index = torch.arange(rows) + offsets[0], column_index + offsets[1]
    elif flips:
        row_index = torch.arange(rows).expand(n, rows)
    else:
        return images
    samples = torch.arange(n)[:, None, None]
    # Advanced indices on both sides of the channel slice put that axis last; bring it back.
    return images[samples, :, row_index[:, :, None], column_index[:, None, :]].permute(0, 3, 1, 2)


def to_input(images: Tensor, moments: tuple[Tensor, Tensor], image_size: int) -> Tensor:
    """uint8 images as the model's normalised input of image_size x image_size."""
    mean, deviation = (moment.to(images.device) for moment in moments)
    scaled = (images.float() - mean) / deviation
    missing = image_size - scaled.shape[-1]
    if missing == 0:
        return scaled
    if 0 < missing <= LARGEST_PADDING:
        before = missing // 2
        return torch.nn.functional.pad(scaled, (before, missing - before) * 2)
    return torch.nn.functional.interpolate(scaled, size=image_size, mode="bilinear", antialias=missing < 0)
