"""Strangers' files: a typed error and no trace, or a run that `verify` accepts; nothing unpickled or half-written."""

from __future__ import annotations

import contextlib
import io
import pickle
import tempfile
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.lib import format as npy

from cache_builder.__main__ import main
from cache_builder.provenance import code_version
from engine.core.errors import RouteCalError
from engine.importing import build_record, choose_columns, guess_mapping, read_stream, read_table
from engine.importing.build import RunIdentity
from engine.importing.checking import find_problems, first_rows, understood
from engine.importing.mapping import column_groups, with_extra
from engine.sandbox.run import read_isolated
from tests.fuzz.damage import damaged
from tests.fuzz.outcome import watched
from tests.fuzz.strategies import CONFIDENCE, CORRECT, LABELS, LOGITS, PROBABILITIES, PROFILE, RHO, Size, spoilt
from tests.fuzz.target import Target

code_version()  # imports torch, which the watch over memory should not count
MARK = Path(tempfile.gettempdir()) / "routecal-fuzz-unpickled"
SECONDS = 30


class Bomb:
    """Leaves a mark if anybody unpickles it."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (MARK,)


@dataclass(frozen=True)
class Upload:
    """A file and what is said on the command line about it."""

    name: str
    content: bytes
    options: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Upload({self.name!r}, {self.content!r}, {self.options!r})"


NAMES = {
    "label": ["label", "y", "Ground_Truth"],
    "correct": ["correct", "hit"],
    "confidence": ["confidence", "MSP"],
    "logits": ["logits"],
    "probs": ["probs", "softmax"],
    "entropies": ["entropies", "H"],
    "prediction": ["pred", "y_hat"],
}
ODD_NAMES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "",
            " ",
            "=1+1",
            "<b>",
            "confidence",
            "CONFIDENCE",
            "h_1",
            "logit_0",
            "logit_99999999999999999999",
            "H_\u0661",
            "\u202eabc",
            "a\x00b",
            "../x",
            "x" * 500,
            "r_agg",
            "ﬀ",
            "label ",
        ]
    ),
)


@st.composite
def tables(draw: DrawFn) -> list[tuple[str, np.ndarray]]:
    """Columns that describe outcomes in one of the accepted ways, then changed at table level."""
    size = Size(draw(st.integers(0, 12) | st.just(200)), draw(st.integers(2, 4)), draw(st.integers(0, 3)))
    way = draw(st.sampled_from(["confidence", "logits", "probs", "compared"]))
    kinds = {
        "confidence": {"confidence": CONFIDENCE, "correct": CORRECT},
        "compared": {"confidence": CONFIDENCE, "prediction": LABELS, "label": LABELS},
        "logits": {"logits": LOGITS, "label": LABELS},
        "probs": {"probs": PROBABILITIES, "label": LABELS},
    }[way]
    columns = [(draw(st.sampled_from(NAMES[name])), draw(kind.valid(size))) for name, kind in kinds.items()]
    if draw(st.booleans()):
        columns.append((draw(st.sampled_from(NAMES["entropies"])), draw(PROFILE.valid(size))))
    if draw(st.booleans()):
        columns.append((draw(ODD_NAMES), draw(RHO.valid(size))))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(columns) - 1))
        name, values = columns[place]
        change = draw(st.sampled_from(["name", "twice", "values", "leave out", "type", "shuffle"]))
        if change == "name":
            columns[place] = (draw(ODD_NAMES), values)
        elif change == "twice":
            columns.insert(0, (name, values))
        elif change == "values":
            columns[place] = (name, np.asarray(spoilt(draw, values)) if isinstance(values, np.ndarray) else values)
        elif change == "leave out" and len(columns) > 1:
            del columns[place]
        elif change == "type":
            dtype = draw(st.sampled_from(["f2", "f4", ">f8", "i1", "u8", "?", "U5", "S3", "O", "c8", "M8[s]", "g"]))
            with contextlib.suppress(TypeError, ValueError), np.errstate(all="ignore"):
                columns[place] = (name, values.astype(dtype))
        else:
            columns.reverse()
    return columns


def _flat(columns: Sequence[tuple[str, np.ndarray]]) -> list[tuple[str, np.ndarray]]:
    """Matrices as numbered columns, for a text file."""
    flat: list[tuple[str, np.ndarray]] = []
    for name, values in columns:
        if values.ndim == 2:
            flat += [(f"{name}_{number}", column) for number, column in enumerate(values.T)]
        else:
            flat.append((name, values.ravel()))
    return flat


@st.composite
def csv_files(draw: DrawFn) -> bytes:
    columns = _flat(draw(tables()))
    separator = draw(st.sampled_from([",", ";", "\t"]))
    ending = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = [separator.join(name for name, _ in columns)]
    for row in range(max((len(values) for _, values in columns), default=0)):
        cells = [_cell(draw, values[row]) if row < len(values) else "" for _, values in columns]
        lines.append(separator.join(cells))
    if draw(st.integers(0, 4)) == 0:
        lines.insert(
            draw(st.integers(0, len(lines))), draw(st.sampled_from(['"', '"a\nb"', "#", "", ",,,,", "\x00", "é" * 9]))
        )
    text = ending.join(lines) + draw(st.sampled_from(["", ending]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    return text.encode(encoding, errors="replace")


def _cell(draw: DrawFn, value: Any) -> str:
    # One draw in many: text files are drawn cell by cell, and most cells should stay as they are.
    return draw(st.sampled_from([None] * 60 + ["", "nan", "inf", "1e999", "abc", "0x10", "1,5", "true", "'1"])) or str(
        value
    )


@st.composite
def npz_files(draw: DrawFn) -> bytes:
    """An archive as numpy writes it, or with a member that lies, hides or explodes."""
    members = [(f"{name}.npy", _npy(values)) for name, values in draw(tables())]
    trick = draw(
        st.sampled_from(["none", "none", "shape", "pickle", "header", "other file", "size", "nested", "version"])
    )
    place = draw(st.integers(0, len(members) - 1))
    name, content = members[place]
    if trick == "shape":
        lie = draw(st.sampled_from([(10**12,), (2**63, 2**63), (-1,), (0,), (10**6, 10**6), (3, 0), (True,), ()]))
        members[place] = (
            name,
            _lying(lie, draw(st.sampled_from(["<f8", "|O", "<U999999999", "|V0", "<f16"])), content[-16:]),
        )
    elif trick == "pickle":
        members[place] = draw(
            st.sampled_from(
                [
                    (name, _npy(np.array([Bomb()] * 3, dtype=object))),
                    (name, pickle.dumps(Bomb())),
                    ("data.pkl", pickle.dumps(Bomb())),
                ]
            )
        )
    elif trick == "header":
        members[place] = (name, content[:8] + draw(st.binary(max_size=40)) + content[48:])
    elif trick == "other file":
        members.insert(
            0, (draw(st.sampled_from(["../x.npy", "/etc/x.npy", "readme.txt", ".npy", "a/b.npy", ""])), content)
        )
    elif trick == "nested":
        members[place] = (name, _zip([("a.npy", content)]))
    elif trick == "version":
        members[place] = (name, content[:6] + bytes([draw(st.integers(0, 255)), 0]) + content[8:])
    return _zip(
        members, draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2]))
    )


def _npy(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    npy.write_array(buffer, values, allow_pickle=True)
    return buffer.getvalue()


def _lying(shape: tuple[int, ...], dtype: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    npy.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + content


def _zip(members: Sequence[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            with warnings.catch_warnings():  # two members of one name are what is wanted
                warnings.simplefilter("ignore")
                archive.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


@st.composite
def parquet_files(draw: DrawFn) -> bytes:
    arrays, names = [], []
    for name, values in draw(tables()):
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            arrays.append(pa.array(values.tolist() if values.ndim == 2 else values.ravel().tolist()))
            names.append(name)
    longest = max((len(array) for array in arrays), default=0)
    padded = [pa.concat_arrays([array, pa.nulls(longest - len(array), array.type)]) for array in arrays]
    buffer = io.BytesIO()
    compression = draw(st.sampled_from(["none", "snappy", "zstd", "gzip"]))
    try:
        pq.write_table(
            pa.table(padded, names=names), buffer, compression=compression, row_group_size=draw(st.integers(1, 300))
        )
    except (pa.ArrowException, UnicodeEncodeError):
        return b"PAR1"
    return buffer.getvalue()


PATTERNS = st.sampled_from(["*", "confidence", "nothing", "logits_*", "[", "[!", "h*", "?", ""])


@st.composite
def uploads(draw: DrawFn, ending: str, files: st.SearchStrategy[bytes]) -> Upload:
    content = draw(files)
    if draw(st.integers(0, 2)) == 0:
        content = draw(damaged(content))
    name = draw(st.sampled_from(["file", "a b", "=x", "ü", "x" * 150])) + ending
    options: list[str] = []
    if draw(st.integers(0, 3)) == 0:
        role = draw(
            st.sampled_from(
                ["logits", "probabilities", "confidence", "correct", "label", "profile", "extra", "seed", "suite"]
            )
        )
        options = [f"--{role}={draw(st.sampled_from(['-1', '7']) if role == 'seed' else PATTERNS)}"]
    return Upload(name, content, tuple(options))


def imported(upload: Upload) -> None:
    """`python -m cache_builder import`, then `verify`."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, upload.name), Path(folder, "shards")
        file.write_bytes(upload.content)
        told, complained = io.StringIO(), io.StringIO()
        arguments = ["import", str(file), "--run-id", "run", "--out", str(out), *upload.options]
        with watched(SECONDS), contextlib.redirect_stdout(told), contextlib.redirect_stderr(complained):
            try:
                status = main(arguments)
            except SystemExit as refused:  # an option that argparse does not take
                status = refused.code
        left = sorted(path.name for path in out.rglob("*")) if out.exists() else []
        if status == 0:
            assert left == ["run.parquet"], f"beside the shard: {left}"
            with watched(SECONDS), contextlib.redirect_stdout(told):
                assert main(["verify", str(out)]) == 0, told.getvalue()
        else:
            assert status == 2, f"status {status}"
            assert complained.getvalue().startswith(("error: ", "usage: ")), complained.getvalue()
            assert not left, f"left behind: {left}"
    assert not MARK.exists(), "something was unpickled"


