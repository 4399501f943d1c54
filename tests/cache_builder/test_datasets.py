"""Readers against files written here in each format, and augmentation against its definition."""

import io
import pickle
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from cache_builder.datasets import (
    MissingDataset,
    Split,
    Watched,
    augment,
    load_dataset,
    open_dataset,
    readers,
    split_fingerprint,
    to_input,
)
from engine.core.errors import CacheError, InvalidInput


def pixels(n, side=32, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, channels, side, side), dtype=np.uint8)


def encoded(array, form="PNG"):
    buffer = io.BytesIO()
    Image.fromarray(array.transpose(1, 2, 0)).save(buffer, form)
    return buffer.getvalue()


def write_parquet(path, images, labels, image_column="img", label_column="label"):
    structs = [{"bytes": encoded(image), "path": None} for image in images]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({image_column: structs, label_column: labels}), path)


@pytest.mark.parametrize(
    ("name", "image_column", "label_column"), [("cifar10", "img", "label"), ("cifar100", "image", "fine_label")]
)
def test_hub_parquet(tmp_path, name, image_column, label_column):
    train, test = pixels(6), pixels(4, seed=1)
    write_parquet(tmp_path / name / "train-00000-of-00001.parquet", train, list(range(6)), image_column, label_column)
    write_parquet(tmp_path / name / "test-00000-of-00001.parquet", test, [3, 2, 1, 0], image_column, label_column)
    data = load_dataset(name, tmp_path)
    assert np.array_equal(data.train.images, train)
    assert np.array_equal(data.test.images, test)
    assert data.test.labels.tolist() == [3, 2, 1, 0]


def archive_batch(images, labels, key=b"labels"):
    return pickle.dumps({b"data": images.reshape(len(images), -1), key: labels}, protocol=2)


@pytest.mark.parametrize("packed", [True, False])
def test_official_cifar10_archive(tmp_path, packed):
    batches = {f"data_batch_{number}": pixels(2, seed=number) for number in range(1, 6)} | {"test_batch": pixels(3)}
    raw = {name: archive_batch(images, [1] * len(images)) for name, images in batches.items()}
    if packed:
        with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
            for name, content in raw.items():
                member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    else:
        (tmp_path / "cifar-10-batches-py").mkdir()
        for name, content in raw.items():
            (tmp_path / "cifar-10-batches-py" / name).write_bytes(content)
    data = load_dataset("cifar10", tmp_path)
    assert np.array_equal(data.train.images[2:4], batches["data_batch_2"])
    assert np.array_equal(data.test.images, batches["test_batch"])
    assert data.train.labels.tolist() == [1] * 10


def test_an_archive_that_wants_to_run_code_is_refused(tmp_path):
    class Hostile:
        def __reduce__(self):
            return (print, ("run",))

    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]:
        (folder / name).write_bytes(pickle.dumps({b"data": Hostile()}))
    with pytest.raises(CacheError, match="print"):
        load_dataset("cifar10", tmp_path)


def cifar_folder(root):
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for name in [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]:
        (folder / name).write_bytes(archive_batch(pixels(2), [0, 1]))
    return folder


@pytest.mark.parametrize(
    "content",
    [
        b"", b"nonsense", archive_batch(pixels(2), [0, 1])[:-40], pickle.dumps([1, 2]), pickle.dumps({b"data": 3}),
        archive_batch(pixels(2), ["a", "b"]), archive_batch(pixels(2, side=31), [0, 1]),
    ],
    ids=["empty", "other", "cut", "list", "number", "words", "small"],
)  # fmt: skip
def test_a_damaged_cifar_batch_is_named(tmp_path, content):
    (cifar_folder(tmp_path) / "data_batch_3").write_bytes(content)
    with pytest.raises(CacheError, match=r"data_batch_3: cannot be read .* fetch the data set again"):
        load_dataset("cifar10", tmp_path)


