"""Claims about the second feature of the kernel calibrator."""

from __future__ import annotations

from functools import partial

from engine.paper.claims.compare import marks, same
from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide
from engine.paper.claims.rounding import Rounded

TOPIC = Topic("Second features")

_TABLE, _LABEL, _VIT, _VIT_LABEL = (
    "feature_ablation",
    "tab:feature_ablation",
    "feature_ablation_vit",
    "tab:feature-ablation-vit",
)
_HEADLINE, _HEADLINE_LABEL = "vit_headline", "tab:vit-cross-arch-headline"
_DATA = ("CIFAR-10", "CIFAR-100")
_CONTROLS = {"Δ vs Conf-only": "Confidence only", "Δ vs Conf+PE": "Predictive entropy"}
_RAW, _DEPTH = "Raw (no calibration)", "Depth-variance r_std"
_AGGREGATE, _CONCENTRATION = "Aggregate routing entropy r_agg", "Routing concentration 1-r_agg"
_ROUTING = (_AGGREGATE, _CONCENTRATION, "Last-layer routing entropy H_L", _DEPTH, "Routing entropy × confidence")


def _rows(paper: Paper, data: str) -> list[str]:
    return [row for row in paper.rows(_TABLE) if row.startswith(f"{data} / ")]


def _range(data: str, column: str, paper: Paper) -> Finding:
    values = sorted((paper.value(_TABLE, row, column) for row in _rows(paper, data)), key=lambda value: value.value)
    said = paper.said("feature range", f"{data} / {column}")
    return same(f"{said.value:.4f}", said, values[-1] - values[0], "largest minus smallest ECE of the seven features")


for _data in _DATA:
    for _column in ("Block-AR ECE", "Full-AR ECE"):
        TOPIC.register(
            f"feature_range_{_data.replace('CIFAR-', 'c')}_{_column[:-7].lower()}",
            f"Range of the ECE over seven second features, {_data} {_column[:-4]}",
            _LABEL,
            partial(_range, _data, _column),
        )


def _difference(column: str, paper: Paper) -> Finding:
    parts = []
    for data in _DATA:
        control = paper.value(_TABLE, f"{data} / {_CONTROLS[column]}", "Block-AR ECE")
        for row in _rows(paper, data):
            difference = control - paper.value(_TABLE, row, "Block-AR ECE")
            parts.append((row, paper.value(_TABLE, row, column).may_equal(difference)))
    return all_of(parts, f"{len(parts)} differences", "ECE of the control minus ECE of the row, Block-AR")


for _column, _control in _CONTROLS.items():
    TOPIC.register(
        f"feature_difference_{_control.split()[-1].lower()}",
        f"Column {_column} is the ECE of '{_control}' minus that of the row",
        _LABEL,
        partial(_difference, _column),
    )


def _winner(values: dict[str, Rounded]) -> str:
    return min(values, key=lambda row: values[row].value)


@TOPIC.claim("The best of the seven features changes between cells", _LABEL)
def winner_changes(paper: Paper) -> Finding:
    winners = {}
    for data in _DATA:
        for column in ("Block-AR ECE", "Full-AR ECE"):
            best = _winner({row: paper.value(_TABLE, row, column) for row in _rows(paper, data)})
            winners[f"{data} {column[:-4]}"] = best.split(" / ", 1)[1]
    found = "; ".join(f"{cell}: {feature}" for cell, feature in winners.items())
    return decide(len(set(winners.values())) > 1, "changes", found, "lowest ECE of each column")


@TOPIC.claim("r_agg and 1 - r_agg give the same calibrator", _LABEL)
def concentration_mirrors_aggregate(paper: Paper) -> Finding:
    parts = [
        (
            f"{data} {column}",
            paper.value(_TABLE, f"{data} / {_AGGREGATE}", column)
            == paper.value(_TABLE, f"{data} / {_CONCENTRATION}", column),
        )
        for data in _DATA
        for column in paper.columns(_TABLE)
    ]
    parts += [
        (f"ViT-B/16 {column}", paper.value(_VIT, _AGGREGATE, column) == paper.value(_VIT, _CONCENTRATION, column))
        for column in paper.columns(_VIT)
    ]
    return all_of(parts, "equal rows", "a mirrored axis leaves a Gaussian kernel unchanged")


