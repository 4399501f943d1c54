"""Claims about the models before calibration."""

from __future__ import annotations

from functools import partial

from engine.paper.claims.compare import bands_overlap, mean_and_std, repeats, show, within_band
from engine.paper.claims.names import CELLS, RAW, SEED_ROWS
from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide

TOPIC = Topic("Models before calibration")

_SUMMARY, _LABEL, _ALL, _ALL_LABEL = (
    "raw_summary",
    "tab:seed-variance-raw",
    "replication_summary",
    "tab:replication-summary",
)
_SEEDS = "per_seed_diagnostics"
_METRICS = ("Acc@1", "ECE", "NLL", "Brier")


@TOPIC.claim("The Swin-Tiny CIFAR-10 rows of the two raw summaries are the same", _ALL_LABEL)
def raw_summaries_agree(paper: Paper) -> Finding:
    parts = []
    for row in paper.rows(_SUMMARY):
        other = f"Swin-Tiny / C-10 / {row}"
        for metric in _METRICS:
            same = paper.value(_SUMMARY, row, metric).may_equal(paper.value(_ALL, other, metric))
            same &= paper.std(_SUMMARY, row, metric).may_equal(paper.std(_ALL, other, metric))
            parts.append((f"{row} {metric}", same))
    return all_of(parts, f"{len(parts)} cells", "mean and standard deviation, tab:seed-variance-raw")


def _raw_row(table: str, paper: Paper) -> Finding:
    row = CELLS[table]
    parts = []
    for metric in ("ECE", "NLL", "Brier"):
        here, there = paper.cell(_ALL, row, metric), paper.cell(table, RAW, metric)
        same = paper.value(_ALL, row, metric).may_equal(paper.value(table, RAW, metric))
        if there.printed_std:
            same &= paper.std(_ALL, row, metric).may_equal(paper.std(table, RAW, metric))
        parts.append((f"{metric} {here.printed} beside {there.printed}", same))
    stated = ", ".join(f"{metric} {paper.cell(_ALL, row, metric).printed}" for metric in ("ECE", "NLL", "Brier"))
    return all_of(parts, stated, f"uncalibrated row of the table {table}, same seeds and half")


for _table, _cell in CELLS.items():
    TOPIC.register(
        f"raw_{_cell.lower().replace(' / ', '_').replace('-', '')}",
        f"Raw metrics of {_cell}: summary and calibration table",
        _ALL_LABEL,
        partial(_raw_row, _table),
    )


def _accuracy(variant: str, paper: Paper) -> Finding:
    values = [paper.value(_SEEDS, row, "Acc@1") for row in SEED_ROWS[variant]]
    return mean_and_std(paper, _SUMMARY, variant, "Acc@1", values, "three seeds of tab:perseed-swin-c10-diagnostic")


for _variant in SEED_ROWS:
    TOPIC.register(
        f"raw_accuracy_{_variant[:-3].lower()}",
        f"Accuracy of Swin-Tiny / CIFAR-10 / {_variant}: mean and standard deviation of its three seeds",
        _LABEL,
        partial(_accuracy, _variant),
    )


@TOPIC.claim("One seed of Swin-Tiny is near 0.76 accuracy, the other two near 0.92", _LABEL)
def low_accuracy_seed(paper: Paper) -> Finding:
    low, others = paper.said("low-accuracy seed", "low"), paper.said("low-accuracy seed", "others")
    found = {
        variant: sorted((paper.value(_SEEDS, row, "Acc@1") for row in rows), key=lambda value: value.value)
        for variant, rows in SEED_ROWS.items()
    }

    def near(variant: str) -> bool:
        # "About" is read as within 0.01.
        said = [low, others, others]
        return all(abs(value - text).fits_within(0.01) for value, text in zip(found[variant], said, strict=True))

    listed = "; ".join(
        f"{variant}: {', '.join(show(value, 3) for value in values)}" for variant, values in found.items()
    )
    return decide(
        any(near(variant) for variant in found),
        f"about {show(low, 2)} and {show(others, 2)}",
        listed,
        "tab:perseed-swin-c10-diagnostic; within 0.01 in either variant would do (Baseline seeds are not listed)",
    )


@TOPIC.claim("Mean accuracies of the three Swin-Tiny variants lie within each other's standard deviations", _LABEL)
def accuracies_indistinguishable(paper: Paper) -> Finding:
    rows = paper.rows(_SUMMARY)
    parts = [
        (
            f"{one} in the band of {other}",
            within_band(
                paper.value(_SUMMARY, one, "Acc@1"),
                paper.value(_SUMMARY, other, "Acc@1"),
                paper.std(_SUMMARY, other, "Acc@1"),
            ),
        )
        for one in rows
        for other in rows
        if one != other
    ]
    return all_of(parts, "indistinguishable", "mean against mean ± std of the other variants")


@TOPIC.claim("Raw ECE of DrLoc lies within the seed band of the Baseline on both backbones and data sets", _ALL_LABEL)
def drloc_in_baseline_band(paper: Paper) -> Finding:
    inside, overlapping, cells = [], 0, []
    for backbone in ("Swin-Tiny", "DeiT-Small"):
        for data in ("C-10", "C-100"):
            drloc, baseline = (
                (paper.value(_ALL, row, "ECE"), paper.std(_ALL, row, "ECE"))
                for row in (f"{backbone} / {data} / DrLoc", f"{backbone} / {data} / Baseline")
            )
            cells.append(f"{backbone} / {data}")
            overlapping += bands_overlap(drloc, baseline)
            if within_band(drloc[0], *baseline):
                inside.append(cells[-1])
    outside = [cell for cell in cells if cell not in inside]
    return decide(
        not outside,
        "within the band",
        f"inside in {len(inside)} of {len(cells)}"
        + (f" (not {', '.join(outside)})" if outside else "")
        + f"; the two bands may overlap in {overlapping}",
        "DrLoc mean against Baseline mean ± std",
    )


@TOPIC.claim("Accuracies of the two ViT-B/16 pilots", "app:cross-arch-multiseed")
def vit_pilot_accuracy(paper: Paper) -> Finding:
    quotes = [("ViT pilot accuracy", variant, _ALL, f"ViT-B/16 / C-10 / {variant}", "Acc@1") for variant in SEED_ROWS]
    return repeats(paper, quotes, "against tab:replication-summary")


@TOPIC.claim("Last-epochs ensembles raise the worst-tertile ECE on both data sets", "fig:temporal-ensemble")
def temporal_ensemble(paper: Paper) -> Finding:
    changes = [paper.said("temporal ensemble", data).value for data in ("CIFAR-10", "CIFAR-100")]
    return Finding(
        ", ".join(f"{change:+.4f}" for change in changes), "", "not checkable", "the figure's numbers are in no table"
    )