def test_an_incomplete_cifar_archive_names_the_member(tmp_path):
    folder = cifar_folder(tmp_path / "source")
    (folder / "data_batch_4").unlink()
    with pytest.raises(CacheError, match=r"data_batch_4: cannot be read"):
        load_dataset("cifar10", tmp_path / "source")
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(folder, "cifar-10-batches-py")
    with pytest.raises(CacheError, match=r"cifar-10-python.tar.gz, data_batch_4: .*incomplete"):
        load_dataset("cifar10", tmp_path)
    whole = (tmp_path / "cifar-10-python.tar.gz").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no archive"):
        (tmp_path / "cifar-10-python.tar.gz").write_bytes(damaged)
        with pytest.raises(CacheError, match=r"cifar-10-python.tar.gz, data_batch_1: cannot be read"):
            load_dataset("cifar10", tmp_path)


def test_labels_beyond_the_classes_are_refused(tmp_path):
    (cifar_folder(tmp_path) / "data_batch_3").write_bytes(archive_batch(pixels(2), [0, 10]))
    with pytest.raises(InvalidInput, match="labels of cifar10"):
        load_dataset("cifar10", tmp_path)


def test_damaged_parquet_and_images_in_it_are_named(tmp_path):
    train = tmp_path / "cifar10" / "train.parquet"
    write_parquet(tmp_path / "cifar10" / "test.parquet", pixels(2), [0, 1])
    write_parquet(train, pixels(2), ["cat", "dog"])
    with pytest.raises(CacheError, match=r"train.parquet: cannot be read"):
        load_dataset("cifar10", tmp_path)
    train.write_bytes(train.read_bytes()[:-10])
    with pytest.raises(CacheError, match=r"train.parquet: cannot be read"):
        load_dataset("cifar10", tmp_path)
    broken = [{"bytes": encoded(pixels(1)[0]), "path": None}, {"bytes": b"no image", "path": None}]
    pq.write_table(pa.table({"img": broken, "label": [0, 1]}), train)
    with pytest.raises(CacheError, match=r"train.parquet, image 1: cannot be read"):
        load_dataset("cifar10", tmp_path)


def test_digits_are_the_real_ones():
    data = load_dataset("digits", "anywhere")
    assert (len(data.train.labels), len(data.test.labels)) == (899, 898)
    assert data.train.images.max() == 255
    assert data.train.labels[:10].tolist() == list(range(10))


def test_image_folder_resizes_and_crops_the_centre(tmp_path):
    for part, n in (("train", 2), ("val", 1)):
        for name in ("b", "a"):
            folder = tmp_path / "leaves" / part / name
            folder.mkdir(parents=True)
            for number in range(n):
                wide = np.zeros((3, 8, 16), dtype=np.uint8)
                wide[:, :, 4:12] = 200 if name == "a" else 100
                (folder / f"{number}.png").write_bytes(encoded(wide))
    data = load_dataset("leaves", tmp_path, folder_side=8)
    assert data.n_classes == 2
    assert data.train.labels.tolist() == [0, 0, 1, 1]  # classes in alphabetical order
    assert (data.train.images[0] == 200).all()  # exactly the centre of the wide image
    assert (data.test.images[1] == 100).all()


def tiny_imagenet_folder(root):
    for name in ("n01", "n02"):
        (root / "train" / name / "images").mkdir(parents=True)
        (root / "train" / name / "images" / f"{name}_0.JPEG").write_bytes(encoded(pixels(1, 64)[0], "JPEG"))
    (root / "val" / "images").mkdir(parents=True)
    (root / "val" / "images" / "val_0.JPEG").write_bytes(encoded(pixels(1, 64)[0], "JPEG"))
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn02\t0\t0\t1\t1\n")


def test_tiny_imagenet_layout(tmp_path):
    tiny_imagenet_folder(tmp_path / "tiny-imagenet-200")
    data = load_dataset("tiny-imagenet", tmp_path)
    assert data.train.labels.tolist() == [0, 1]
    assert data.test.labels.tolist() == [1]


