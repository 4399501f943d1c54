"""The published tables: complete, exact to the printed digits, and readable by name."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from engine.core.errors import UnknownName
from engine.paper import published

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT.parent / "shared" / "paper" / "paper.tex"
needs_paper = pytest.mark.skipif(not SOURCE.is_file(), reason="the paper's source is not beside the project")
EVERYTHING = [*published.TABLES, published.STATEMENTS]


@cache
def reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "read_paper_tables", ROOT / "tests" / "reference" / "read_paper_tables.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def source() -> str:
    return SOURCE.read_text(encoding="utf-8")


def number(table: str, row: str, column: str) -> tuple[float, float]:
    frame = published.load(table)
    cell = frame[(frame["row"] == row) & (frame["column"] == column)]
    assert len(cell) == 1
    return cell["value"].item(), cell["std"].item()


# ---- the files ------------------------------------------------------------------------------------------------------


def test_every_file_has_a_table_and_every_table_a_file():
    assert {path.stem for path in published.DIRECTORY.glob("*.csv")} == set(EVERYTHING)


@pytest.mark.parametrize("table", EVERYTHING)
def test_cells_are_tidy(table: str):
    frame = published.load(table)
    assert tuple(frame.columns) == (*published.COLUMNS, "printed", "printed_std")
    assert set(frame["table"]) == {table}
    assert not frame.duplicated(["row", "column"]).any()
    assert (frame["row"].str.len() > 0).all()
    assert (frame["column"].str.len() > 0).all()
    text = frame["printed"].where(frame["value"].isna(), "")
    # What is no number is a word of the paper, or a dash that the note explains.
    assert set(frame.loc[frame["printed"] == "", "note"]) <= {"not available"}
    assert not text.str.fullmatch(r"[\d.+-]+").any()
    assert not frame["printed"].str.contains(r"[\\${}]").any(), "no LaTeX is left"
    assert not frame["row"].str.contains(r"[\\${}]").any(), "no LaTeX is left"


@pytest.mark.parametrize("table", EVERYTHING)
def test_numbers_keep_their_printed_digits(table: str):
    frame = published.load(table)
    for value, printed in zip(frame["value"], frame["printed"], strict=True):
        if pd.notna(value):
            decimals = len(printed.partition(".")[2])
            assert f"{abs(value):.{decimals}f}" == printed.lstrip("+-")


def test_some_cells_as_a_reader_of_the_paper_sees_them():
    assert number("matched_gap", "Block-AR", "Max gap")[0] == 0.346
    assert number("matched_gap", "Full-AR", "Shared bins")[0] == 13
    assert number("calibration", "AR-CondCal", "Worst-tertile ECE") == (0.0194, 0.0033)
    assert number("calibration_deit_c100_full", "Conf + PredEntropy", "ECE") == (0.0124, 0.0029)
    assert number("paired_deltas", "Vector Scaling", "ΔNLL") == (-0.1228, 0.0130)
    assert number("feature_ablation", "CIFAR-10 / Confidence only", "Δ vs Conf+PE")[0] == -0.0039
    assert number("ar_sweep", "Sw-T / C-100 / Block-AR", "Max gap") == (0.281, 0.192)
    assert number("ar_sweep", "Sw-T / C-10 / Block-AR", "Rejections")[0] == 1
    assert number("per_seed_diagnostics", "Full-AR / seed 2", "Support q25")[0] == 72
    assert number("vanilla_backbones", "ViT-Large", "Uplift")[0] == 0.091
    assert number("external_audit", "Cross-cell ranking", "AR-CondCal rank-1 (%)")[0] == 17.5


def test_counts_of_runs_and_marks_are_kept():
    sweep = published.load("ar_sweep").drop_duplicates("row")
    assert sweep["n"].sum() == 30
    calibration = published.load("calibration")
    assert list(calibration.loc[calibration["note"] == "bold", "row"]) == [
        "Vector Scaling",
        "Vector Scaling",
        "BBQ",
        "BBQ",
        "Conf + PredEntropy",
    ]
    assert published.load("external_finetune")["n"].eq(1).all()
    assert published.load("parameter_overhead")["n"].isna().all()


def test_a_missing_external_run_is_missing_not_zero():
    frame = published.load("external_scratch")
    missing = frame[frame["row"] == "Baseline / CIFAR-10"]
    assert len(missing) == 4
    assert missing["value"].isna().all()
    assert frame.loc[frame["row"] != "Baseline / CIFAR-10", "value"].notna().all()


def test_unknown_table_names_the_valid_ones():
    with pytest.raises(UnknownName, match="matched_gap"):
        published.load("table 1")


def test_captions_are_given_for_all():
    for name, table in published.TABLES.items():
        assert table.name == name
        assert re.fullmatch(r"(tab|app):[\w-]+", table.label)
        assert len(table.title) > 5
        assert table.caption.endswith(".")


# ---- against the paper's source -----------------------------------------------------------------------------------


@needs_paper
@pytest.mark.parametrize("table", published.TABLES)
def test_cell_by_cell_against_the_source(table: str):
    read = pd.DataFrame(reader().read_tables(source())[table], columns=list(published.COLUMNS))
    kept = pd.read_csv(published.DIRECTORY / f"{table}.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(read.astype(str), kept.astype(str), check_dtype=False)


@needs_paper
def test_no_table_of_the_source_is_left_out():
    labels = set(re.findall(r"\\label\{(tab:[^}]*)\}", source()))
    assert labels == {table.label for table in published.TABLES.values() if table.label.startswith("tab:")}
    # One tabular without a label (the backbones without routing); the long table holds seven of ours.
    assert len(re.findall(r"\\begin\{(?:tabular|longtable)\}", source())) == len(labels) + 1
    assert len(published.TABLES) == len(labels) + 1 + 6


def decimals_in(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d+\.\d+", text))


@needs_paper
@pytest.mark.parametrize("label", sorted({table.label for table in published.TABLES.values()}))
def test_every_decimal_of_the_source_is_kept_once(label: str):
    """Independent of the reader's rules: the decimals between the rules of a table, whatever cell they stand in."""
    after = source()[source().index(r"\label{" + label + "}") :]
    end = r"\end{longtable}" if label == "tab:cal-per-cell-combined" else r"\end{tabular}"
    start = r"\endlastfoot" if label == "tab:cal-per-cell-combined" else r"\midrule"
    body = after[after.index(start) : after.index(end)]
    kept: Counter[str] = Counter()
    for name, table in published.TABLES.items():
        if table.label == label:
            frame = published.load(name)
            for text in (*frame["printed"], *frame["printed_std"], *frame["row"].unique()):
                kept += decimals_in(text)
    assert kept == decimals_in(body)


def place(label: str) -> str:
    """The text a label stands for: the figure or table around it, or the section after it."""
    at = source().index(r"\label{" + label + "}")
    if label.startswith(("fig:", "tab:")):
        begin = max(source().rfind(r"\begin{" + kind, 0, at) for kind in ("figure", "table"))
        return source()[begin : min(i for kind in ("figure", "table") if (i := source().find(r"\end{" + kind, at)) > 0)]
    return source()[at : source().find(r"section{", at)]


@needs_paper
def test_statements_are_stated_where_they_say():
    frame = published.load(published.STATEMENTS)
    for row, column, printed, std, note in zip(
        *(frame[name] for name in ("row", "column", "printed", "printed_std", "note")), strict=True
    ):
        label, _, spelt = note.partition(", ")
        text = place(label).replace("{,}", "").replace("{-}", "-").replace(r"\!", "")
        if spelt == "in words":
            continue
        for wanted in filter(None, (printed, std)):
            found = re.search(r"(?<![\d.])" + re.escape(wanted.lstrip("+-")) + r"(?![\d]|\.\d)", text)
            assert found, f"{row}, {column}: {wanted} not in {label}"
