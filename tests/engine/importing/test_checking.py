"""Faults by column and row, choices as a person would list them, and what was understood."""

from __future__ import annotations

import io

import numpy as np
import pytest

from engine.importing import RunIdentity, build_record, guess_mapping, read_stream
from engine.importing.checking import Problem, find_problems, first_rows, understood
from engine.importing.examples import EXAMPLE_NAME, TEMPLATE, TEMPLATE_NAME, example_csv
from engine.importing.mapping import ColumnMapping, column_groups, with_extra
from engine.importing.readers import Table
from engine.verdict import judge

V = np.array([0.5, 0.6, 0.7, 0.8])
ONES = np.ones(4)
NAN = float("nan")
PLAIN = ColumnMapping(confidence="c", correct="t")
LOGITS = ColumnMapping(logits=("z",), label="y")
Z = np.zeros((4, 3))

FAULTS = {
    "nothing chosen": ({"c": V}, ColumnMapping(), [("confidence", ""), ("correct", "")]),
    "no label": ({"z": Z}, ColumnMapping(logits=("z",)), [("label", "")]),
    "lengths": ({"c": V, "t": ONES[:3]}, PLAIN, [("t", "")]),
    "no rows": ({"c": V[:0], "t": ONES[:0]}, PLAIN, [("c", "")]),
    "NaN": ({"c": np.array([0.5, NAN, 0.5, NAN]), "t": ONES}, PLAIN, [("c", "rows 2, 4")]),
    "percent": ({"c": V * 100, "t": ONES}, PLAIN, [("c", "rows 1, 2, 3, 4")]),
    "correct": ({"c": V, "t": np.array([0, 1, 2, 1])}, PLAIN, [("t", "row 3")]),
    "NaN in correct": ({"c": V, "t": np.array([0, 1, NAN, 1])}, PLAIN, [("t", "row 3")]),
    "infinite logit": (
        {"z": np.where(np.arange(12).reshape(4, 3) == 7, np.inf, 0), "y": np.zeros(4)},
        LOGITS,
        [("z, value 2", "row 3")],
    ),
    "label out of range": ({"z": Z, "y": np.array([0, 3, -1, 1.5])}, LOGITS, [("y", "rows 2, 3, 4")]),
    "labels from 1": ({"z": Z, "y": np.array([1, 2, 3, 3])}, LOGITS, [("y", "rows 3, 4")]),
    "sums": (
        {"p0": V, "p1": np.array([0.5, 0.4, 0.3, 0.9]), "y": np.zeros(4)},
        ColumnMapping(probabilities=("p0", "p1"), label="y"),
        [("p0 to p1", "row 4")],
    ),
    "profile": (
        {"c": V, "t": ONES, "H": V * 2},
        ColumnMapping(confidence="c", correct="t", profile=("H",)),
        [("H", "rows 2, 3, 4")],
    ),
    "extra": (
        {"c": V, "t": ONES, "e": np.array([1, NAN, 1e300, 0])},
        ColumnMapping(confidence="c", correct="t", extra=("e",)),
        [("e", "rows 2, 3")],
    ),
    "extra named like a feature": (
        {"c": V, "t": ONES, "r_std": V},
        ColumnMapping(confidence="c", correct="t", extra=("r_std",)),
        [("r_std", "")],
    ),
    "contradiction": (
        {"c": V, "t": ONES, "p": ONES, "y": np.array([1, 1, 0, 1])},
        ColumnMapping(confidence="c", correct="t", prediction="p", label="y"),
        [("t", "row 3")],
    ),
    "two faults": ({"c": V * 2, "t": ONES * 3}, PLAIN, [("c", "rows 2, 3, 4"), ("t", "rows 1, 2, 3, 4")]),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_by_column_and_row(kind: str):
    columns, mapping, expected = FAULTS[kind]
    assert [(problem.column, problem.where) for problem in find_problems(columns, mapping)] == expected


def test_many_rows_are_counted():
    problem = find_problems({"c": np.full(1000, 2.0), "t": np.ones(1000)}, PLAIN)[0]
    assert problem == Problem("c", (1, 2, 3, 4, 5), 1000, "a probability in [0, 1]", "2")
    assert problem.where == "rows 1, 2, 3, 4, 5 and 995 more"


def test_rounding_is_not_a_fault():
    columns = {"c": np.array([1 + 1e-7, 0.5]), "t": np.array([True, False]), "H": np.array([[1 + 1e-6], [0.0]])}
    mapping = ColumnMapping(confidence="c", correct="t", profile=("H",))
    assert find_problems(columns, mapping) == ()
    assert build_record(columns, mapping, RunIdentity("a")).n_samples == 2


def test_groups():
    columns = {"z_0": V, "z_10": V, "z_1": V, "z_2": V, "H": Z, "conf": V, "x7": V}
    assert column_groups(columns) == {
        "z_0 to z_2 (3 columns)": ("z_0", "z_1", "z_2"),
        "z_0": ("z_0",), "z_10": ("z_10",), "z_1": ("z_1",), "z_2": ("z_2",), "H (3 values each)": ("H",),
        "conf": ("conf",), "x7": ("x7",),
    }  # fmt: skip


def test_every_guess_is_among_the_choices():
    columns = {**{f"logit_{k}": V for k in range(3)}, "label": V, "H_1": V, "H_2": V}
    mapping, groups = guess_mapping(columns), column_groups(columns)
    assert mapping.logits in groups.values()
    assert mapping.profile in groups.values()


def test_left_over_columns_are_features():
    columns = {
        "sample_id": V,
        "c": V,
        "confidence": V,
        "correct": ONES,
        "margin": V,
        "r_std": V,
        "a1": V,
        "a2": V,
        "m": Z,
    }
    mapping = with_extra(columns, guess_mapping(columns))
    assert mapping.extra == ("c", "margin")


def test_understood_and_first_rows():
    table = Table(
        "a.csv", {"H_1": V, "H_2": V, "c": V, "z": np.arange(24.0).reshape(4, 6)}, {"name": "holds string, not numbers"}
    )
    rows = understood(table, ColumnMapping(confidence="c", profile=("H_1", "H_2")))
    assert rows.to_numpy().tolist() == [
        ["H_1 to H_2 (2 columns)", "4 rows", "routing entropy"],
        ["c", "4 rows", "confidence"],
        ["z", "4 rows of 6 values", "not used"],
        ["name", "string, not numbers", "not used"],
    ]
    assert first_rows(table, n_rows=2, n_columns=4)["z"].tolist() == ["0, 1, 2, 3, ... (6)", "6, 7, 8, 9, ... (6)"]
    assert first_rows(table, n_columns=2).columns.tolist() == ["H_1", "H_2"]


def test_the_template_is_a_run():
    table = read_stream(io.BytesIO(TEMPLATE.encode()), TEMPLATE_NAME)
    mapping = with_extra(table.columns, guess_mapping(table.columns))
    assert mapping == ColumnMapping(
        confidence="confidence", correct="correct", profile=("H_1", "H_2", "H_3"), extra=("my_score",)
    )
    assert find_problems(table.columns, mapping) == ()


def test_the_example_shows_both_answers():
    assert example_csv() == example_csv()
    table = read_stream(io.BytesIO(example_csv()), EXAMPLE_NAME)
    mapping = with_extra(table.columns, guess_mapping(table.columns))
    assert mapping.extra == ("hesitation",)
    assert find_problems(table.columns, mapping) == ()
    run = build_record(table.columns, mapping, RunIdentity("example")).data()
    routing = judge(run.confidence, run.correct, run.entropies.mean(axis=1), controls=False)
    hesitation = judge(run.confidence, run.correct, run.extra["hesitation"], controls=False)
    assert (routing.outcome, hesitation.outcome) == ("no_evidence", "evidence")