@pytest.mark.parametrize(("folder", "test"), [("tiny-imagenet", "valid-00000-of-00001"), ("tiny-imagenet32", "test")])
def test_tiny_imagenet_as_hubs_have_it(tmp_path, folder, test):
    train, held = pixels(3, 32), pixels(2, 32)
    write_parquet(tmp_path / folder / "data" / "train.parquet", train, [0, 199, 7], "image")
    write_parquet(tmp_path / folder / "data" / f"{test}.parquet", held, [199, 3], "image")
    data = load_dataset("tiny-imagenet", tmp_path)
    np.testing.assert_array_equal(data.train.images, train)
    assert (data.n_classes, data.shift, data.test.labels.tolist()) == (200, 4, [199, 3])


def test_held_out_images_take_the_place_of_the_test_set(digits):
    data = digits.held_out(100)
    assert (len(data.train.labels), len(data.test.labels)) == (len(digits.train.labels) - 100, 100)
    together = np.concatenate([data.train.images, data.test.images]).reshape(len(digits.train.labels), -1)
    original = digits.train.images.reshape(len(together), -1)
    assert sorted(map(bytes, together)) == sorted(map(bytes, original))
    np.testing.assert_array_equal(digits.held_out(100).test.images, data.test.images)
    with pytest.raises(InvalidInput, match="held_out"):
        digits.held_out(len(digits.train.labels))


def test_what_is_wrong_with_tiny_imagenet_is_named(tmp_path):
    root = tmp_path / "tiny-imagenet"
    tiny_imagenet_folder(root)
    for line in ("val_0.JPEG\tn03", "val_0.JPEG"):
        (root / "val" / "val_annotations.txt").write_text(line)
        with pytest.raises(CacheError, match=r"val_annotations.txt: cannot be read"):
            load_dataset("tiny-imagenet", tmp_path)
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn02")
    (root / "val" / "images" / "val_0.JPEG").write_bytes(b"no image")
    with pytest.raises(CacheError, match=r"val_0.JPEG: cannot be read"):
        load_dataset("tiny-imagenet", tmp_path)
    (root / "train").rename(root / "elsewhere")
    with pytest.raises(MissingDataset, match="training images are missing"):
        load_dataset("tiny-imagenet", tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "tiny-imagenet", "leaves"])
def test_a_missing_data_set_says_what_to_put_where(tmp_path, name):
    with pytest.raises(MissingDataset, match=f"{name}/"):
        load_dataset(name, tmp_path)


def test_many_pixels_are_kept_on_disk(tmp_path, monkeypatch):
    write_parquet(tmp_path / "images.parquet", pixels(3), [0, 1, 2])
    stored = readers.StoredParquet([tmp_path / "images.parquet"])
    in_memory = stored.load().images
    monkeypatch.setattr(readers, "LARGEST_IN_MEMORY", 100)
    on_disk = stored.load().images
    assert isinstance(on_disk, np.memmap)
    assert np.array_equal(on_disk, in_memory)


@pytest.mark.parametrize("form", ["parquet", "folder"])
def test_images_stream_in_batches_of_any_rows(tmp_path, form):
    """In two Parquet files or two class folders: the same images in the same order as all at once, none read twice."""
    images, folder = pixels(7), tmp_path / "leaves"
    if form == "parquet":
        write_parquet(folder / "test-0.parquet", images[:4], [0, 0, 0, 0])
        write_parquet(folder / "test-1.parquet", images[4:], [1, 1, 1])
    for number, image in enumerate(images if form == "folder" else ()):
        place = folder / "val" / f"class {number // 4}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.png").write_bytes(encoded(image))
    data = open_dataset("leaves", tmp_path, folder_side=32)  # no training images: evaluation needs none
    assert (data.n_classes, data.train, data.test.labels.tolist()) == (2, None, [0, 0, 0, 0, 1, 1, 1])
    batches = list(data.test.batches(3))
    assert [len(batch) for batch in batches] == [3, 3, 1]
    np.testing.assert_array_equal(np.concatenate(batches), images)
    rows = np.array([1, 4, 6])
    np.testing.assert_array_equal(np.concatenate(list(data.test.batches(2, rows))), images[rows])
    watched = Watched(data.test, rows)
    list(watched.batches(2))
    assert watched.fingerprint == split_fingerprint(Split(images[rows], data.test.labels[rows]))
    with pytest.raises(MissingDataset, match="training images are missing"):
        data.load()