def uploaded(upload: Upload) -> None:
    """The dashboard's way: a limited child reads, then the columns are shown, checked and made into a run."""
    try:
        table = read_isolated(upload.content, upload.name)
        with watched(SECONDS):
            mapping = with_extra(table.columns, guess_mapping(table.columns))
            first_rows(table), understood(table, mapping), column_groups(table.columns)
            problems = find_problems(table.columns, mapping)
            record = build_record(table.columns, mapping, RunIdentity("run"))
            assert not problems, f"accepted with problems: {problems}"
            assert record.n_samples == len(record.correct)
    except RouteCalError as error:
        assert str(error).strip()  # noqa: PT017
    assert not MARK.exists(), "something was unpickled"


def chosen(patterns: Any) -> None:
    """Patterns for columns, whatever somebody types."""
    columns = {"confidence": np.zeros(3), "h_1": np.zeros(3), "h_2": np.zeros(3)}
    with contextlib.suppress(RouteCalError), watched():
        assert set(choose_columns(columns, patterns, "extra")) <= set(columns)


FILES = {".csv": csv_files(), ".npz": npz_files(), ".parquet": parquet_files()}
TARGETS = [
    *(Target(f"import {ending}", uploads(ending, files), imported, quick=40) for ending, files in FILES.items()),
    *(
        Target(f"upload {ending}", uploads(ending, files), uploaded, quick=1, round=10)
        for ending, files in FILES.items()
    ),
    Target("choose_columns", st.lists(st.text(max_size=6) | PATTERNS, max_size=4), chosen),
]
COVERED = (read_table, read_stream, guess_mapping, choose_columns, build_record)
