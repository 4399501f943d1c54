"""Claims about the models before calibration and about the external runs."""

from functools import partial
from itertools import permutations

from engine.paper.claims.compare import bands_overlap, equal, repeats, same_count, show, within_band
from engine.paper.claims.registry import Finding, Paper, all_of, claim, decide, register
from engine.paper.claims.rounding import ordered
from engine.paper.claims.sweep import seeds_aggregated
from engine.paper.published import CELLS, RAW, SEED_ROWS, STATEMENTS

_SUMMARY, _SEEDS, _ALL = "raw_summary", "per_seed_diagnostics", "replication_summary"
_METRICS = ("Acc@1", "ECE", "NLL", "Brier")


@claim
def raw_summaries_agree(paper: Paper) -> Finding:
    parts = [
        (f"{row} {metric}", paper.agree((_SUMMARY, row, metric), (_ALL, f"Swin-Tiny / C-10 / {row}", metric)))
        for row in paper.rows(_SUMMARY)
        for metric in _METRICS
    ]
    return all_of(parts, f"{len(parts)} cells")


def _raw_row(paper: Paper, table: str) -> Finding:
    parts, printed = [], []
    for metric in _METRICS[1:]:
        here, there = (_ALL, CELLS[table], metric), (table, RAW, metric)
        printed.append(f"{metric} {paper.cell(*here).printed}")
        parts.append((f"{printed[-1]} beside {paper.cell(*there).printed}", paper.agree(there, here)))
    return all_of(parts, ", ".join(printed))


for _table, _cell in CELLS.items():
    register(f"raw_{_cell.lower().replace(' / ', '_').replace('-', '')}", _raw_row, _table)
for _variant in SEED_ROWS:
    register(f"raw_accuracy_{_variant[:-3].lower()}", seeds_aggregated, _SUMMARY, _variant, _variant, "Acc@1")


@claim
def low_accuracy_seed(paper: Paper) -> Finding:
    low, others = paper.said("low-accuracy seed", "low"), paper.said("low-accuracy seed", "others")
    found = {name: ordered(paper.numbers(_SEEDS, "Acc@1", rows).values()) for name, rows in SEED_ROWS.items()}
    # "About" is read as within 0.01.
    near = [
        all(abs(value - text).fits_within(0.01) for value, text in zip(values, (low, others, others), strict=True))
        for values in found.values()
    ]
    listed = "; ".join(f"{name}: {', '.join(show(value, 3) for value in values)}" for name, values in found.items())
    return decide(any(near), f"about {show(low, 2)} and {show(others, 2)}", listed)


@claim
def accuracies_indistinguishable(paper: Paper) -> Finding:
    bands = {row: paper.band(_SUMMARY, row, "Acc@1") for row in paper.rows(_SUMMARY)}
    parts = [
        (f"{one} in the band of {other}", within_band(bands[one][0], *bands[other]))
        for one, other in permutations(bands, 2)
    ]
    return all_of(parts, "indistinguishable")


@claim
def drloc_in_baseline_band(paper: Paper) -> Finding:
    cells = [f"{backbone} / {data}" for backbone in ("Swin-Tiny", "DeiT-Small") for data in ("C-10", "C-100")]
    outside, overlapping = [], 0
    for cell in cells:
        drloc, baseline = (paper.band(_ALL, f"{cell} / {variant}", "ECE") for variant in ("DrLoc", "Baseline"))
        overlapping += bands_overlap(drloc, baseline)
        if not within_band(drloc[0], *baseline):
            outside.append(cell)
    found = f"inside in {len(cells) - len(outside)} of {len(cells)}"
    found += (f" (not {', '.join(outside)})" if outside else "") + f"; the two bands may overlap in {overlapping}"
    return decide(not outside, "within the band", found)


register(
    "vit_pilot_accuracy",
    repeats,
    [("ViT pilot accuracy", variant, _ALL, f"ViT-B/16 / C-10 / {variant}", "Acc@1") for variant in SEED_ROWS],
)


@claim
def temporal_ensemble(paper: Paper) -> Finding:
    changes = [paper.said("temporal ensemble", data).value for data in ("CIFAR-10", "CIFAR-100")]
    stated = ", ".join(f"{change:+.4f}" for change in changes)
    return Finding(stated, "", "not checkable")