@pytest.mark.parametrize("name", ["cifar10", "tiny-imagenet"])
def test_training_images_are_not_looked_at_before_they_are_asked_for(tmp_path, name):
    write_parquet(tmp_path / name / "test.parquet", pixels(2), [0, 1])
    (tmp_path / name / "train.parquet").write_bytes(b"damaged")
    data = open_dataset(name, tmp_path)
    assert len(next(data.test.batches(5))) == 2
    with pytest.raises(CacheError, match=r"train.parquet: cannot be read"):
        data.load()


def test_streaming_holds_one_batch_and_the_next(tmp_path, monkeypatch):
    """Whatever is decoded beyond that would be a data set in memory."""
    write_parquet(tmp_path / "images.parquet", pixels(40, side=8), list(range(40)))
    decoded = []
    whole = readers.decode
    monkeypatch.setattr(readers, "decode", lambda images, side: decoded.append(len(images)) or whole(images, side))
    for number, batch in enumerate(readers.StoredParquet([tmp_path / "images.parquet"]).batches(4)):
        assert len(batch) == 4
        assert len(decoded) <= number + 2


def test_fingerprint_depends_on_pixels_and_labels_only(tmp_path):
    for place in ("one", "two"):
        write_parquet(tmp_path / place / "cifar10" / "train.parquet", pixels(3), [0, 1, 2])
        write_parquet(tmp_path / place / "cifar10" / "test.parquet", pixels(2), [0, 1])
    write_parquet(tmp_path / "three" / "cifar10" / "train.parquet", pixels(3), [0, 1, 1])
    write_parquet(tmp_path / "three" / "cifar10" / "test.parquet", pixels(2), [0, 1])
    one, two, three = (load_dataset("cifar10", tmp_path / place).fingerprint for place in ("one", "two", "three"))
    assert one == two != three


def test_moments_equal_numpy():
    data = load_dataset("digits", ".")
    mean, deviation = data.moments
    assert mean.item() == pytest.approx(data.train.images.mean(), rel=1e-6)
    assert deviation.item() == pytest.approx(data.train.images.std(), rel=1e-6)


def test_augmented_images_are_mirrored_and_shifted_copies():
    images = torch.from_numpy(pixels(40, side=6))
    result = augment(images, flips=True, shift=2, generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2))
    found = set()
    for original, changed in zip(padded, result, strict=True):
        candidates = {
            (mirror, top, left): crop.flip(-1) if mirror else crop
            for mirror in (False, True)
            for top in range(5)
            for left in range(5)
            for crop in [original[:, top : top + 6, left : left + 6]]
        }
        matches = [key for key, candidate in candidates.items() if torch.equal(candidate, changed)]
        assert len(matches) == 1
        found.add(matches[0])
    assert {mirror for mirror, _, _ in found} == {False, True}
    assert len({top for _, top, _ in found}) == 5


def test_without_augmentation_images_are_untouched():
    images = torch.from_numpy(pixels(4))
    assert augment(images, flips=False, shift=0, generator=torch.Generator()) is images


@pytest.mark.parametrize(("side", "size"), [(28, 32), (8, 32), (64, 32), (32, 32)])
def test_input_is_normalised_and_has_the_models_size(side, size):
    images = torch.from_numpy(pixels(4, side=side, channels=1))
    moments = (torch.full((1, 1, 1), 10.0), torch.full((1, 1, 1), 5.0))
    result = to_input(images, moments, size)
    assert result.shape == (4, 1, size, size)
    scaled = (images.float() - 10) / 5
    if side == 28:
        assert torch.equal(result[:, :, 2:30, 2:30], scaled)
        assert result[:, :, :2].abs().sum() == 0
    else:
        assert result.mean().item() == pytest.approx(scaled.mean().item(), rel=0.02)


def test_split_refuses_other_pixel_types():
    with pytest.raises(InvalidInput, match="uint8"):
        Split(np.zeros((2, 1, 4, 4), dtype=np.float32), np.zeros(2, dtype=np.int64))
