"""The audit itself: rounding, ties, missing tables, and the command line."""

from __future__ import annotations

import json
from io import StringIO
from itertools import pairwise

import pandas as pd
import pytest

from engine.__main__ import main
from engine.core.errors import InvalidInput
from engine.paper import published
from engine.paper.claims import CLAIMS, OUTCOMES, ClaimResult, as_frame, audit
from engine.paper.claims.compare import marks, mean_and_std
from engine.paper.claims.registry import Paper
from engine.paper.claims.rounding import rounded


def outcomes(results: list[ClaimResult]) -> dict[str, str]:
    return {result.key: result.outcome for result in results}


# ---- rounding decides, not the last digit ---------------------------------------------------------------------------


def frame(cells: list[tuple[str, str, str, str, str]]) -> pd.DataFrame:
    """(row, column, printed, printed std, note) as `published.load` gives them."""
    rows, columns, printed, stds, notes = zip(*cells, strict=True)
    return pd.DataFrame(
        {
            "table": "made",
            "row": rows,
            "column": columns,
            "value": pd.to_numeric(pd.Series(printed), errors="coerce"),
            "std": pd.to_numeric(pd.Series(stds), errors="coerce"),
            "n": 3,
            "note": notes,
            "printed": printed,
            "printed_std": stds,
        }
    )


@pytest.mark.parametrize(
    ("printed", "std", "outcome"),
    [
        ("0.193", "0.109", "agrees"),
        ("0.193", "0.134", "agrees"),  # dividing by n - 1
        ("0.193", "0.107", "differs"),
        ("0.194", "0.109", "agrees"),  # 0.1935 may round either way
        ("0.195", "0.109", "differs"),
        ("0.19", "0.11", "agrees"),
    ],
)
def test_mean_and_std_against_seeds(printed: str, std: str, outcome: str):
    paper = Paper({"made": frame([("row", "column", printed, std, "")])})
    seeds = [rounded(value, "0.000") for value in (0.346, 0.133, 0.100)]
    assert mean_and_std(paper, "made", "row", "column", seeds).outcome == outcome


@pytest.mark.parametrize(
    ("printed", "bold", "underlined", "outcome"),
    [
        (("0.3", "0.1", "0.2"), 1, 2, "agrees"),
        (("0.3", "0.1", "0.1"), 2, 1, "agrees"),  # a tie as printed
        (("0.3", "0.1", "0.2"), 2, 1, "differs"),
        (("0.3", "0.1", "0.2"), 1, 0, "differs"),  # underlined is third
    ],
)
def test_marks(printed: tuple[str, ...], bold: int, underlined: int, outcome: str):
    notes = ["bold" if index == bold else "underlined" if index == underlined else "" for index in range(3)]
    cells = [
        (f"row {index}", "ECE", text, "", note) for index, (text, note) in enumerate(zip(printed, notes, strict=True))
    ]
    cells.append(("raw", "ECE", "0.0", "", ""))
    assert marks(Paper({"made": frame(cells)}), "made", ["ECE"], skip={"raw"}).outcome == outcome


def test_a_column_without_marks_is_no_agreement():
    paper = Paper({"made": frame([("row", "ECE", "0.1", "", "")])})
    assert marks(paper, "made", ["ECE"], skip=()).outcome == "differs"


# ---- missing tables, bad input, command line ------------------------------------------------------------------------


def test_a_missing_table_makes_its_claims_not_checkable():
    tables = published.load_all()
    del tables["parameter_overhead"]
    results = {result.key: result for result in audit(tables)}
    assert results["parameter_difference"].outcome == "not checkable"
    assert "parameter_overhead" in results["parameter_difference"].how
    assert results["sweep_runs"].outcome == "agrees"


def test_a_missing_row_makes_its_claims_not_checkable():
    tables = published.load_all()
    tables["bandwidth"] = tables["bandwidth"][tables["bandwidth"]["row"] != "CV-NLL"]
    results = {result.key: result for result in audit(tables)}
    assert results["cross_validation_change"].outcome == "not checkable"
    assert "CV-NLL" in results["cross_validation_change"].how
    assert results["oracle_change"].outcome == "agrees"


def test_without_statements_the_papers_own_are_used():
    tables = published.load_all()
    del tables["statements"]
    assert outcomes(audit(tables)) == outcomes(audit())


def test_no_tables_at_all_leave_what_the_text_alone_settles():
    found = outcomes(audit({}))
    assert found["clipping_total"] == "agrees"
    assert found["sweep_runs"] == "not checkable"


def test_a_frame_of_another_shape_is_refused():
    with pytest.raises(InvalidInput, match=r"tables\['ar_sweep'\].*printed"):
        audit({"ar_sweep": published.load("ar_sweep").drop(columns="printed")})


def test_keys_are_unique_and_topics_contiguous():
    keys = [claim.key for claim in CLAIMS]
    assert len(keys) == len(set(keys)) >= 40
    topics = [claim.topic for claim in CLAIMS]
    assert len([1 for before, after in pairwise(topics) if before != after]) + 1 == len(set(topics))


def test_as_frame():
    results = audit()
    table = as_frame(results)
    assert list(table.columns) == ["key", "topic", "claim", "where", "stated", "recomputed", "outcome", "how"]
    assert len(table) == len(results)
    assert set(table["outcome"]) == set(OUTCOMES)


def test_command_line(capsys: pytest.CaptureFixture[str]):
    assert main(["audit", "--paper"]) == 0
    text = capsys.readouterr().out
    assert "180 claims: 126 agrees, 51 differs, 3 not checkable" in text
    assert "stated: 0.167 ± 0.130; recomputed: 0.193 ± 0.107" in text
    assert max(len(line) for line in text.splitlines()) <= 118
    assert main(["audit", "--paper", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(CLAIMS)
    assert main(["audit", "--paper", "--csv"]) == 0
    assert len(pd.read_csv(StringIO(capsys.readouterr().out))) == len(CLAIMS)
    assert main(["audit", "--paper", "--latex"]) == 0
    assert capsys.readouterr().out.count("differs") >= 50


def test_command_line_takes_no_cache_with_the_paper(capsys: pytest.CaptureFixture[str]):
    assert main(["audit", "some.duckdb", "--paper"]) == 2
    assert "--paper" in capsys.readouterr().err
