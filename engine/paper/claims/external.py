"""Claims about the external runs."""

from __future__ import annotations

from engine.paper.claims.compare import show
from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide
from engine.paper.claims.rounding import Rounded

TOPIC = Topic("External runs")

_AUDIT, _LABEL = "external_audit", "tab:ext-robustness-compressed"
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


@TOPIC.claim("ECE band of the scratch small-ViT suite, as the text says", "app:external")
def scratch_band_text(paper: Paper) -> Finding:
    low, high = (paper.said("scratch suite ECE band", end) for end in ("low", "high"))
    return _band(paper, low, high, ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet"))


@TOPIC.claim("ECE band of the scratch small-ViT suite on CIFAR-100 and Tiny-ImageNet", _LABEL)
def scratch_band_table(paper: Paper) -> Finding:
    low, high = (paper.value(_AUDIT, _SUITE, f"ECE band {end}") for end in ("low", "high"))
    return _band(paper, low, high, ("CIFAR-100", "Tiny-ImageNet"))


def _available(table: str, paper: Paper) -> tuple[int, int]:
    rows = paper.rows(table)
    return sum(paper.has(table, row, "ECE") for row in rows), len(rows)


@TOPIC.claim("Number of cells of the scratch small-ViT suite that are available", _LABEL)
def scratch_cells(paper: Paper) -> Finding:
    stated = paper.count(_AUDIT, _SUITE, "Cells available"), paper.count(_AUDIT, _SUITE, "Cells in the grid")
    found = _available(_SCRATCH, paper)
    return decide(
        stated == found,
        f"{stated[0]} of {stated[1]}",
        f"{found[0]} of {found[1]}",
        "rows of tab:external-scr-vit with numbers",
    )


@TOPIC.claim("Number of cells of the fine-tuned suite", _LABEL)
def finetune_cells(paper: Paper) -> Finding:
    stated, found = paper.count(_AUDIT, "Fine-tuned ViT-B/16 suite", "Cells"), _available(_FINETUNE, paper)[0]
    return decide(stated == found, str(stated), str(found), "rows of tab:external-ft-vit-b16 with numbers")


@TOPIC.claim("Number of stress tests on the external runs", "app:external")
def stress_tests(paper: Paper) -> Finding:
    stated, found = paper.said_count("external stress tests"), len(paper.rows(_AUDIT))
    return decide(stated == found, str(stated), str(found), "rows of tab:ext-robustness-compressed")


@TOPIC.claim("Rank-1 shares are whole numbers of the 40 external cells", _LABEL)
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


@TOPIC.claim("BBQ and AR-CondCal together are best on no more splits than there are", _LABEL)
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


@TOPIC.claim("Cells where routing hurts and where it helps add up", _LABEL)
def lift_counts(paper: Paper) -> Finding:
    cells = paper.count(_AUDIT, _LIFT, "Cells")
    worse, better = (paper.count(_AUDIT, _LIFT, f"Cells with {word} ECE") for word in ("worse", "better"))
    return decide(
        worse + better == cells, f"{worse} and {better} of {cells}", f"{worse + better} of {cells}", "sum of the two"
    )


@TOPIC.claim("No order of the variants by ECE holds on all data sets of the fine-tuned suite", _LABEL)
def no_variant_order(paper: Paper) -> Finding:
    orders = {}
    for data in ("CIFAR-10", "CIFAR-100", "Tiny-ImageNet"):
        rows = [row for row in paper.rows(_FINETUNE) if row.endswith(f" / {data}")]
        ranked = sorted(rows, key=lambda row: paper.value(_FINETUNE, row, "ECE").value)
        orders[data] = " < ".join(row.split(" / ")[0] for row in ranked)
    found = "; ".join(f"{data}: {order}" for data, order in orders.items())
    return decide(len(set(orders.values())) > 1, "no consistent order", found, "ECE column of tab:external-ft-vit-b16")


@TOPIC.claim("The tabulated small ViT with Block-AR on CIFAR-100 fits the range of the block-size runs", _LABEL)
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
