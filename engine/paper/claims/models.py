"""Claims about the models before calibration and about the external runs."""

from __future__ import annotations

from functools import partial

from engine.paper.claims.compare import bands_overlap, mean_and_std, repeats, show, within_band
from engine.paper.claims.registry import CELLS, RAW, SEED_ROWS, Finding, Paper, Topic, all_of, decide
from engine.paper.claims.rounding import Rounded

RAW_MODELS = Topic("Models before calibration")

_SUMMARY, _RAW_LABEL, _ALL, _ALL_LABEL = (
    "raw_summary",
    "tab:seed-variance-raw",
    "replication_summary",
    "tab:replication-summary",
)
_SEEDS = "per_seed_diagnostics"
_METRICS = ("Acc@1", "ECE", "NLL", "Brier")


@RAW_MODELS.claim("The Swin-Tiny CIFAR-10 rows of the two raw summaries are the same", _ALL_LABEL)
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
    RAW_MODELS.register(
        f"raw_{_cell.lower().replace(' / ', '_').replace('-', '')}",
        f"Raw metrics of {_cell}: summary and calibration table",
        _ALL_LABEL,
        partial(_raw_row, _table),
    )


def _accuracy(variant: str, paper: Paper) -> Finding:
    values = [paper.value(_SEEDS, row, "Acc@1") for row in SEED_ROWS[variant]]
    return mean_and_std(paper, _SUMMARY, variant, "Acc@1", values, "three seeds of tab:perseed-swin-c10-diagnostic")


for _variant in SEED_ROWS:
    RAW_MODELS.register(
        f"raw_accuracy_{_variant[:-3].lower()}",
        f"Accuracy of Swin-Tiny / CIFAR-10 / {_variant}: mean and standard deviation of its three seeds",
        _RAW_LABEL,
        partial(_accuracy, _variant),
    )


@RAW_MODELS.claim("One seed of Swin-Tiny is near 0.76 accuracy, the other two near 0.92", _RAW_LABEL)
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


@RAW_MODELS.claim(
    "Mean accuracies of the three Swin-Tiny variants lie within each other's standard deviations", _RAW_LABEL
)
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


@RAW_MODELS.claim(
    "Raw ECE of DrLoc lies within the seed band of the Baseline on both backbones and data sets", _ALL_LABEL
)
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


@RAW_MODELS.claim("Accuracies of the two ViT-B/16 pilots", "app:cross-arch-multiseed")
def vit_pilot_accuracy(paper: Paper) -> Finding:
    quotes = [("ViT pilot accuracy", variant, _ALL, f"ViT-B/16 / C-10 / {variant}", "Acc@1") for variant in SEED_ROWS]
    return repeats(paper, quotes, "against tab:replication-summary")


@RAW_MODELS.claim("Last-epochs ensembles raise the worst-tertile ECE on both data sets", "fig:temporal-ensemble")
def temporal_ensemble(paper: Paper) -> Finding:
    changes = [paper.said("temporal ensemble", data).value for data in ("CIFAR-10", "CIFAR-100")]
    return Finding(
        ", ".join(f"{change:+.4f}" for change in changes), "", "not checkable", "the figure's numbers are in no table"
    )


EXTERNAL = Topic("External runs")

_AUDIT, _EXTERNAL_LABEL = "external_audit", "tab:ext-robustness-compressed"
_SCRATCH, _FINETUNE = "external_scratch", "external_finetune"
_SUITE, _RANKS, _SPLITS = (
    "Scratch small-ViT suite",
    "Cross-cell ranking",
    "Random calibration splits, DeiT-Tiny on CIFAR-100",
)
_LIFT, _BLOCKS = "Routing on top of logit-norm", "Block sizes, scratch small ViT on CIFAR-100"


def _band(paper: Paper, low: Rounded, high: Rounded, data_sets: tuple[str, ...]) -> Finding:
    rows = [row for row in paper.rows(_SCRATCH) if row.split(" / ")[1] in data_sets and paper.has(_SCRATCH, row, "ECE")]
    values = {row: paper.value(_SCRATCH, row, "ECE") for row in rows}
    outside = [row for row, value in values.items() if value.surely_below(low) or high.surely_below(value)]
    found = [value.value for value in values.values()]
    return decide(
        not outside,
        f"[{show(low, 3)}, {show(high, 3)}]",
        f"{min(found):.4f} to {max(found):.4f}" + (f"; outside: {', '.join(outside)}" if outside else ""),
        f"ECE column of tab:external-scr-vit, {' and '.join(data_sets)}",
    )


