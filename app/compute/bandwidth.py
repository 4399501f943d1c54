"""What the Bandwidth lab shows, prepared once for all viewers. Objects are shared: do not change them."""

from dataclasses import dataclass

import pandas as pd

from app.compute.cache import load_run
from app.compute.jobs import Work, awaited
from app.compute.keep import keep
from app.state.view import View
from engine.benchmark import METRICS, BandwidthCurves, MatchedLab, Slices, Smoother
from engine.benchmark.bandwidth import LAB_MULTIPLIERS, OWN_CONTROLS, pair_on
from engine.benchmark.setup import MIN_SAMPLES, ROUTING
from engine.benchmark.smoothing import Pair
from engine.calibrators import CALIBRATORS
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import Progress
from engine.kernel import Surface
from engine.verdict.bandwidth import BandwidthVerdict

FIXED = {"0.5× Scott": 0.5, "Scott": 1.0, "2× Scott": 2.0}
CHOSEN = {"cv_nll": "CV-NLL", "oracle_ece": "oracle"}
LEADS = {
    "metric": "Metric", "lead": "Largest lead", "place": "Where", "spread": "Spread over seeds",
    "left_out": "On the held-out seed", "left_spread": "Its spread",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Prepared:
    """What can be done with a run: the lab needs logits, the smoother only a feature. `missing` says why not."""

    lab: MatchedLab | None
    smoother: Smoother | None
    missing: str = ""


@keep(max_entries=3, by=lambda view: (view.selection.run_id, view.selection.feature))  # each holds the logits of a run
def prepared(view: View) -> Prepared:
    """The whole run, cut in halves; the slice does not apply."""
    feature = view.selection.feature
    run = load_run(view.cache, view.selection.run_id, with_logits=True)
    try:
        lab = MatchedLab.prepare(run, feature)
    except (MissingData, InvalidInput) as error:
        missing = str(error)
    else:
        return Prepared(lab, lab.smoother, lab.halves.feature_note)
    if run.n_samples < MIN_SAMPLES or feature in OWN_CONTROLS:
        return Prepared(None, None, missing)
    try:
        return Prepared(None, Smoother.prepare(run, feature), missing)
    except (MissingData, InvalidInput):
        return Prepared(None, None, missing)


def waiting(prepared: Prepared) -> str:
    """What stands in the verdict's place as long as there is none."""
    if prepared.lab is not None:
        return "The verdict appears once every bandwidth has been tried on all seeds."
    rest = "" if prepared.smoother is None else " The kernel regression is shown below."
    return f"This question cannot be answered for this run: {prepared.missing}.{rest}"


def cell_runs(view: View) -> list[str]:
    """This run, then the other seeds of its cell if AR-CondCal can be fitted on this one; empty without logits."""
    own, runs = view.row, view.runs
    lab = prepared(view).lab
    if lab is None:
        return []
    if ROUTING not in lab.members or pd.isna(own["seed"]):
        return [own["run_id"]]
    cells = view.cells()
    same = (cells == cells[own["run_id"]]) & (runs.index != own["run_id"])
    others = runs[same & runs["has_logits"].astype(bool) & runs["seed"].notna()]
    return [own["run_id"], *others.sort_values("seed").index]


def curves(view: View, run_id: str) -> Work[list[BandwidthCurves]]:
    """The curves of one of `cell_runs`; none if nothing can be fitted on it.

    Another seed is prepared by its own job: when that is done, drawing the page again costs nothing.
    """
    cache, feature = view.cache, view.selection.feature
    own = prepared(view).lab if run_id == view.selection.run_id else None

    def compute(progress: Progress) -> list[BandwidthCurves]:
        progress(0.0, "preparing")
        try:
            lab = own or MatchedLab.prepare(cache.load(run_id), feature)
        except (MissingData, InvalidInput):
            return []
        return [lab.curves(progress)]

    return Work(("bandwidth-curves", run_id, feature), view.kept_by, compute)


def slices(view: View, path: str) -> Work[list[Slices]]:
    """The slices at every stop of a path."""
    smoother = prepared(view).smoother
    assert smoother is not None

    def compute(progress: Progress) -> list[Slices]:
        found = []
        for position, multiplier in enumerate(LAB_MULTIPLIERS):
            progress(position / len(LAB_MULTIPLIERS), f"regressions at {multiplier:.2g}x Scott")
            found.append(smoother.slices(pair_on(path, multiplier)))
        return found

    selection = view.selection
    return Work(("bandwidth-slices", selection.run_id, selection.feature, path), view.kept_by, compute)


@keep(max_entries=64, by=lambda view, multiplier: (view.selection.run_id, view.selection.feature, multiplier))
def surface(view: View, multiplier: Pair) -> Surface:
    """g(c, rho) at a pair of multiples, exact."""
    smoother = prepared(view).smoother
    assert smoother is not None
    return smoother.surface(multiplier)


def scores(view: View, multiplier: Pair, curves: BandwidthCurves | None) -> pd.DataFrame:
    """Every member at a pair of multiples: read off the curves where they pass, elsewhere fitted and waited for."""
    known = None if curves is None else curves.at(multiplier)
    if known is not None:
        return known
    selection, lab = view.selection, prepared(view).lab
    assert lab is not None

    def compute(progress: Progress) -> pd.DataFrame:
        rows = []
        for position, method in enumerate(lab.members):
            progress(position / len(lab.members), f"fitting {CALIBRATORS[method].label}")
            rows.append({"method": method, **lab.score(method, multiplier)})
        return pd.DataFrame(rows)

    key = ("bandwidth-scores", selection.run_id, selection.feature, multiplier)
    return awaited(Work(key, view.kept_by, compute))


def modes(curves: BandwidthCurves) -> pd.DataFrame:
    """Every member at the paper's bandwidth modes, with the name of the mode."""
    chosen = FIXED | {label: curves.marks[mode] for mode, label in CHOSEN.items() if mode in curves.marks}
    parts = {mode: curves.at((value, value)) for mode, value in chosen.items()}
    return pd.concat([part.assign(mode=mode) for mode, part in parts.items() if part is not None], ignore_index=True)


def leads(verdict: BandwidthVerdict) -> pd.DataFrame:
    """The largest lead in each metric; with several seeds also its spread, and the lead on the seed left out."""
    rows = [
        {"metric": METRICS[lead.metric].label, "lead": lead.lead, "place": lead.place} for lead in verdict.largest()
    ]
    frame = pd.DataFrame(rows)
    if verdict.carried:
        frame["spread"] = [lead.spread for lead in verdict.largest()]
        frame["left_out"] = [lead.lead for lead in verdict.carried]
        frame["left_spread"] = [lead.spread for lead in verdict.carried]
    return frame
