"""Reading strangers' files: what is in them, and nothing that they try."""

from __future__ import annotations

import io
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.core.errors import InvalidInput, UnknownName
from engine.importing import Limits, read_stream, read_table

ROOT = Path(__file__).resolve().parents[3]
SMALL = Limits(max_bytes=1_000_000, max_rows=5000, max_columns=50)


def npy(array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array))
    return buffer.getvalue()


def header_claiming(description: str, shape: tuple[int, ...], content: bytes = b"") -> bytes:
    text = f"{{'descr': {description!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (64 - (10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def archive(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_npz_of_all_kinds(tmp_path):
    arrays = {
        "half": np.arange(6, dtype=np.float16),
        "big_endian": np.arange(6, dtype=">f8"),
        "bytes": np.arange(6, dtype=np.uint8),
        "flags": np.arange(6) % 2 == 0,
        "matrix": np.arange(12.0).reshape(6, 2),
        "fortran": np.asfortranarray(np.arange(12.0).reshape(6, 2)),
        "long": np.arange(6, dtype=np.longdouble),
    }
    others = {
        "text": np.array(["a", "b"]),
        "scalar": np.array(3.0),
        "cube": np.zeros((2, 2, 2)),
        "z": np.zeros(2, complex),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays, **others)
        table = read_table(tmp_path / "a.npz")
        assert set(table.columns) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(table.columns[name], array)
            assert table.columns[name].dtype.isnative
        assert table.columns["long"].dtype == np.float64
        assert set(table.ignored) == set(others)
        assert table.ignored["text"] == "holds text, not numbers"


def test_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("\ufeff,conf,correct,name,late\r\n0,0.5,True,x,1\r\n1,0.25,False,y,0.5\r\n".encode())
    table = read_table(path)
    assert list(table.columns) == ["column_1", "conf", "correct", "late"]
    assert table.columns["conf"].tolist() == [0.5, 0.25]
    assert table.columns["correct"].tolist() == [True, False]
    assert table.columns["late"].tolist() == [1, 0.5]
    assert set(table.ignored) == {"name"}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_separators(tmp_path, separator):
    (tmp_path / "a.csv").write_text(separator.join(["a", "b"]) + "\n" + separator.join(["1", "2.5"]) + "\n")
    assert read_table(tmp_path / "a.csv").columns["b"].tolist() == [2.5]


def test_csv_whole_numbers_first_and_fractions_later(tmp_path):
    """The first block is all whole numbers; the type of a column must not be settled by it."""
    rows = ["1,0"] * 1_500_000 + ["0.5,1"]
    (tmp_path / "a.csv").write_text("conf,correct\n" + "\n".join(rows))
    table = read_table(tmp_path / "a.csv")
    assert table.columns["conf"][-1] == 0.5
    assert len(table.columns["conf"]) == 1_500_001


def test_parquet(tmp_path):
    table = pa.table(
        {
            "logits": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())),
            "fixed": pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)),
            "label": [0, 1],
            "gap": [1, None],
            "name": ["a", "b"],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    read = read_table(tmp_path / "a.parquet")
    assert read.columns["logits"].tolist() == [[1, 2], [3, 4]]
    assert read.columns["fixed"].tolist() == [[1, 2], [3, 4]]
    assert np.isnan(read.columns["gap"][1])
    assert set(read.ignored) == {"name"}


