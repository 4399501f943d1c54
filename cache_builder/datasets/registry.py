"""Every data set by name, looked up below one local folder; nothing is downloaded."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cache_builder.datasets import readers
from cache_builder.datasets.images import ImageData, Split
from engine.core.errors import CacheError, first_line

TINY_IMAGENET_SIDE, TINY_IMAGENET_CLASSES = 64, 200


class MissingDataset(CacheError):
    """The files of a data set are not where they were looked for."""

    def __init__(self, name: str, remedy: str) -> None:
        super().__init__(f"data set {name} is not there: {remedy} (the folder that holds the data sets is --data)")


def _existing(places: list[Path]) -> Path | None:
    return next((place for place in places if place.exists()), None)


Source = readers.Stored | readers.Deferred


@dataclass(frozen=True, eq=False)
class StoredData:
    """A data set as it lies on disk: nothing is decoded, and training images are neither needed nor looked at before
    `training` opens them."""

    name: str
    train: Callable[[], Source] | None
    test: Source
    n_classes: int
    flips: bool
    shift: int

    def training(self) -> Source:
        if self.train is None:
            raise MissingDataset(self.name, f"the training images are missing in {self.name}/ beside the test images")
        return self.train()

    def load(self) -> ImageData:
        train, test = self.training().load(), self.test.load()
        return ImageData(self.name, train, test, self.n_classes, self.flips, self.shift)


def _hub_style(
    folder: Path, label_column: str | None = None, side: int | None = None
) -> tuple[Callable[[], Source] | None, Source] | None:
    """The train and test splits of a folder of Parquet files as data set hubs have them; None without the latter."""
    train, test = (
        next((files for name in names if (files := sorted(folder.glob(f"**/{name}*.parquet")))), [])
        for names in (("train",), ("test", "val"))
    )
    if not test:
        return None
    opened = partial(readers.StoredParquet, label_column=label_column, side=side)
    return partial(opened, train) if train else None, opened(test)


def _cifar(root: Path, name: str, archive: str, train: list[str], label_key: bytes, n_classes: int) -> StoredData:
    folder = root / name
    splits = _hub_style(folder, "label" if name == "cifar10" else "fine_label")
    if splits is None:
        unpacked = "cifar-10-batches-py" if name == "cifar10" else "cifar-100-python"
        place = _existing([base / leaf for base in (folder, root) for leaf in (unpacked, archive)])
        if place is None:
            raise MissingDataset(
                name, f"put {archive} (or its unpacked folder, or train.parquet and test.parquet) in {name}/"
            )
        test = ["test_batch"] if name == "cifar10" else ["test"]
        read = partial(readers.read_cifar_archive, place, label_key=label_key)
        splits = partial(readers.Deferred, partial(read, train)), readers.Deferred(partial(read, test))
    return StoredData(name, *splits, n_classes, flips=True, shift=4)


def cifar10(root: Path) -> StoredData:
    batches = [f"data_batch_{number}" for number in range(1, 6)]
    return _cifar(root, "cifar10", "cifar-10-python.tar.gz", batches, b"labels", 10)


def cifar100(root: Path) -> StoredData:
    return _cifar(root, "cifar100", "cifar-100-python.tar.gz", ["train"], b"fine_labels", 100)


def digits(_root: Path) -> StoredData:
    """scikit-learn's 1,797 images of 8 x 8; the first half trains, the second half tests, as in its own example."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    half = (len(labels) + 1) // 2
    train, test = (
        readers.Deferred(partial(Split, images[part], labels[part])) for part in (slice(half), slice(half, None))
    )
    return StoredData("digits", lambda: train, test, 10, flips=False, shift=1)