_DATA = ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet")
_AUDIT, _SCRATCH, _FINETUNE = "external_audit", "external_scratch", "external_finetune"
_SUITE, _TUNED, _RANKS = "Scratch small-ViT suite", "Fine-tuned ViT-B/16 suite", "Cross-cell ranking"
_SPLITS = "Random calibration splits, DeiT-Tiny on CIFAR-100"
_LIFT, _BLOCKS = "Routing on top of logit-norm", "Block sizes, scratch small ViT on CIFAR-100"


def _band(paper: Paper, source: str, row: str, column: str, data_sets: tuple[str, ...]) -> Finding:
    """The ECEs of some data sets lie inside the band that `source` gives."""
    low, high = (paper.value(source, row, f"{column}{end}") for end in ("low", "high"))
    rows = [row for row in paper.rows(_SCRATCH) if row.split(" / ")[1] in data_sets and paper.has(_SCRATCH, row, "ECE")]
    values = paper.numbers(_SCRATCH, "ECE", rows)
    outside = [row for row, value in values.items() if value.surely_below(low) or high.surely_below(value)]
    found = ordered(values.values())
    return decide(
        not outside,
        f"[{show(low, 3)}, {show(high, 3)}]",
        f"{show(found[0], 4)} to {show(found[-1], 4)}" + (f"; outside: {', '.join(outside)}" if outside else ""),
    )


register("scratch_band_text", _band, STATEMENTS, "scratch suite ECE band", "", _DATA)
register("scratch_band_table", _band, _AUDIT, _SUITE, "ECE band ", _DATA[1:])


def _available(table: str, paper: Paper) -> int:
    return sum(paper.has(table, row, "ECE") for row in paper.rows(table))


register(
    "scratch_cells",
    equal,
    lambda paper: " of ".join(str(paper.count(_AUDIT, _SUITE, f"Cells {of}")) for of in ("available", "in the grid")),
    lambda paper: f"{_available(_SCRATCH, paper)} of {len(paper.rows(_SCRATCH))}",
)
register("finetune_cells", equal, lambda paper: paper.count(_AUDIT, _TUNED, "Cells"), partial(_available, _FINETUNE))
register("stress_tests", same_count, "external stress tests", "value", lambda paper: len(paper.rows(_AUDIT)))


@claim
def rank_one_shares(paper: Paper) -> Finding:
    cells = paper.count(_AUDIT, _RANKS, "Cells")
    columns = [column for column in paper.columns(_AUDIT) if column.endswith("rank-1 (%)")]
    shares = [paper.value(_AUDIT, _RANKS, column) for column in columns]
    counts = [share.value / 100 * cells for share in shares]
    whole = all(
        share.low * cells / 100 - 1e-9 <= round(count) <= share.high * cells / 100 + 1e-9
        for share, count in zip(shares, counts, strict=True)
    )
    return decide(
        whole and sum(counts) <= cells,
        ", ".join(f"{share.value:g} %" for share in shares),
        ", ".join(f"{count:g}" for count in counts) + f" of {cells}",
    )


@claim
def split_winners(paper: Paper) -> Finding:
    splits = paper.count(_AUDIT, _SPLITS, "Splits")
    wins = [paper.count(_AUDIT, _SPLITS, f"{method} rank-1 splits") for method in ("BBQ", "AR-CondCal")]
    bbq, ours = (paper.value(_AUDIT, _SPLITS, f"{method} mean ECE") for method in ("BBQ", "AR-CondCal"))
    better = bbq.surely_below(ours)
    return decide(
        sum(wins) <= splits and better == (wins[0] > wins[1]),
        f"{wins[0]} and {wins[1]} of {splits}",
        f"{sum(wins)} of {splits}; {'BBQ' if better else 'AR-CondCal'} has the lower mean ECE",
    )


@claim
def lift_counts(paper: Paper) -> Finding:
    cells = paper.count(_AUDIT, _LIFT, "Cells")
    worse, better = (paper.count(_AUDIT, _LIFT, f"Cells with {word} ECE") for word in ("worse", "better"))
    stated, found = f"{worse} and {better} of {cells}", f"{worse + better} of {cells}"
    return decide(worse + better == cells, stated, found)


@claim
def no_variant_order(paper: Paper) -> Finding:
    orders = {}
    for data in _DATA:
        rows = [row for row in paper.rows(_FINETUNE) if row.endswith(f" / {data}")]
        ranked = sorted(rows, key=lambda row: paper.value(_FINETUNE, row, "ECE").value)
        orders[data] = " < ".join(row.split(" / ")[0] for row in ranked)
    found = "; ".join(f"{data}: {order}" for data, order in orders.items())
    return decide(len(set(orders.values())) > 1, "no consistent order", found)


@claim
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
