"""Claims about the sensitivity studies: bandwidth, second feature, size of the calibration set and clipping."""

import math
from functools import partial

from engine.paper.claims.compare import cells_agree, equal, marks, quoted, same, show
from engine.paper.claims.registry import Finding, Paper, all_of, claim, decide, register
from engine.paper.claims.rounding import Rounded, ordered
from engine.paper.published import AR_CONDCAL, TS

_BANDWIDTH_TABLE, _SCOTT = "bandwidth", "1× Scott"


def _change(first: str, second: str, paper: Paper) -> Rounded:
    one, other = (paper.value(_BANDWIDTH_TABLE, row, "Worst-tertile ECE") for row in (first, second))
    return one - other


register("cross_validation_change", same, "bandwidth", "CV-NLL change", partial(_change, "CV-NLL", _SCOTT))
register("oracle_change", same, "bandwidth", "oracle reduction", partial(_change, _SCOTT, "Oracle-ECE"))


@claim
def changes_within_std(paper: Paper) -> Finding:
    said = paper.said("bandwidth", "cross-run std")
    rows = (_SCOTT, "CV-NLL", "Oracle-ECE")
    parts = [(f"std of {row}", said.may_equal(paper.std(_BANDWIDTH_TABLE, row, "Worst-tertile ECE"))) for row in rows]
    parts += [(f"change of {row}", abs(_change(row, _SCOTT, paper)).fits_within(said)) for row in rows[1:]]
    return all_of(parts, f"about {show(said, 3)}")


def _runs_listed(paper: Paper) -> str:
    runs = [paper.said_count("bandwidth runs", group) for group in paper.said_columns("bandwidth runs")]
    return f"{sum(runs)} runs, {len(runs)} groups"


register(
    "bandwidth_runs",
    equal,
    lambda paper: ", ".join(f"{paper.said_count('bandwidth', noun)} {noun}" for noun in ("runs", "groups")),
    _runs_listed,
)


@claim
def oracle_is_lowest(paper: Paper) -> Finding:
    values = paper.numbers(_BANDWIDTH_TABLE, "Global ECE")
    oracle = paper.value(_BANDWIDTH_TABLE, "Oracle-ECE", "Global ECE")
    parts = [(row, oracle.may_be_at_most(value)) for row, value in values.items()]
    return all_of(parts, "lowest")


@claim
def high_shrinkage(paper: Paper) -> Finding:
    """tanh(d^2 / 4 h^2) with h = sigma n^(-1 / (m + 4)): the gap kept when tertiles lie d apart."""
    sigma, ratio = (paper.said("Proposition 4", name) for name in ("std of r_std", "spacing over std"))
    n, m = (paper.said_count("Proposition 4", name) for name in ("calibration samples", "kernel dimension"))
    shrunk = n ** (-1 / (m + 4))
    kept = [math.tanh((spacing / shrunk) ** 2 / 4) for spacing in (ratio.value, max(ratio.low, 0.0))]
    halved = 2 * math.sqrt(math.atanh(0.5)) * sigma.value * shrunk
    return decide(
        kept[1] <= 0.5,
        "high shrinkage, tanh small",
        f"tanh = {kept[0]:.4f} at d = {ratio.value * sigma.value:g}, h = {sigma.value * shrunk:.4f}: the gap is kept; "
        f"half of it is lost where d is below {halved:.3f}",
        f"Scott's rule for sigma = {sigma.value:g}, n = {n:,}, m = {m}; little would be less than half, for any d that "
        "rounds to sigma",
    )


_FEATURES_TABLE, _VIT, _HEADLINE = "feature_ablation", "feature_ablation_vit", "vit_headline"
_DATA = ("CIFAR-10", "CIFAR-100")
_CONTROLS = {"Δ vs Conf-only": "Confidence only", "Δ vs Conf+PE": "Predictive entropy"}
_RAW, _DEPTH = "Raw (no calibration)", "Depth-variance r_std"
_AGGREGATE, _CONCENTRATION = "Aggregate routing entropy r_agg", "Routing concentration 1-r_agg"
_ROUTING = (_AGGREGATE, _CONCENTRATION, "Last-layer routing entropy H_L", _DEPTH, "Routing entropy × confidence")


def _features(paper: Paper, data: str, column: str) -> dict[str, Rounded]:
    rows = [row for row in paper.rows(_FEATURES_TABLE) if row.startswith(f"{data} / ")]
    return paper.numbers(_FEATURES_TABLE, column, rows)


def _range(data: str, column: str, paper: Paper) -> Rounded:
    values = ordered(_features(paper, data, column).values())
    return values[-1] - values[0]


for _data in _DATA:
    for _column in ("Block-AR ECE", "Full-AR ECE"):
        _key = f"feature_range_{_data.replace('CIFAR-', 'c')}_{_column[:-7].lower()}"
        register(_key, same, "feature range", f"{_data} / {_column}", partial(_range, _data, _column))


def _difference(paper: Paper, column: str) -> Finding:
    parts = []
    for data in _DATA:
        control = paper.value(_FEATURES_TABLE, f"{data} / {_CONTROLS[column]}", "Block-AR ECE")
        stated = _features(paper, data, column)
        eces = _features(paper, data, "Block-AR ECE")
        parts += [(row, stated[row].may_equal(control - ece)) for row, ece in eces.items()]
    return all_of(parts, f"{len(parts)} differences")