def tiny_imagenet(root: Path) -> StoredData:
    """Parquet files, or the official folder: train/<class>/images, and val/ with its annotations as the test set."""
    folder = _existing([root / name for name in ("tiny-imagenet", "tiny-imagenet-200", "tiny-imagenet32")])
    if folder is None:
        raise MissingDataset(
            "tiny-imagenet",
            "unpack tiny-imagenet-200.zip as tiny-imagenet/, or put train and test (or val) Parquet there",
        )
    hub = _hub_style(folder, "label")
    if hub is not None:
        side = next(hub[1].batches(1)).shape[-1]
        return StoredData("tiny-imagenet", *hub, TINY_IMAGENET_CLASSES, flips=True, shift=side // 8)
    annotations = folder / "val" / "val_annotations.txt"
    if not annotations.exists():
        raise MissingDataset("tiny-imagenet", f"{annotations.relative_to(folder)} is missing in {folder.name}/")
    with readers.reading(annotations):
        rows = [line.split("\t")[:2] for line in annotations.read_text().splitlines() if line]
        classes = _classes(folder / "train") or sorted({wnid for _, wnid in rows})
        files = [folder / "val" / "images" / file for file, _ in rows]
        labels = np.asarray([classes.index(wnid) for _, wnid in rows], dtype=np.int64)
    train = partial(readers.class_folders, folder / "train", TINY_IMAGENET_SIDE, classes)
    test = readers.StoredFiles(files, labels, TINY_IMAGENET_SIDE)
    has_train = (folder / "train").is_dir()
    return StoredData("tiny-imagenet", train if has_train else None, test, len(classes), flips=True, shift=8)


def _classes(folder: Path) -> list[str]:
    """The names of a folder's folders, in order; none without the folder."""
    return sorted(place.name for place in folder.iterdir() if place.is_dir()) if folder.is_dir() else []


def image_folder(root: Path, name: str, side: int) -> StoredData:
    """Any <name>/train/<class>/*.jpg with test/ (or val/) beside train/, or Parquet; images become side x side."""
    folder = root / name
    hub = _hub_style(folder, side=side)
    if hub is not None:
        n_classes = 1 + max(int(part.labels.max()) for part in (hub[1], *([] if hub[0] is None else [hub[0]()])))
        return StoredData(name, *hub, n_classes, flips=True, shift=side // 8)
    test = _existing([folder / part for part in ("test", "val")])
    if test is None:
        listed = ", ".join(DATASETS)
        raise MissingDataset(
            name,
            f"it is none of {listed}, so {name}/train/<class>/ and {name}/test/<class>/ must hold its images, "
            f"or {name}/ Parquet files of them",
        )
    classes = _classes(folder / "train") or _classes(test)
    opened = partial(readers.class_folders, side=side, classes=classes)
    train = partial(opened, folder / "train") if (folder / "train").is_dir() else None
    return StoredData(name, train, opened(test), len(classes), flips=True, shift=side // 8)


DATASETS: dict[str, Callable[[Path], StoredData]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "tiny-imagenet": tiny_imagenet,
    "digits": digits,
}


@dataclass(frozen=True)
class Facts:
    """What a plan needs to know of a data set."""

    n_train: int
    n_classes: int
    channels: int = 3


KNOWN = {
    "cifar10": Facts(50_000, 10),
    "cifar100": Facts(50_000, 100),
    "tiny-imagenet": Facts(100_000, TINY_IMAGENET_CLASSES),
    "digits": Facts(899, 10, 1),
}


def dataset_facts(name: str, root: str | Path) -> Facts:
    """Known for the registered data sets, whether or not they are there; counted for any other."""
    if name in KNOWN:
        return KNOWN[name]
    data = open_dataset(name, root)
    return Facts(len(data.training().labels), data.n_classes, data.test.channels)


def open_dataset(name: str, root: str | Path, *, folder_side: int = 224) -> StoredData:
    """A data set below `root`, not decoded yet; a name that is not registered is taken for a folder of images."""
    try:
        return DATASETS[name](Path(root)) if name in DATASETS else image_folder(Path(root), name, folder_side)
    except OSError as error:  # a folder that may not be listed, say
        raise CacheError(f"data set {name}: {first_line(error)}") from error


def load_dataset(name: str, root: str | Path, *, folder_side: int = 224) -> ImageData:
    """The same, decoded into arrays."""
    return open_dataset(name, root, folder_side=folder_side).load()
