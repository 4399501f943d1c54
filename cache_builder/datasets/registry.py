"""Every data set by name, looked up below one local folder; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from cache_builder.datasets import readers
from cache_builder.datasets.images import ImageData, Split
from engine.errors import CacheError, first_line

DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
TINY_IMAGENET_SIDE, TINY_IMAGENET_CLASSES = 64, 200


class MissingDataset(CacheError):
    """The files of a data set are not where they were looked for."""

    def __init__(self, name: str, remedy: str) -> None:
        super().__init__(f"data set {name} is not there: {remedy} (the folder that holds the data sets is --data)")


def _existing(places: list[Path]) -> Path | None:
    return next((place for place in places if place.exists()), None)


def _hub_style(folder: Path, label_column: str) -> list[Split]:
    """The train and test splits of a folder of Parquet files as data set hubs have them; empty without these."""
    found = [
        next((files for name in names if (files := sorted(folder.glob(f"**/{name}*.parquet")))), [])
        for names in (("train",), ("test", "val"))
    ]
    return [readers.read_parquet(files, label_column) for files in found] if all(found) else []


def _cifar(root: Path, name: str, archive: str, train: list[str], label_key: bytes, n_classes: int) -> ImageData:
    folder = root / name
    splits = _hub_style(folder, "label" if name == "cifar10" else "fine_label")
    if not splits:
        unpacked = "cifar-10-batches-py" if name == "cifar10" else "cifar-100-python"
        place = _existing([base / leaf for base in (folder, root) for leaf in (unpacked, archive)])
        if place is None:
            raise MissingDataset(
                name, f"put {archive} (or its unpacked folder, or train.parquet and test.parquet) in {name}/"
            )
        test = ["test_batch"] if name == "cifar10" else ["test"]
        splits = [readers.read_cifar_archive(place, members, label_key) for members in (train, test)]
    return ImageData(name, splits[0], splits[1], n_classes, flips=True, shift=4)


def cifar10(root: Path) -> ImageData:
    batches = [f"data_batch_{number}" for number in range(1, 6)]
    return _cifar(root, "cifar10", "cifar-10-python.tar.gz", batches, b"labels", 10)


def cifar100(root: Path) -> ImageData:
    return _cifar(root, "cifar100", "cifar-100-python.tar.gz", ["train"], b"fine_labels", 100)


def fashion_mnist(root: Path) -> ImageData:
    folder = _existing([root / "fashion-mnist", DEBIAN_FASHION_MNIST])
    if folder is None:
        raise MissingDataset(
            "fashion-mnist",
            "install Debian's package dataset-fashion-mnist, or put its four IDX files in fashion-mnist/",
        )

    def split(part: str) -> Split:
        arrays = []
        for kind in ("images-idx3", "labels-idx1"):
            file = _existing([folder / f"{part}-{kind}-ubyte{suffix}" for suffix in (".gz", "")])
            if file is None:
                raise MissingDataset("fashion-mnist", f"{part}-{kind}-ubyte.gz is missing beside the others")
            arrays.append(readers.read_idx(file))
        return Split(arrays[0][:, None], arrays[1].astype(np.int64))

    return ImageData("fashion-mnist", split("train"), split("t10k"), 10, flips=True, shift=2)


def digits(_root: Path) -> ImageData:
    """scikit-learn's 1,797 images of 8 x 8; the first half trains, the second half tests, as in its own example."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    half = (len(labels) + 1) // 2
    return ImageData(
        "digits", Split(images[:half], labels[:half]), Split(images[half:], labels[half:]), 10, flips=False, shift=1
    )


def tiny_imagenet(root: Path) -> ImageData:
    """Parquet files, or the official folder: train/<class>/images, and val/ with its annotations as the test set."""
    folder = _existing([root / name for name in ("tiny-imagenet", "tiny-imagenet-200", "tiny-imagenet32")])
    if folder is None:
        raise MissingDataset(
            "tiny-imagenet",
            "unpack tiny-imagenet-200.zip as tiny-imagenet/, or put train and test (or val) Parquet there",
        )
    hub = _hub_style(folder, "label")
    if hub:
        side = hub[0].images.shape[-1]
        return ImageData("tiny-imagenet", hub[0], hub[1], TINY_IMAGENET_CLASSES, flips=True, shift=side // 8)
    annotations = folder / "val" / "val_annotations.txt"
    for needed in (folder / "train", annotations):
        if not needed.exists():
            raise MissingDataset("tiny-imagenet", f"{needed.relative_to(folder)} is missing in {folder.name}/")
    classes = sorted(place.name for place in (folder / "train").iterdir() if place.is_dir())
    number = {name: position for position, name in enumerate(classes)}
    with readers.reading(annotations):
        rows = [line.split("\t") for line in annotations.read_text().splitlines() if line]
        files = [folder / "val" / "images" / row[0] for row in rows]
        labels = np.asarray([number[row[1]] for row in rows], dtype=np.int64)
    train = readers.read_folder(folder / "train", TINY_IMAGENET_SIDE, classes)
    test = Split(readers.decode(files, TINY_IMAGENET_SIDE), labels)
    return ImageData("tiny-imagenet", train, test, len(classes), flips=True, shift=8)


def image_folder(root: Path, name: str, side: int) -> ImageData:
    """Any <name>/train/<class>/*.jpg with test/ (or val/) beside train/; images become side x side."""
    folder = root / name
    test = _existing([folder / part for part in ("test", "val")])
    if not (folder / "train").is_dir() or test is None:
        listed = ", ".join(DATASETS)
        raise MissingDataset(
            name, f"it is none of {listed}, so {name}/train/<class>/ and {name}/test/<class>/ must hold its images"
        )
    classes = sorted(place.name for place in (folder / "train").iterdir() if place.is_dir())
    splits = [readers.read_folder(part, side, classes) for part in (folder / "train", test)]
    return ImageData(name, splits[0], splits[1], len(classes), flips=True, shift=side // 8)


DATASETS: dict[str, Callable[[Path], ImageData]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "tiny-imagenet": tiny_imagenet,
    "fashion-mnist": fashion_mnist,
    "digits": digits,
}


def load_dataset(name: str, root: str | Path, *, folder_side: int = 224) -> ImageData:
    """Decode a data set below `root` into arrays; a name that is not registered is taken for an image folder."""
    try:
        return DATASETS[name](Path(root)) if name in DATASETS else image_folder(Path(root), name, folder_side)
    except OSError as error:  # a folder that may not be listed, say
        raise CacheError(f"data set {name}: {first_line(error)}") from error
