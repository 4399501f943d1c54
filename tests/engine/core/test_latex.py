"""Tables of pages as LaTeX: numbers as the page prints them, nothing that LaTeX would stumble over."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from engine.core.latex import escape, to_latex

FRAME = pd.DataFrame({
    "Run": ["a_b & c · seed 0", "50 % of #1", "plain"],
    "p ≤ 0.05, R²": [-0.01234, None, 1234.5],
    "Samples": [10_000, 250, 7],
    "95 % interval": ["[−0.02, 0.01]", "–", "[0, 1]"],
})  # fmt: skip


def made(**more) -> str:
    return to_latex(FRAME, caption="Gap: 15 bins, p ≤ 0.05.", label="tab:x", formats={"p ≤ 0.05, R²": "%+.3f"}, **more)


def test_cells_are_what_the_page_prints():
    rows = [line for line in made().splitlines() if line.endswith(r"\\")]
    assert rows == [
        r"Run & p $\leq$ 0.05, R$^2$ & Samples & 95 \% interval \\",
        r"a\_b \& c $\cdot$ seed 0 & $-0.012$ & $10{,}000$ & [$-$0.02, 0.01] \\",
        r"50 \% of \#1 & -- & $250$ & -- \\",
        r"plain & $+1234.500$ & $7$ & [0, 1] \\",
    ]


def test_places_are_marked_as_in_the_paper():
    table = made(places={"Samples": [2, 0, 1], "p ≤ 0.05, R²": [0, 1, 0]})
    assert r"$\underline{10{,}000}$" in table
    assert r"$\mathbf{7}$" in table
    assert "mathbf{--}" not in table


def test_text_is_escaped():
    assert escape("a_b & 50% {x} ~^ $1 #2 \\") == (
        r"a\_b \& 50\% \{x\} \textasciitilde{}\textasciicircum{} \$1 \#2 \textbackslash{}"
    )


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("0.0111 ± 0.0008", 0, r"$0.0111\,{\scriptstyle\pm 0.0008}$"),
        ("-0.3000 ± 0.1000", 1, r"$\mathbf{-0.3000\,{\scriptstyle\pm 0.1000}}$"),
        ("+0.5000", 2, r"$\underline{+0.5000}$"),
        ("1,234", 0, "$1{,}234$"),
        ("< 0.001", 0, "$<$ 0.001"),
        ("–", 1, "--"),
    ],
)
def test_printed_numbers_are_numbers(text: str, place: int, expected: str):
    table = to_latex(pd.DataFrame({"Row": ["a"], "ECE": [text]}), caption="c", label="tab:t", places={"ECE": [place]})
    assert rf"a & {expected} \\" in table


def test_a_table_has_booktabs_rules_and_turns_long():
    short = to_latex(FRAME, caption="50%", label="tab:t")
    assert short.count(r"\toprule") == short.count(r"\bottomrule") == 1
    assert r"\caption{50\%}" in short
    assert r"\begin{tabular}{lrrr}" in short
    long = to_latex(pd.concat([FRAME] * 20), caption="c", label="tab:t")
    assert r"\begin{longtable}{lrrr}" in long
    assert r"\begin{table}" not in long


def test_everything_is_plain_characters():
    assert made().isascii()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX on this machine")
def test_it_compiles(tmp_path: Path):
    packages = r"\usepackage{booktabs}\usepackage{longtable}"
    body = made() + to_latex(pd.concat([FRAME] * 20), caption="Long.", label="tab:y")
    (tmp_path / "t.tex").write_text(rf"\documentclass{{article}}{packages}\begin{{document}}{body}\end{{document}}")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "t.tex"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert re.findall(r"^!.*", done.stdout, flags=re.MULTILINE) == []
    assert done.returncode == 0