for _column, _control in _CONTROLS.items():
    register(f"feature_difference_{_control.split()[-1].lower()}", _difference, _column)


def _winner(values: dict[str, Rounded]) -> str:
    return min(values, key=lambda row: values[row].value)


@claim
def winner_changes(paper: Paper) -> Finding:
    winners = {}
    for data in _DATA:
        for column in ("Block-AR ECE", "Full-AR ECE"):
            best = _winner(_features(paper, data, column))
            winners[f"{data} {column[:-4]}"] = best.split(" / ", 1)[1]
    found = "; ".join(f"{cell}: {feature}" for cell, feature in winners.items())
    return decide(len(set(winners.values())) > 1, "changes", found)


@claim
def concentration_mirrors_aggregate(paper: Paper) -> Finding:
    places = [(f"{data} ", _FEATURES_TABLE, f"{data} / ") for data in _DATA] + [("ViT-B/16 ", _VIT, "")]
    parts = []
    for name, table, prefix in places:
        for column in paper.columns(table):
            one, other = (paper.value(table, f"{prefix}{row}", column) for row in (_AGGREGATE, _CONCENTRATION))
            parts.append((f"{name}{column}", one == other))
    return all_of(parts, "equal rows")


@claim
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
    )


register("vit_ablation_marks", marks, _VIT, (), {_RAW})


@claim
def depth_variance_does_not_win(paper: Paper) -> Finding:
    rows = [row for row in paper.rows(_VIT) if row != _RAW]
    wins = [_winner(paper.numbers(_VIT, column, rows)) == _DEPTH for column in paper.columns(_VIT)]
    return decide(not all(wins), "not consistently", f"best on {sum(wins)} of {len(wins)}")


register("vit_headline_marks", marks, _HEADLINE)


@claim
def vit_tables_agree(paper: Paper) -> Finding:
    pairs = {"c100 Full-AR ECE": "c100-Full", "tin Full-AR ECE": "tin-Full", "tin Block-AR ECE": "tin-Block"}
    cells = {name: ((_HEADLINE, AR_CONDCAL, name), (_VIT, _DEPTH, column)) for name, column in pairs.items()}
    return cells_agree(paper, cells)


@claim
def vit_raw_ece(paper: Paper) -> Finding:
    found = paper.value("replication_summary", "ViT-B/16 / C-10 / Full-AR", "ECE")
    said, stated = paper.value(_VIT, _RAW, "c10-Full"), paper.cell(_VIT, _RAW, "c10-Full").printed
    return decide(said.may_equal(found), stated, show(found, 3))


register(
    "vit_tertile_feature",
    equal,
    lambda paper: paper.said_text("ViT tertile cuts", "feature in the text"),
    lambda paper: paper.said_text("ViT tertile cuts", "feature in the figure"),
)


def _ends(paper: Paper, method: str) -> tuple[Rounded, Rounded]:
    return paper.said("ECE at 5000 samples", method), paper.said("ECE at 250 samples", method)


def _growth(paper: Paper, method: str) -> Finding:
    full, small = _ends(paper, method)
    how = f"{show(small, 4)} at 250 samples over {show(full, 4)} at 5,000"
    return same(paper, "growth of ECE", method, lambda _: small / full, how)


for _method in ("RCMMC", AR_CONDCAL):
    register(f"growth_{_method.lower().replace('-', '_')}", _growth, _method)


@claim
def rcmmc_loses_more(paper: Paper) -> Finding:
    factors = {method: small / full for method in ("RCMMC", AR_CONDCAL) for full, small in [_ends(paper, method)]}
    found = ", ".join(f"{method} {factor.value:.2f}" for method, factor in factors.items())
    holds = factors[AR_CONDCAL].may_be_at_most(factors["RCMMC"])
    return decide(holds, "RCMMC least robust", found)


@claim
def ts_rises_least(paper: Paper) -> Finding:
    ends = {method: _ends(paper, method) for method in (TS, "RCMMC", AR_CONDCAL)}
    rises = {method: small - full for method, (full, small) in ends.items()}
    factors = {method: small / full for method, (full, small) in ends.items()}
    least = {min(found, key=lambda method: found[method].value) for found in (rises, factors)}
    listed = ", ".join(f"{method} +{rises[method].value:.4f} (x{factors[method].value:.2f})" for method in ends)
    return decide(TS in least, "TS most sample-efficient", listed)


@claim
def ts_is_lowest(paper: Paper) -> Finding:
    reference = _ends(paper, TS)
    parts = [
        (f"{method} at {samples} samples", reference[index].may_be_at_most(_ends(paper, method)[index]))
        for method in ("RCMMC", AR_CONDCAL)
        for index, samples in enumerate((5000, 250))
    ]
    stated = quoted(paper, ("ECE at 5000 samples", TS), ("ECE at 250 samples", TS))
    return all_of(parts, stated)


register(
    "clipping_total",
    same,
    "clipping in percent",
    "total",
    lambda paper: paper.said("clipping in percent", "lower") + paper.said("clipping in percent", "upper"),
)


@claim
def clipping_worst(paper: Paper) -> Finding:
    worst = paper.said("clipping in percent", "worst cell")
    pooled = {bound: paper.said("clipping in percent", bound) for bound in ("lower", "upper")}
    parts = [(bound, rate.may_be_at_most(worst)) for bound, rate in pooled.items()]
    return all_of(parts, f"worst cell {show(worst, 2)} %")
