"""The headline of each page from what the engine says: its own answer to its own question. No Streamlit in here."""

from collections.abc import Mapping, Sequence

from app.shell.headline import Headline, State
from engine.controls import VERDICT
from engine.core.labels import capital, format_p, percent
from engine.features.search import FeatureSearch
from engine.metrics.mechanism import DepthProfile, ErrorRelation
from engine.metrics.reliability import CalibrationSummary
from engine.paper import Reading
from engine.paper.claims import ClaimResult
from engine.verdict import Verdict
from engine.verdict.cache import CacheVerdict
from engine.verdict.wording import controls_sentence

_OF_OUTCOME: Mapping[str, State] = {
    "evidence": "evidence", "no_evidence": "no_evidence", "unreliable": "cannot_tell", "untestable": "cannot_tell",
}  # fmt: skip
BENCHMARK: Mapping[str, Headline] = {
    "better": Headline("evidence", "AR-CondCal is better than both of its controls in this comparison"),
    "one_control": Headline("no_evidence", "AR-CondCal is better than one control only"),
    "worse": Headline("no_evidence", "Routing does not help here: AR-CondCal is never clearly better"),
    "mixed": Headline("cannot_tell", "Cannot tell: comparisons with the controls point both ways"),
    "within_noise": Headline("no_evidence", "Calibration with routing is no better than without, within noise"),
    "one_seed": Headline("cannot_tell", "Cannot tell: one seed says nothing about differences between seeds"),
    "no_routing": Headline("cannot_tell", "Cannot tell about routing: AR-CondCal was not fitted here"),
}
BANDWIDTH: Mapping[str, Headline] = {
    "separated": Headline("evidence", "At some bandwidth AR-CondCal leads both controls, on held-out seeds too"),
    "not_repeated": Headline("no_evidence", "Leads at some bandwidths do not repeat on held-out seeds"),
    "none": Headline("no_evidence", "No bandwidth sets AR-CondCal apart from its controls"),
    "one_seed": Headline("cannot_tell", "Cannot tell: this cell has one seed"),
    "no_routing": Headline("cannot_tell", "Cannot tell: AR-CondCal cannot be fitted with this feature"),
}
PROBES: Mapping[str, Headline] = {
    "evidence": Headline("evidence", "In this run the probe gains from routing itself"),
    "no_evidence": Headline("no_evidence", "No evidence that the uplift comes from routing"),
    "no_uplift": Headline("no_evidence", "There is no uplift to explain in this run"),
    "trace": Headline("no_evidence", "Being larger may account for the uplift"),
    "capacity": Headline("no_evidence", "Being larger may account for the uplift; one control is missing"),
    "left_over": Headline("cannot_tell", "Being larger does not explain all; one control is missing"),
    "misleading": Headline("cannot_tell", "The naive comparison misleads: two controls are missing"),
    "unreliable": Headline("cannot_tell", "Cannot tell: the error hardly varies in this run"),
    "untestable": Headline("cannot_tell", "Cannot tell: this run has nothing to probe"),
}


def of_answer(verdict: Verdict | CacheVerdict) -> Headline:
    """Overview, Matched-confidence gap and Your data: the verdict itself."""
    return Headline(_OF_OUTCOME[verdict.outcome], verdict.answer)


def of_sweep(verdict: CacheVerdict) -> Headline:
    """Sweep: whether effects repeat over the seeds of a cell."""
    several = verdict.cells[verdict.cells["n"] > 1] if verdict.pooled is not None else verdict.cells[:0]
    if verdict.pooled is None:
        return Headline("cannot_tell", verdict.answer)
    if several.empty:
        return Headline("cannot_tell", "Cannot tell whether anything repeats: no cell has two seeds")
    n_found = int(several["found"].sum())
    if n_found:
        return Headline("evidence", f"An effect in {n_found} of {len(several)} cells, pooled over their seeds")
    return Headline("no_evidence", f"No effect in any of {len(several)} cells, pooled over their seeds")


def of_null(verdict: Verdict) -> tuple[Headline, str]:
    """Permutation null: whether permuted routing gives such a gap, and what that is worth."""
    paper = verdict.paper
    if paper.p_value is None or paper.observed is None or paper.null is None:
        return Headline("cannot_tell", "Cannot tell: the gap cannot be measured in this run"), verdict.paper_sentence
    p, (low, _, high), power = format_p(paper.p_value), paper.null.percentiles, verdict.paper_power
    seen = (
        "" if power is None else f"Such a test rejects {percent(power)} of runs with an effect of the size observed. "
    )
    said = (
        f"The largest gap in accuracy is {paper.observed:.3f}. With routing permuted among samples of the same "
        f"confidence bin it lies between {low:.3f} and {high:.3f} in 95 % of permutations, so {p}. {seen}The verdict "
        "rests on the primary test; see Matched-confidence gap."
    )
    if verdict.negative is not None and verdict.negative.broken("paper"):
        return Headline("cannot_tell", "Cannot tell: this test raises false alarms on this run"), said
    if paper.p_value <= verdict.alpha:
        return Headline("evidence", f"Permuted routing seldom gives a gap this large ({p})"), said
    return Headline("no_evidence", f"Yes: permuted routing often gives a gap this large ({p})"), said


def of_controls(verdict: Verdict) -> tuple[Headline, str]:
    """Controls: what the test detects, and how often it is wrong."""
    answer, detail = controls_sentence(verdict)
    sound = verdict.negative is not None and not verdict.negative.broken(VERDICT)
    return Headline("measured" if sound else "cannot_tell", answer), detail


def of_reliability(summary: CalibrationSummary) -> Headline:
    """Reliability: the direction and size of the mean error."""
    if summary.direction == "neither":
        return Headline("measured", f"Neither clearly over- nor under-confident on average; ECE {summary.ece:.3f}")
    said = f"{summary.direction}-confident on average, with an ECE of {summary.ece:.3f}"
    return Headline("measured", capital(said))


def of_mechanism(profile: DepthProfile | None, relation: ErrorRelation, feature: str) -> Headline:
    """Mechanism: how low and high entropy is over depth; the relation to the error where there is no profile."""
    if profile is not None and len(profile.names) > 1:
        low, high = profile.mean[profile.lowest], profile.mean[profile.highest]
        return Headline("measured", f"Mean routing entropy lies between {low:.2f} and {high:.2f} over depth")
    rank = relation.spearman
    if rank is None or not rank.clear:
        return Headline("cannot_tell", f"No clear relation of {feature} with the error")
    return Headline("measured", f"The error {'rises' if rank.value > 0 else 'falls'} with {feature}")


def of_search(found: FeatureSearch, alpha: float = 0.05) -> Headline:
    """Feature lab: the best scalar beside the best on shuffled routing."""
    p = found.tests["verdict"].search_p
    if p is None or not found.matched:
        return Headline("cannot_tell", "Cannot tell: no scalar can be tested in this run")
    if p <= alpha:
        return Headline("evidence", f"The best scalar beats the search on shuffled routing ({format_p(p)})")
    return Headline("no_evidence", f"The best scalar is what shuffled routing gives ({format_p(p)})")


def of_paper(claims: Sequence[ClaimResult], readings: Sequence[Reading]) -> Headline:
    """Paper: how many statements agree, and how many conclusions hold here."""
    agree = sum(claim.outcome == "agrees" for claim in claims)
    own = [reading.outcome for reading in readings if not reading.added]
    held, checked = own.count("supported"), own.count("supported") + own.count("not supported")
    said = f"{agree} of {len(claims)} statements fit its tables; {held} of {checked} conclusions repeat"
    return Headline("measured", said)