@TOPIC.claim("No routing feature beats confidence alone by more than 0.004 ECE on ViT-B/16", _VIT_LABEL)
def vit_gain_is_small(paper: Paper) -> Finding:
    limit = paper.said("ViT feature gain", "at most").value
    gains = {
        (column, row): paper.value(_VIT, "Confidence only", column) - paper.value(_VIT, row, column)
        for column in paper.columns(_VIT)
        for row in _ROUTING
    }
    largest = max(gains, key=lambda key: gains[key].value)
    return decide(
        all(gain.fits_within(limit) for gain in gains.values()),
        f"at most {limit:g}",
        f"{gains[largest].value:.4f} ({largest[1]}, {largest[0]})",
        "ECE of confidence only minus ECE of each routing feature",
    )


@TOPIC.claim("Bold numbers of the ViT-B/16 ablation are the lowest of their columns", _VIT_LABEL)
def vit_ablation_marks(paper: Paper) -> Finding:
    return marks(paper, _VIT, paper.columns(_VIT), skip={_RAW})


@TOPIC.claim("Depth variance is not consistently the best feature on ViT-B/16", "app:cross-arch-multiseed")
def depth_variance_does_not_win(paper: Paper) -> Finding:
    columns = paper.columns(_VIT)
    wins = 0
    for column in columns:
        wins += _winner({row: paper.value(_VIT, row, column) for row in paper.rows(_VIT) if row != _RAW}) == _DEPTH
    return decide(
        wins < len(columns), "not consistently", f"best on {wins} of {len(columns)}", "lowest ECE of each column"
    )


@TOPIC.claim("Bold and underlined numbers of the ViT-B/16 headline table are the best and second best", _HEADLINE_LABEL)
def vit_headline_marks(paper: Paper) -> Finding:
    return marks(paper, _HEADLINE, paper.columns(_HEADLINE), skip=())


@TOPIC.claim(
    "ECE of AR-CondCal in the ViT-B/16 headline table is that of depth variance in the ablation", _HEADLINE_LABEL
)
def vit_tables_agree(paper: Paper) -> Finding:
    pairs = {"c100 Full-AR ECE": "c100-Full", "tin Full-AR ECE": "tin-Full", "tin Block-AR ECE": "tin-Block"}
    parts = [
        (headline, paper.value(_HEADLINE, "AR-CondCal", headline).may_equal(paper.value(_VIT, _DEPTH, ablation)))
        for headline, ablation in pairs.items()
    ]
    stated = ", ".join(paper.cell(_HEADLINE, "AR-CondCal", headline).printed for headline in pairs)
    return all_of(parts, stated, "three decimals against the four of tab:feature-ablation-vit")


@TOPIC.claim("Raw ECE of ViT-B/16 Full-AR on CIFAR-10: ablation and raw summary", _VIT_LABEL)
def vit_raw_ece(paper: Paper) -> Finding:
    found = paper.value("replication_summary", "ViT-B/16 / C-10 / Full-AR", "ECE")
    stated = paper.cell(_VIT, _RAW, "c10-Full").printed
    return decide(
        paper.value(_VIT, _RAW, "c10-Full").may_equal(found),
        stated,
        f"{found.value:.3f}",
        "against tab:replication-summary",
    )


@TOPIC.claim("Which feature the ViT-B/16 tertile cuts (0.915, 0.927) belong to", "app:cross-arch-multiseed")
def vit_tertile_feature(paper: Paper) -> Finding:
    text = paper.said_text("ViT tertile cuts", "feature in the text")
    figure = paper.said_text("ViT tertile cuts", "feature in the figure")
    return decide(
        text == figure, text, figure, "the text names one feature, the caption of fig:priority2-vit the other"
    )
