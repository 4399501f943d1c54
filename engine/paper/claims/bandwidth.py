"""Claims about the bandwidth of AR-CondCal."""

from __future__ import annotations

from engine.paper.claims.compare import same, show
from engine.paper.claims.paper import Paper
from engine.paper.claims.registry import Finding, Topic, all_of, decide

TOPIC = Topic("Bandwidth")

_TABLE, _WHERE, _SCOTT = "bandwidth", "app:bw-sensitivity", "1× Scott"


@TOPIC.claim("Cross-validated bandwidth changes the worst-tertile ECE by 0.0009", _WHERE)
def cross_validation_change(paper: Paper) -> Finding:
    said = paper.said("bandwidth", "CV-NLL change")
    found = paper.value(_TABLE, "CV-NLL", "Worst-tertile ECE") - paper.value(_TABLE, _SCOTT, "Worst-tertile ECE")
    return same(show(said, 4), said, found, "CV-NLL minus 1x Scott in tab:bw-sensitivity")


@TOPIC.claim("The oracle bandwidth lowers the worst-tertile ECE by 0.0003", _WHERE)
def oracle_change(paper: Paper) -> Finding:
    said = paper.said("bandwidth", "oracle reduction")
    found = paper.value(_TABLE, _SCOTT, "Worst-tertile ECE") - paper.value(_TABLE, "Oracle-ECE", "Worst-tertile ECE")
    return same(show(said, 4), said, found, "1x Scott minus Oracle-ECE in tab:bw-sensitivity")


@TOPIC.claim("Both changes lie within a cross-run standard deviation of about 0.007", _WHERE)
def changes_within_std(paper: Paper) -> Finding:
    said = paper.said("bandwidth", "cross-run std")
    rows = (_SCOTT, "CV-NLL", "Oracle-ECE")
    parts = [(f"std of {row}", said.may_equal(paper.std(_TABLE, row, "Worst-tertile ECE"))) for row in rows]
    reference = paper.value(_TABLE, _SCOTT, "Worst-tertile ECE")
    for row in rows[1:]:
        change = abs(paper.value(_TABLE, row, "Worst-tertile ECE") - reference)
        parts.append((f"change of {row}", change.fits_within(said)))
    return all_of(parts, f"about {show(said, 3)}", "standard deviations and changes of tab:bw-sensitivity")


@TOPIC.claim("Eight runs in five groups", _WHERE)
def bandwidth_runs(paper: Paper) -> Finding:
    groups = paper.said_columns("bandwidth runs")
    runs = sum(paper.said_count("bandwidth runs", group) for group in groups)
    stated = paper.said_count("bandwidth", "runs"), paper.said_count("bandwidth", "groups")
    return decide(
        stated == (runs, len(groups)),
        f"{stated[0]} runs, {stated[1]} groups",
        f"{runs} runs, {len(groups)} groups",
        "the runs listed in the text, added up",
    )


@TOPIC.claim("The oracle, which minimises the held-out ECE, has the lowest ECE of the five modes", "tab:bw-sensitivity")
def oracle_is_lowest(paper: Paper) -> Finding:
    oracle = paper.value(_TABLE, "Oracle-ECE", "Global ECE")
    parts = [(row, oracle.may_be_at_most(paper.value(_TABLE, row, "Global ECE"))) for row in paper.rows(_TABLE)]
    return all_of(parts, "lowest", "each mode's multiplier is among those the oracle chooses from, run by run")