@EXTERNAL.claim("ECE band of the scratch small-ViT suite, as the text says", "app:external")
def scratch_band_text(paper: Paper) -> Finding:
    low, high = (paper.said("scratch suite ECE band", end) for end in ("low", "high"))
    return _band(paper, low, high, ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet"))


@EXTERNAL.claim("ECE band of the scratch small-ViT suite on CIFAR-100 and Tiny-ImageNet", _EXTERNAL_LABEL)
def scratch_band_table(paper: Paper) -> Finding:
    low, high = (paper.value(_AUDIT, _SUITE, f"ECE band {end}") for end in ("low", "high"))
    return _band(paper, low, high, ("CIFAR-100", "Tiny-ImageNet"))


def _available(table: str, paper: Paper) -> tuple[int, int]:
    rows = paper.rows(table)
    return sum(paper.has(table, row, "ECE") for row in rows), len(rows)


@EXTERNAL.claim("Number of cells of the scratch small-ViT suite that are available", _EXTERNAL_LABEL)
def scratch_cells(paper: Paper) -> Finding:
    stated = paper.count(_AUDIT, _SUITE, "Cells available"), paper.count(_AUDIT, _SUITE, "Cells in the grid")
    found = _available(_SCRATCH, paper)
    return decide(
        stated == found,
        f"{stated[0]} of {stated[1]}",
        f"{found[0]} of {found[1]}",
        "rows of tab:external-scr-vit with numbers",
    )


@EXTERNAL.claim("Number of cells of the fine-tuned suite", _EXTERNAL_LABEL)
def finetune_cells(paper: Paper) -> Finding:
    stated, found = paper.count(_AUDIT, "Fine-tuned ViT-B/16 suite", "Cells"), _available(_FINETUNE, paper)[0]
    return decide(stated == found, str(stated), str(found), "rows of tab:external-ft-vit-b16 with numbers")


@EXTERNAL.claim("Number of stress tests on the external runs", "app:external")
def stress_tests(paper: Paper) -> Finding:
    stated, found = paper.said_count("external stress tests"), len(paper.rows(_AUDIT))
    return decide(stated == found, str(stated), str(found), "rows of tab:ext-robustness-compressed")


@EXTERNAL.claim("Rank-1 shares are whole numbers of the 40 external cells", _EXTERNAL_LABEL)
def rank_one_shares(paper: Paper) -> Finding:
    cells = paper.count(_AUDIT, _RANKS, "Cells")
    shares = {
        column: paper.value(_AUDIT, _RANKS, column) for column in paper.columns(_AUDIT) if column.endswith("rank-1 (%)")
    }
    counts = {column: share.value / 100 * cells for column, share in shares.items()}
    whole = all(
        share.low * cells / 100 - 1e-9 <= round(counts[column]) <= share.high * cells / 100 + 1e-9
        for column, share in shares.items()
    )
    total = sum(counts.values())
    return decide(
        whole and total <= cells,
        ", ".join(f"{share.value:g} %" for share in shares.values()),
        ", ".join(f"{count:g}" for count in counts.values()) + f" of {cells}",
        "share times cells; together no more than all cells",
    )


@EXTERNAL.claim("BBQ and AR-CondCal together are best on no more splits than there are", _EXTERNAL_LABEL)
def split_winners(paper: Paper) -> Finding:
    splits = paper.count(_AUDIT, _SPLITS, "Splits")
    wins = [paper.count(_AUDIT, _SPLITS, f"{method} rank-1 splits") for method in ("BBQ", "AR-CondCal")]
    better = paper.value(_AUDIT, _SPLITS, "BBQ mean ECE").surely_below(
        paper.value(_AUDIT, _SPLITS, "AR-CondCal mean ECE")
    )
    return decide(
        sum(wins) <= splits and better == (wins[0] > wins[1]),
        f"{wins[0]} and {wins[1]} of {splits}",
        f"{sum(wins)} of {splits}; {'BBQ' if better else 'AR-CondCal'} has the lower mean ECE",
        "counts, and the method that wins more often has the lower mean",
    )


@EXTERNAL.claim("Cells where routing hurts and where it helps add up", _EXTERNAL_LABEL)
def lift_counts(paper: Paper) -> Finding:
    cells = paper.count(_AUDIT, _LIFT, "Cells")
    worse, better = (paper.count(_AUDIT, _LIFT, f"Cells with {word} ECE") for word in ("worse", "better"))
    return decide(
        worse + better == cells, f"{worse} and {better} of {cells}", f"{worse + better} of {cells}", "sum of the two"
    )


@EXTERNAL.claim("No order of the variants by ECE holds on all data sets of the fine-tuned suite", _EXTERNAL_LABEL)
def no_variant_order(paper: Paper) -> Finding:
    orders = {}
    for data in ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet"):
        rows = [row for row in paper.rows(_FINETUNE) if row.endswith(f" / {data}")]
        ranked = sorted(rows, key=lambda row: paper.value(_FINETUNE, row, "ECE").value)
        orders[data] = " < ".join(row.split(" / ")[0] for row in ranked)
    found = "; ".join(f"{data}: {order}" for data, order in orders.items())
    return decide(len(set(orders.values())) > 1, "no consistent order", found, "ECE column of tab:external-ft-vit-b16")


@EXTERNAL.claim(
    "The tabulated small ViT with Block-AR on CIFAR-100 fits the range of the block-size runs", _EXTERNAL_LABEL
)
def external_block_sizes(paper: Paper) -> Finding:
    row = "Block-AR / CIFAR-100"
    accuracy, ece = paper.value(_SCRATCH, row, "Acc@1"), paper.value(_SCRATCH, row, "ECE")
    low, high = (paper.value(_AUDIT, _BLOCKS, f"ECE at block size {size}") for size in (3, 1))
    parts = [
        ("accuracy", accuracy.may_equal(paper.value(_AUDIT, _BLOCKS, "Acc@1"))),
        ("ECE inside the range", low.may_be_at_most(ece) and ece.may_be_at_most(high)),
    ]
    stated = f"accuracy {show(paper.value(_AUDIT, _BLOCKS, 'Acc@1'), 3)}, ECE {show(high, 3)} to {show(low, 3)}"
    return all_of(parts, stated, f"tab:external-scr-vit: accuracy {show(accuracy, 3)}, ECE {show(ece, 4)}")