class Bomb:
    """Unpickling this writes a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def hostile_npz(path, kind, marker):
    pickled = pickle.dumps(Bomb(marker))
    if kind == "pickle":
        path.write_bytes(pickled)
    elif kind == "pickled array alone":
        np.save(path.open("wb"), np.array([Bomb(marker)], dtype=object), allow_pickle=True)
    elif kind == "object array":
        np.savez(path, conf=np.array([Bomb(marker)], dtype=object))
    elif kind == "object field":
        archive(path, {"conf.npy": header_claiming("|O", (1,), pickled)})
    elif kind == "structured objects":
        np.savez(path, conf=np.array([(1, None)], dtype=[("a", "i4"), ("b", "O")]))
    elif kind == "pickle as member":
        archive(path, {"conf.npy": pickled})
    elif kind == "other member":
        archive(path, {"conf.npy": npy([1.0]), "evil.pkl": pickled})
    elif kind == "10 GB header":
        archive(path, {"conf.npy": header_claiming("<f8", (1_250_000_000,), b"\0" * 80)})
    elif kind == "overflowing header":
        archive(path, {"conf.npy": header_claiming("<f8", (2**62, 8), b"\0" * 80)})
    elif kind == "negative header":
        archive(path, {"conf.npy": header_claiming("<f8", (-10, -1), b"\0" * 80)})
    elif kind == "true as a length":
        archive(path, {"conf.npy": header_claiming("<f8", (True,), b"\0" * 8)})
    elif kind == "code in the header":
        text = b"__import__('os').system('true')\n"
        archive(path, {"conf.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text})
    elif kind == "deep header":
        text = b"(" * 3000 + b"\n"
        archive(path, {"conf.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text})
    elif kind == "huge header":
        archive(path, {"conf.npy": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b" " * 100})
    elif kind == "zip bomb":
        archive(path, {"conf.npy": header_claiming("<f8", (4_000_000,), b"\0" * 32_000_000)})
    elif kind == "many members":
        archive(path, {f"a{number}.npy": npy([1.0]) for number in range(60)})
    elif kind == "too many rows":
        archive(path, {"conf.npy": npy(np.zeros(5001, np.uint8))})
    elif kind == "lying size":
        archive(path, {"conf.npy": npy(np.zeros(100))}, zipfile.ZIP_STORED)
        raw = path.read_bytes()
        path.write_bytes(raw.replace(struct.pack("<I", 928), struct.pack("<I", 700)))
    elif kind == "cut short":
        np.savez(path, conf=np.zeros(1000))
        path.write_bytes(path.read_bytes()[:3000])
    elif kind == "flipped byte":
        np.savez(path, conf=np.zeros(1000))
        raw = bytearray(path.read_bytes())
        raw[2000] ^= 1
        path.write_bytes(raw)
    elif kind == "LZMA":
        archive(path, {"conf.npy": npy(np.zeros(100))}, zipfile.ZIP_LZMA)
    elif kind == "bzip2":
        archive(path, {"conf.npy": npy(np.zeros(100))}, zipfile.ZIP_BZIP2)
    elif kind == "damaged LZMA":
        archive(path, {"conf.npy": npy(np.zeros(100))}, zipfile.ZIP_LZMA)
        raw = bytearray(path.read_bytes())
        raw[60:80] = b"\xff" * 20
        path.write_bytes(raw)
    elif kind == "name in no UTF-8":
        archive(path, {"größe.npy": npy([1.0])})
        path.write_bytes(path.read_bytes().replace("ö".encode(), b"\xff\xff"))
    elif kind == "twice":
        archive(path, {"conf.npy": npy([1.0]), "cone.npy": npy([2.0])}, zipfile.ZIP_STORED)
        path.write_bytes(path.read_bytes().replace(b"cone.npy", b"conf.npy"))
    elif kind == "markup":
        archive(path, {"<img src=x onerror=alert(1)>.npy": npy([1.0])})
    elif kind == "formula":
        archive(path, {"=cmd|' /C calc'!A0.npy": npy([1.0])})
    elif kind == "nothing":
        archive(path, {})
    elif kind == "empty file":
        path.touch()


NPZ = {
    "pickle": "pickles are never read",
    "pickled array alone": "pickles are never read",
    "object array": "Python objects",
    "object field": "Python objects",
    "structured objects": "Python objects",
    "pickle as member": "numpy header",
    "other member": "some other file in the archive",
    "10 GB header": "10,000,000,000 bytes",
    "overflowing header": "bytes",
    "negative header": "bytes",
    "true as a length": "a shape of whole numbers",
    "code in the header": "numpy header",
    "deep header": "numpy header",
    "huge header": "numpy header",
    "zip bomb": "unpacked: expected at most 1.0 MB, got 32.0 MB",
    "many members": "at most 50 columns",
    "too many rows": "at most 5,000 rows",
    "lying size": "hostile.npz",
    "cut short": "pickles are never read",
    "flipped byte": "CRC",
    "LZMA": "stored or deflated",
    "damaged LZMA": "stored or deflated",
    "bzip2": "stored or deflated",
    "name in no UTF-8": "made by numpy.savez",
    "twice": "one array of a name",
    "markup": "without markup",
    "formula": "name of a column",
    "nothing": "at least one column",
    "empty file": "pickles are never read",
}


@pytest.mark.parametrize("kind", NPZ)
def test_hostile_npz(kind, tmp_path):
    path, marker = tmp_path / "hostile.npz", tmp_path / "unpickled"
    hostile_npz(path, kind, marker)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=NPZ[kind]):
            read_table(path, SMALL)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000
    assert not marker.exists()


CSV = {
    "ragged": (b"conf,correct\n0.5,1\n0.5\n", "Expected 2 columns, got 1"),
    "long row": (b"conf,correct\n0.5,1,7\n", "Expected 2 columns, got 3"),
    "late text": (b"conf,correct\n" + b"0.5,1\n" * 900_000 + b"<b>,1\n", "hostile.csv"),
    "empty": (b"", "first line"),
    "blank": (b"\n\n\n", "first line"),
    "binary": (bytes(range(256)) * 10, "hostile.csv"),
    "nul bytes": (b"a\0b,c\n1,2\n", "first line"),
    "latin-1": ("größe,b\n1,2\n".encode("latin-1"), "UTF-8"),
    "one endless line": (b"1," * 600_000, "more than a megabyte"),
    "markup": (b"<script>alert(1)</script>,correct\n0.5,1\n", "without markup"),
    "formula": (b"=HYPERLINK(0),correct\n0.5,1\n", "name of a column"),
    "at sign": (b"@SUM(A1),correct\n0.5,1\n", "name of a column"),
    "twice": (b"conf,conf\n0.5,1\n", "conf"),
    "many columns": (b",".join(b"c%d" % k for k in range(51)) + b"\n", "at most 50 columns"),
    "many rows": (b"conf\n" + b"1\n" * 5001, "at most 5,000 rows"),
    "only text": (b"a\nx\n", "at least one column of numbers"),
}


@pytest.mark.parametrize("kind", CSV)
def test_hostile_csv(kind, tmp_path):
    content, text = CSV[kind]
    path = tmp_path / "hostile.csv"
    path.write_bytes(content)
    limits = Limits() if kind == "late text" else Limits(max_bytes=4_000_000, max_rows=5000, max_columns=50)
    with pytest.raises(InvalidInput, match=text):
        read_table(path, limits)


def test_csv_of_empty_cells_does_not_outgrow_its_limit(tmp_path):
    """Commas alone become eight bytes each in memory."""
    path = tmp_path / "a.csv"
    header = ",".join(f"c{number}" for number in range(100))
    path.write_text(header + "\n" + ("," * 99 + "\n") * 4000)
    with pytest.raises(InvalidInput, match=r"at most 1\.0 MB"):
        read_table(path, Limits(max_bytes=1_000_000))


def hostile_parquet(path, kind):
    if kind == "not parquet":
        path.write_bytes(pickle.dumps([1, 2, 3]) * 10)
    elif kind == "cut short":
        pq.write_table(pa.table({"conf": np.random.default_rng(0).uniform(size=5000)}), path)
        path.write_bytes(path.read_bytes()[:-100])
    elif kind == "damaged page":
        pq.write_table(pa.table({"conf": np.random.default_rng(0).uniform(size=5000)}), path, compression="zstd")
        raw = bytearray(path.read_bytes())
        raw[50:20_000] = bytes(19_950)
        path.write_bytes(raw)
    elif kind == "rows bomb":
        pq.write_table(pa.table({"conf": np.zeros(2_000_000)}), path)
        assert path.stat().st_size < 20_000
    elif kind == "list bomb":
        flat = np.zeros(3_000_000, np.float32)
        lists = pa.ListArray.from_arrays(np.array([0, flat.size], np.int32), flat)
        pq.write_table(pa.table({"logits": lists}), path, compression="zstd")
        assert path.stat().st_size < 50_000
    elif kind == "ragged lists":
        pq.write_table(pa.table({"logits": [[1.0], [1.0, 2.0]]}), path)
    elif kind == "missing lists":
        pq.write_table(pa.table({"logits": [[1.0], None]}), path)
    elif kind == "markup":
        pq.write_table(pa.table({"<b>": [1.0]}), path)
    elif kind == "twice":
        pq.write_table(pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]), path)
    elif kind == "empty file":
        path.touch()


PARQUET = {
    "not parquet": "whole Parquet file",
    "cut short": "whole Parquet file",
    "damaged page": "whole Parquet file",
    "rows bomb": "at most 5,000 rows",
    "list bomb": "at most 1.0 MB",
    "ragged lists": "lengths from 1 to 2",
    "missing lists": "1 empty rows",
    "markup": "without markup",
    "twice": "one column of a name",
    "empty file": "whole Parquet file",
}


@pytest.mark.parametrize("kind", PARQUET)
def test_hostile_parquet(kind, tmp_path):
    path = tmp_path / "hostile.parquet"
    hostile_parquet(path, kind)
    with pytest.raises(InvalidInput, match=PARQUET[kind]):
        read_table(path, SMALL)


def test_other_endings(tmp_path):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(1))
    with pytest.raises(UnknownName, match=r"\.parquet, \.csv, \.npz"):
        read_table(tmp_path / "a.pkl")
    with pytest.raises(InvalidInput, match="does not exist"):
        read_table(tmp_path / "a.csv")


def test_a_large_file_is_refused_unread(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"conf\n" + b"1\n" * 600_000)
    with pytest.raises(InvalidInput, match=r"a\.csv: expected at most 1.0 MB"):
        read_table(tmp_path / "a.csv", SMALL)


def test_an_upload_with_a_hostile_name():
    table = read_stream(io.BytesIO(b"conf\n0.5\n"), "<script>alert(1)</script>.csv")
    assert table.name == "file.csv"
    assert table.columns["conf"].tolist() == [0.5]


def test_an_upload_whose_members_claim_to_lie_before_its_start():
    """A file on disk refuses to go there with an OSError, one in memory with a ValueError."""
    buffer = io.BytesIO()
    archive(buffer, {"conf.npy": npy([1.0])}, zipfile.ZIP_STORED)
    raw = bytearray(buffer.getvalue())
    raw[-6:-2] = struct.pack("<I", len(raw))  # where the archive claims its list of members to be
    with pytest.raises(InvalidInput, match=r"numpy\.savez"):
        read_stream(io.BytesIO(bytes(raw)), "a.npz")


def test_the_fingerprint_is_that_of_the_file(tmp_path):
    import hashlib

    (tmp_path / "a.csv").write_bytes(b"conf\n0.5\n")
    assert read_table(tmp_path / "a.csv").fingerprint == hashlib.sha256(b"conf\n0.5\n").hexdigest()


def test_reading_needs_no_torch():
    script = "import sys; import engine.importing, cache_builder.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


def test_a_header_that_no_csv_reader_takes(tmp_path):
    (tmp_path / "old.csv").write_bytes(b"confidence,correct\r0.5,1\r0.25,0")
    with pytest.raises(InvalidInput, match="first line with the names"):
        read_table(tmp_path / "old.csv")
