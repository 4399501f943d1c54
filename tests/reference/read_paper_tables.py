"""Reads every table of the paper's LaTeX source into tidy cells; run as a script, it writes `data/paper/*.csv`.

    python tests/reference/read_paper_tables.py PAPER.TEX DIRECTORY

One cell is `(table, row, column, value, std, n, note)`. `value` and `std` keep a number as printed (0.0160 stays
0.0160), because the number of decimals is what tells how far a printed number may be from the computed one.
`note` keeps the mark (bold, underlined) and the footnotes that apply to the cell.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

FIELDS = ("table", "row", "column", "value", "std", "n", "note")


class Cell(NamedTuple):
    table: str
    row: str
    column: str
    value: str
    std: str = ""
    n: str = ""
    note: str = ""


# ---- LaTeX ----------------------------------------------------------------------------------------------------------

_WORDS = [
    (r"\\tilde H", "shuffled H"),
    (r"\\mathrm\{(\w+)\}", r"\1"),
    (r"\\(?:textbf|mathbf|textsc|emph|underline|scriptstyle|textit)\b", ""),
    (r"_\{(\w+)\}", r"_\1"),
    (r"s\$_(\d)\$", r"s\1"),
    (r"\\times", "×"),
    (r"\\equiv", "="),
    (r"\\ldots", "..."),
    (r"\\hspace\{[^}]*\}", ""),
    (r"\^\{[^}]*\}", ""),
    (r"\\[!,]", ""),
    (r"\\%", "%"),
    (r"\\ ", " "),
    (r"[${}]", ""),
]


def plain(tex: str) -> str:
    """Text without LaTeX commands."""
    for pattern, replacement in _WORDS:
        tex = re.sub(pattern, replacement, tex)
    return " ".join(tex.split())


def marks(tex: str) -> str:
    """How the number itself is set: bold for the best, underlined for the second best."""
    return "bold" if r"\mathbf" in tex else "underlined" if r"\underline" in tex else ""


def footnotes(tex: str) -> str:
    """The footnote signs of the 30-run table, in words."""
    said = {r"\ast": "single seed, descriptive only", r"\ddagger": "minimum-support weighting"}
    return "; ".join(text for sign, text in said.items() if sign in tex)


def numbers(tex: str) -> list[str]:
    """Every number of a cell, as printed; a sign counts only when it is set as one."""
    tidy = plain(re.sub(r"\$-\$(?=\d)", "-", tex)).replace(r"\pm", " ")
    return [found.group() for found in re.finditer(r"(?:(?<![\w.\]])[+-])?\d+(?:\.\d+)?", tidy)]


def block(tex: str, label: str) -> str:
    """The rows of the first table after a label."""
    after = tex[tex.index(r"\label{" + label + "}") :]
    kind = "longtable" if label == "tab:cal-per-cell-combined" else "tabular"
    body = after[: after.index(r"\end{" + kind + "}")]
    start = r"\endlastfoot" if kind == "longtable" else r"\midrule"
    return body[body.index(start) + len(start) :]


def rows(body: str) -> Iterator[list[str]]:
    """Rows as lists of raw cells; a heading that spans the table comes as a list of one."""
    body = re.sub(r"\\(?:midrule|bottomrule|addlinespace)\b", "", body)
    for line in re.split(r"\\\\", body):
        if not line.strip():
            continue
        yield [cell.strip() for cell in re.split(r"(?<!\\)&", line)]


# ---- kinds of cells: each yields (column, value, std, note) ----------------------------------------------------------

Piece = tuple[str, str, str, str]
Kind = Callable[[str], list[Piece]]


def number(name: str) -> Kind:
    """A number, with or without a standard deviation; a dash where nothing was available."""

    def read(tex: str) -> list[Piece]:
        found = numbers(tex)
        if not found:
            assert tex == "--", tex
            return [(name, "", "", "not available")]
        assert len(found) <= 2, tex
        return [(name, found[0], found[1] if len(found) == 2 else "", marks(tex))]

    return read


def several(*names: str) -> Kind:
    """Several numbers in one cell: an interval, a ratio of counts, three quantiles."""

    def read(tex: str) -> list[Piece]:
        found = numbers(tex)
        assert len(found) == len(names), tex
        return [(name, text, "", marks(tex)) for name, text in zip(names, found, strict=True)]

    return read


def text(name: str) -> Kind:
    return lambda tex: [(name, plain(tex), "", "")]


def interval(name: str) -> Kind:
    return several(f"{name} CI low", f"{name} CI high")


BINS = several("Shared bins", "Total bins")
SUPPORT = several("Support min", "Support q25", "Support median")


# ---- the tables ------------------------------------------------------------------------------------------------------


def simple(
    table: str, label: str, columns: list[Kind], *, keys: int = 1, n: str = "", headings: bool = False
) -> Callable[[str], Iterator[Cell]]:
    """A table whose first `keys` cells name the row, under the last heading if headings are part of the name."""

    def read(tex: str) -> Iterator[Cell]:
        heading = ""
        for cells in rows(block(tex, label)):
            if r"\multicolumn" in cells[0]:
                heading = plain(re.sub(r"\\multicolumn\{\d+\}\{\w\}", "", cells[0])).split(" (")[0] if headings else ""
                continue
            name = " / ".join(plain(cell) for cell in ([heading] if heading else []) + cells[:keys])
            yield from cells_of(table, name, cells[keys:], columns, n)

    return read


def cells_of(table: str, row: str, raw: list[str], columns: list[Kind], n: str, note: str = "") -> Iterator[Cell]:
    for kind, tex in zip(columns, raw, strict=True):
        for column, value, std, mark in kind(tex):
            yield Cell(table, row, column, value, std, n, "; ".join(part for part in (mark, note) if part))


def counted(table: str, label: str, columns: list[Kind], *, keys: int) -> Callable[[str], Iterator[Cell]]:
    """As `simple`, but the cell after the keys is the number of seeds."""

    def read(tex: str) -> Iterator[Cell]:
        for cells in rows(block(tex, label)):
            if r"\multicolumn" not in cells[0]:
                name = " / ".join(plain(cell) for cell in cells[:keys])
                yield from cells_of(table, name, cells[keys + 1 :], columns, plain(cells[keys]))

    return read


def gap_robustness(tex: str) -> Iterator[Cell]:
    """Printed with statistics as rows; turned so that the columns bear the names of the other gap tables."""
    kinds = [
        number("Max gap"),
        interval("Max gap"),
        number("Wt. gap"),
        interval("Wt. gap"),
        number("Perm. p"),
        number("Shared bins"),
        SUPPORT,
    ]
    found = []
    for kind, cells in zip(kinds, rows(block(tex, "tab:gap-robustness")), strict=True):
        for variant, raw in zip(("Block-AR", "Full-AR"), cells[1:3], strict=True):
            found += list(cells_of("gap_robustness", variant, [raw], [kind], "1"))
    yield from sorted(found, key=lambda cell: cell.row)


def per_seed(tex: str) -> Iterator[Cell]:
    columns = [number("Acc@1"), number("Max gap"), number("Wt. gap"), interval("Wt. gap"), BINS, SUPPORT]
    columns += [number("Perm. p"), text("Rejects")]
    for cells in rows(block(tex, "tab:perseed-swin-c10-diagnostic")):
        yield from cells_of(
            "per_seed_diagnostics", f"{plain(cells[0])} / seed {plain(cells[1])}", cells[2:], columns, "1"
        )


def ar_sweep(tex: str) -> Iterator[Cell]:
    columns = [number("Max gap"), number("Wt. gap"), several("Perm. p", "Rejections", "Runs tested")]
    substrate = ""
    for cells in rows(block(tex, "tab:ar-sweep")):
        substrate = plain(re.sub(r"\\multirow\{\d\}\{\*\}", "", cells[0])) or substrate
        name = f"{substrate} / {plain(cells[1])}"
        yield from cells_of("ar_sweep", name, cells[3:], columns, plain(cells[2]), footnotes(cells[1]))


CELL_TABLES = {
    "Full-AR --- Swin-Tiny / CIFAR-10": "calibration_swin_c10_full",
    "Block-AR --- DeiT-Small / CIFAR-10": "calibration_deit_c10_block",
    "Full-AR --- DeiT-Small / CIFAR-10": "calibration_deit_c10_full",
    "Block-AR --- Swin-Tiny / CIFAR-100": "calibration_swin_c100_block",
    "Block-AR --- DeiT-Small / CIFAR-100": "calibration_deit_c100_block",
    "Full-AR --- DeiT-Small / CIFAR-100": "calibration_deit_c100_full",
    "Full-AR --- Swin-Tiny / CIFAR-100": "calibration_swin_c100_full",
}
CALIBRATION = [number(name) for name in ("ECE", "AdaECE", "NLL", "Brier", "Worst-tertile ECE")]


def per_cell(tex: str) -> Iterator[Cell]:
    table = ""
    for cells in rows(block(tex, "tab:cal-per-cell-combined")):
        if r"\multicolumn" in cells[0]:
            table = CELL_TABLES[plain(cells[0].split("}", 3)[-1]).split(". ", 1)[-1]]
        else:
            yield from cells_of(table, plain(cells[0]), cells[1:], CALIBRATION, "3")


def bandwidth(tex: str) -> Iterator[Cell]:
    columns = [text("Selection"), number("Global ECE"), number("Worst-tertile ECE"), number("NLL")]
    for cells in rows(block(tex, "tab:bw-sensitivity")):
        yield from cells_of("bandwidth", plain(cells[0]), cells[1:], columns, "8")


VIT_HEADLINE = [
    number(f"{cell} {metric}")
    for cell in ("c100 Full-AR", "tin Full-AR", "tin Block-AR")
    for metric in ("ECE", "AdaECE", "Worst-tertile ECE")
]


AUDIT_ROWS = [
    ("Fine-tuned ViT-B/16 suite", ["ViT patch", "Cells"]),
    (
        "Scratch small-ViT suite",
        ["Cells available", "Cells in the grid", "CIFAR classes", "ECE band low", "ECE band high"],
    ),
    (
        "Block sizes, scratch small ViT on CIFAR-100",
        ["Top-k", "Acc@1", "ECE at block size 1", "Smaller block size", "ECE at block size 3", "Larger block size"],
    ),
    (
        "Random calibration splits, DeiT-Tiny on CIFAR-100",
        [
            "Splits",
            "Rank",
            "BBQ rank-1 splits",
            "Splits (BBQ)",
            "AR-CondCal rank-1 splits",
            "Splits (AR-CondCal)",
            "AR-CondCal mean ECE",
            "BBQ mean ECE",
        ],
    ),
    ("Bootstrap on Block-AR cells", ["Cells", "CI level (%)", "Logit-norm beyond noise, cells", "Cells compared"]),
    (
        "Cross-cell ranking",
        [
            "Cells",
            "Split seed",
            "Rank",
            "BBQ rank-1 (%)",
            "AR-CondCal rank-1 (%)",
            "HB rank-1 (%)",
            "Conf-only rank-1 (%)",
        ],
    ),
    ("Block-AR against Full-AR, paired cells", ["Paired cells"]),
    (
        "Routing on top of logit-norm",
        [
            "Cells",
            "Cells with worse ECE",
            "Cells (ECE)",
            "Cells with worse NLL and Brier",
            "Cells (NLL and Brier)",
            "Largest ECE gain",
            "Cells with better ECE",
            "Cells (better ECE)",
        ],
    ),
    ("Calibration-set size, DeiT-Tiny on CIFAR-100", ["TS plateau ECE", "AR-CondCal beats TS from"]),
]
# Numbers in these texts that are part of a name or repeat one beside them, and so are no data.
AUDIT_NAMES = {"ViT patch", "CIFAR classes", "Top-k", "Smaller block size", "Larger block size", "Rank", "CI level (%)"}
AUDIT_NAMES |= {"Split seed", "Splits (BBQ)", "Splits (AR-CondCal)", "Cells (ECE)", "Cells (NLL and Brier)"}
AUDIT_NAMES |= {"Cells (better ECE)", "Cells compared"}


def external_audit(tex: str) -> Iterator[Cell]:
    """Printed as sentences; only their numbers are data. Row and column names are ours, in the printed order."""
    for (name, columns), cells in zip(AUDIT_ROWS, rows(block(tex, "tab:ext-robustness-compressed")), strict=True):
        sentence = " ".join(cells)
        for noise in (
            r"DeiT-Tiny FT C100",
            r"scratch C100",
            r"ViT-B/\$16\$ claim",
            r"\$1\$-D",
            r"Fig\.~\\ref\{[^}]*\}",
        ):
            sentence = re.sub(noise, "", sentence)
        found = numbers(re.sub(r"bl(\d)", r"bl \1", sentence.replace("CIFAR-100", "CIFAR 100")))
        assert len(found) == len(columns), (name, found)
        for column, value in zip(columns, found, strict=True):
            if column not in AUDIT_NAMES:
                yield Cell("external_audit", name, column, value)


def ablation_plan(tex: str) -> Iterator[Cell]:
    """One row of text; the block sizes it lists and the three numbers it quotes."""
    (cells,) = rows(block(tex, "tab:ablation-plan"))
    row = " / ".join(plain(cell) for cell in cells[:3])
    yield Cell("ablation_plan", row, "Values", plain(cells[3]))
    quoted = [found for found in numbers(re.sub(r"\\ref\{[^}]*\}", "", cells[4])) if "." in found]
    names = ["Raw worst-tertile ECE at b2", "Raw worst-tertile ECE near b4/b6", "Raw worst-tertile ECE of Full-AR"]
    for column, value in zip(names, quoted, strict=True):
        yield Cell("ablation_plan", row, column, value)
    yield Cell("ablation_plan", row, "Status", plain(cells[5]))


def naive_probe(tex: str) -> Iterator[Cell]:
    columns = [number(name) for name in ("Conf-only (linear) R²", "Full (linear) R²", "Full (MLP) R²")]
    for cells in rows(block(tex, "tab:routing-probe")):
        yield from cells_of("naive_probe", f"{plain(cells[0])} / {plain(cells[1])}", cells[2:], columns, "1")


METRIC4 = [number(name) for name in ("Acc@1", "ECE", "NLL", "Brier")]
READERS: list[Callable[[str], Iterator[Cell]]] = [
    simple(
        "parameter_overhead",
        "tab:overhead-params",
        [number(name) for name in ("Baseline", "Full-AR", "Block-AR", "Δ params", "Δ (%)")],
    ),
    simple(
        "matched_gap",
        "tab:phenomenon",
        [
            number("Max gap"),
            number("Wt. gap"),
            interval("Wt. gap"),
            BINS,
            SUPPORT,
            number("Null q.975"),
            number("Perm. p"),
        ],
        n="1",
    ),
    simple("calibration", "tab:calibration_block_ar", [*CALIBRATION, number("ΔAcc@1 (%)")], n="3"),
    simple(
        "supplementary_metrics",
        "tab:cwece-supp",
        [number(name) for name in ("MCE", "Classwise ECE", "SmoothECE")],
        n="3",
    ),
    simple("paired_deltas", "tab:paired-delta", [number("ΔNLL"), number("ΔBrier")], n="3"),
    per_cell,
    gap_robustness,
    per_seed,
    bandwidth,
    simple("probe_sanity", "tab:probe-sanity", [text("Input"), number("R²")], n="18"),
    naive_probe,
    simple(
        "feature_ablation",
        "tab:feature_ablation",
        [number(name) for name in ("Block-AR ECE", "Full-AR ECE", "Δ vs Conf-only", "Δ vs Conf+PE")],
        n="1",
        headings=True,
    ),
    simple(
        "feature_ablation_vit",
        "tab:feature-ablation-vit",
        [number(name) for name in ("c10-Full", "c100-Full", "tin-Block", "tin-Full")],
        n="1",
    ),
    simple("vit_headline", "tab:vit-cross-arch-headline", VIT_HEADLINE, n="1"),
    counted("raw_summary", "tab:seed-variance-raw", METRIC4, keys=1),
    counted("replication_summary", "tab:replication-summary", METRIC4, keys=3),
    ar_sweep,
    ablation_plan,
    counted(
        "block_sizes",
        "tab:blocksize-ablation",
        [number(name) for name in ("Raw ECE", "Raw worst-tertile ECE", "AR-CondCal worst-tertile ECE")],
        keys=1,
    ),
    simple("external_finetune", "tab:external-ft-vit-b16", METRIC4, keys=2, n="1"),
    simple("external_scratch", "tab:external-scr-vit", METRIC4, keys=2, n="1"),
    external_audit,
    simple(
        "vanilla_backbones",
        "app:generality-vanilla",
        [number(name) for name in ("Acc@1", "ECE", "Conf-only R²", "MLP R²", "Uplift")],
        n="1",
    ),
]


def read_tables(tex: str) -> dict[str, list[Cell]]:
    """Every table of the paper by our name for it, cells in printed order."""
    tables: dict[str, list[Cell]] = {}
    for reader in READERS:
        for cell in reader(tex):
            tables.setdefault(cell.table, []).append(cell)
    return tables


def main(source: str, directory: str) -> None:
    for name, cells in read_tables(Path(source).read_text(encoding="utf-8")).items():
        with (Path(directory) / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(FIELDS)
            writer.writerows(cells)


if __name__ == "__main__":
    main(*sys.argv[1:])
